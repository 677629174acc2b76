"""What configurations compute: names of the pair and of the method, and text that nothing else may evaluate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

SIDES = ("source", "target")  # of a problem; in the parser's settings each may have a pipeline of its own
ORACLE = "+oracle_selection"  # behind the name of a run whose epoch was chosen by target labels
# The parts of adaptation=recipe; a test checks that they are.
RECIPE = ("term_substitution", "self_training", "averaging")
# ``_target_`` of a task that the source says of itself; named, not imported.
AUTO = "domadapt.tasks.classification.auto"


def pair_name(data: Any) -> str:
    """``SOURCE_to_TARGET``; of several problems all sources, and the target of the first.

    >>> pair_name({"source": {"name": "camera"}, "target": "laptop"})
    'camera_to_laptop'
    >>> pair_name({"problems": {"a": {"pair": "books_to_dvd"}, "b": {"source": "kitchen", "target": "dvd"}}})
    'books+kitchen_to_dvd'
    """
    if "problems" in data:
        pairs = [pair_name(problem).partition("_to_") for problem in (data["problems"] or {}).values()]
        sources = "+".join(source for source, *_ in pairs)
        return "_to_".join([sources, *(target for *_, target in pairs[:1])]) or "several"
    if "pair" in data:
        return str(data["pair"])
    return "_to_".join(side_name(data[side], side) for side in SIDES)


def side_name(side: Any, default: str) -> str:
    """Name of a domain: as it is given, else the stems of a list of files, else ``default``.

    >>> side_name("camera", "source"), side_name({"name": None, "path": ["a/hotels.csv", "spas.csv"]}, "source")
    ('camera', 'hotels+spas')
    """
    if not hasattr(side, "keys"):
        return str(side)
    if side.get("name") is None and isinstance(side.get("path"), Sequence) and not isinstance(side["path"], str):
        return "+".join(Path(str(path)).stem for path in side["path"])
    return str(side.get("name") or default)


def own_files(data: Any) -> bool:
    """Whether a problem is a user's own files, for which no protocol names epochs."""
    parts = (data.get("problems") or {}).values() if "problems" in data else [data]
    return any(str(part.get("_target_")).endswith(".my_files") for part in parts)


def method_name(
    train_on: str,
    backbone: Any,
    injection: Any,
    adaptation: Any,
    control: Any,
    target_labels: int | str = 0,
    rule_baseline: Any = None,
) -> str:
    """What a run is called in tables: its methods, target labels that it was given, and after an @ its control.

    >>> named = lambda *methods: method_name("source", {"_target_": "x.Encoder"}, *methods)
    >>> named({"lisa": {}}, {"masked_lm": {}}, {}), named({"gnn": {}}, {}, {"linear": {}}), named({}, {}, {}, 32)
    ('lisa+masked_lm', 'gnn@linear', 'source_only+32_labels')
    >>> named({"gnn": {}}, dict.fromkeys([*RECIPE, "guidelines"], {}), {}), named({}, {}, {}, 0, {"path_rules": {}})
    ('recipe+gnn+guidelines', 'path_rules')
    """
    added = [*(rule_baseline or {}), *(injection or {}), *(adaptation or {})]
    if set(RECIPE) <= {*added}:
        added = ["recipe", *(name for name in added if name not in RECIPE)]
    if str(backbone.get("_target_", "")).endswith("BiLSTM"):
        added = ["rnn_from_scratch", *added]
    if train_on == "target":
        added = ["in_domain", *added]
    called = with_labels_once("+".join(str(name) for name in added) or "source_only", target_labels)
    return "@".join([called, *map(str, control or {})])


def with_labels_once(name: str, target_labels: int | str) -> str:
    """A method's name, and how many target labels it was given, a number or ``all``, unless it says so already.

    >>> with_labels_once("mine", 32), with_labels_once("gnn+32_labels@linear", 32), with_labels_once("mine", 0)
    ('mine+32_labels', 'gnn+32_labels@linear', 'mine')
    """
    added = f"+{target_labels}_labels" if target_labels else ""
    return name if added in name else name + added


def role(config: dict[str, Any]) -> str:
    """Which bar of the report a run is: those that stand, or one between."""
    if config["train_on"] == "target":
        return "in_domain"
    if config.get("target_labels"):  # no baseline, whatever it is built of
        return "adapted"
    if config.get("rule_baseline"):
        return "rule_baseline"
    if config["backbone"].get("_target_", "").endswith("BiLSTM"):
        return "rnn_from_scratch"
    return "adapted" if config["injection"] or config["adaptation"] else "source_only"


def register() -> None:
    """Make the names known to OmegaConf; harmless if repeated."""
    OmegaConf.register_new_resolver("plain", lambda text: bytes.fromhex(text[1:]).decode("utf-8"), replace=True)
    OmegaConf.register_new_resolver("pair_name", pair_name, replace=True)
    OmegaConf.register_new_resolver("method_name", method_name, replace=True)
