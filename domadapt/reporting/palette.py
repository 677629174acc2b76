"""One colour a method, the same in every figure of a report."""

from collections.abc import Sequence

from matplotlib.colors import to_hex, to_rgb

from domadapt.reporting.rows import owner
from domadapt.runs.groups import Pair

# Okabe and Ito's palette: told apart by colour-blind readers, visible on white and on black.
STANDING = {"floor": "#bdbdbd", "rnn_from_scratch": "#8c8c8c", "source_only": "#0072b2", "in_domain": "#009e73"}
# The rest of it, then Tol's muted one.
ADAPTED = ("#e69f00", "#d55e00", "#cc79a7", "#56b4e9", "#aa4499", "#999933", "#6699cc", "#882255")
LIGHTER = 0.5  # of a control: the share of what its method's colour lacks to white


def palette(pairs: Sequence[Pair]) -> dict[str, str]:
    """Colours by the methods' names; a control has its method's, lighter.

    Args:
        pairs: of the report.

    >>> from domadapt.runs.groups import Method
    >>> from domadapt.runs.metrics import Metrics
    >>> gnn = Metrics(method="gnn", config={"benchmark": {"controls": {"gnn": "shuffled"}}})
    >>> methods = Method("gnn", "adapted", (gnn,)), Method("shuffled", "control", (Metrics(method="shuffled"),))
    >>> palette([Pair("a → b", "span_f1", "extraction", methods)])
    {'gnn': '#e69f00', 'shuffled': '#f2cf80'}
    """
    every = {method.name: (pair, method) for pair in pairs for method in pair.methods}
    own = sorted(name for name, (_, method) in every.items() if method.role not in (*STANDING, "control"))
    found = {name: ADAPTED[place % len(ADAPTED)] for place, name in enumerate(own)}
    found |= {name: STANDING[method.role] for name, (_, method) in every.items() if method.role in STANDING}
    for name, (pair, method) in every.items():
        if method.role == "control":
            lead = owner(pair, method)
            found[name] = _lighter(found[lead.name] if lead else STANDING["rnn_from_scratch"])
    return found


def _lighter(color: str) -> str:
    red, green, blue = (part + LIGHTER * (1 - part) for part in to_rgb(color))
    return to_hex((red, green, blue))
