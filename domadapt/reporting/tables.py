"""The result table: target score, interval over seeds, source score, gap closed."""

from collections.abc import Sequence
from typing import Any


def text_table(metrics: Sequence[dict[str, Any]]) -> str:
    """placeholder until the report lands"""
    lines = []
    for m in metrics:
        t = m["target_test"] or {}
        lines.append(f"{m['source']}->{m['target']} {m['method']} {m['seed']} " + " ".join(f"{k}={100 * v:.1f}" for k, v in t.items() if k.endswith("f1")))
    return "\n".join(lines)
