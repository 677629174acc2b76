"""Shell completion: the verb is ours, what follows is Hydra's."""

import os
import sys
from collections.abc import Iterable, Sequence

FLAGS = ("-sc", "--shell-completion")


def complete(arguments: Sequence[str], verbs: Iterable[str]) -> None:
    """Print what a shell asks for: a script to install, or the words that may come next.

    Args:
        arguments: ``-sc install=bash``, or ``-sc query=bash`` with the line so far in ``COMP_LINE``.
        verbs: of the command.
    """
    import hydra

    from domadapt.config.resolvers import register

    words = os.environ.get("COMP_LINE", "").split(" ")
    verb = "train"
    if any("query=" in argument for argument in arguments):
        if len(words) < 3 or words[1] not in verbs:
            typed = words[1] if len(words) == 2 else ""
            print("\n".join(name for name in verbs if name.startswith(typed)))
            return
        verb = words[1]
        os.environ["COMP_LINE"] = " ".join([words[0], *words[2:]])  # Hydra knows of no verbs
    register()
    sys.argv[1:] = arguments
    hydra.main(version_base="1.3", config_path="pkg://domadapt.conf", config_name=verb)(lambda cfg: None)()
