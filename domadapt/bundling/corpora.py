"""The files that a bundle must carry: those that a configuration names and that reading it opens."""

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

from domadapt.config.instantiate import make
from domadapt.data.domains import Domains
from domadapt.runs.content import files_named, names_file
from domadapt.syntax.parser import Text
from domadapt.utils.opened import files_read


def read_all(data: dict[str, Any]) -> tuple[list[Text], set[Path]]:
    """Every text that a run may see, the sealed test's and the ceiling's among them, and the files they come from.

    Args:
        data: configuration of the corpora.
    """
    with files_read() as read:
        domains: Domains = make(data)
        texts: list[Text] = [*domains.source_train, *domains.source_dev, *domains.source_test]
        texts += domains.unlabeled.texts
        if domains.test is not None:
            texts += domains.test.open()
        if domains.ceiling is not None:  # a test of its own is a part of the test
            train, dev, _ = domains.ceiling()
            texts += [*train, *dev]
    return texts, read


class Files:
    """Files on their way into a bundle.

    Args:
        folder: where the bundle's content is put together.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, Path] = {}

    def moved(self, value: Any, name: str = "", base: Path = Path()) -> Any:
        """A configuration whose paths are those in the bundle, relative to its folder or below ``base``."""
        if isinstance(value, dict):
            return {key: self.moved(item, key, base) for key, item in value.items()}
        if isinstance(value, list):
            return [self.moved(item, name, base) for item in value]
        return (base / self._place(Path(value))).as_posix() if names_file(name, value) else value

    def take(self, config: dict[str, Any], read: set[Path] | None = None) -> None:
        """Copy what lies at or below the paths that a configuration names.

        Args:
            config: any part of a cell's configuration.
            read: take only these, and those of the package's own corpora; None for everything there.
        """
        shipped = Path(str(files("domadapt.shipped"))).resolve()
        homes = [(path.resolve(), self.folder / self._place(path)) for path in files_named(config)]
        if read is not None:
            homes.append((shipped, self.folder / "site" / "domadapt" / "shipped"))
        for home, place in homes:
            inside = sorted(home.rglob("*")) if home.is_dir() and read is None else [home]
            for path in sorted(p.resolve() for p in read if p.is_file()) if read is not None else inside:
                if path.is_file() and path.is_relative_to(home):
                    copy = place / path.relative_to(home) if path != home else place
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, copy)

    def _place(self, path: Path) -> Path:
        """Where a named file or folder lies in the bundle: files of one folder stay together."""
        path = path.resolve()
        home = path if path.is_dir() else path.parent
        label, number = home.name or "root", 1
        while self._places.setdefault(label, home) != home:
            number += 1
            label = f"{home.name}-{number}"
        return Path("corpora", label, *([] if path.is_dir() else [path.name]))
