"""Names that configurations compute: of the pair and of the method."""

from typing import Any

from omegaconf import OmegaConf


def pair_name(data: Any) -> str:
    """``SOURCE_to_TARGET``.

    >>> pair_name({"source": {"name": "camera"}, "target": "laptop"})
    'camera_to_laptop'
    """
    if "pair" in data:
        return str(data["pair"])
    names = [data[side]["name"] if hasattr(data[side], "keys") else data[side] for side in ("source", "target")]
    return "_to_".join(str(name) for name in names)


def method_name(train_on: str, backbone: Any, injection: Any, adaptation: Any, control: Any) -> str:
    """What a run is called in tables: its methods, and after an @ its control.

    >>> method_name("source", {"_target_": "x.Encoder"}, {"lisa": {}}, {"masked_lm": {}}, {})
    'lisa+masked_lm'
    >>> method_name("source", {"_target_": "x.Encoder"}, {"gnn": {}}, {}, {"linear": {}})
    'gnn@linear'
    """
    added = [*(injection or {}), *(adaptation or {})]
    if str(backbone.get("_target_", "")).endswith("BiLSTM"):
        added = ["rnn_from_scratch", *added]
    if train_on == "target":
        added = ["in_domain", *added]
    return "@".join(["+".join(str(name) for name in added) or "source_only", *map(str, control or {})])


def register() -> None:
    """Make the names known to OmegaConf; harmless if repeated."""
    OmegaConf.register_new_resolver("pair_name", pair_name, replace=True)
    OmegaConf.register_new_resolver("method_name", method_name, replace=True)
