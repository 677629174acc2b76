"""Thresholds: labels and spans below a confidence are left out; held-out source texts tell what that costs."""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

from domadapt.data.records import Record
from domadapt.tasks.task import Prediction
from domadapt.utils.text import percent

log = logging.getLogger(__name__)
FILE = "source_dev.json"  # in a model's folder
SHOWN_THRESHOLDS = (0.0, 0.5, 0.7, 0.9)  # thresholds that cards tell of


def count_confidences(
    records: Sequence[Record], predictions: Sequence[Prediction], names: Sequence[str]
) -> dict[str, Any]:
    """Of each label or span type, how many are annotated, and of each found its confidence and whether it is right.

    >>> record, prediction = Record("1", "cars", "Fast.", label="good"), Prediction("good", 0.9)
    >>> count_confidences([record], [prediction], ["bad", "good"])["good"]
    {'gold': 1, 'found': [(0.9, True)]}
    """
    kinds: dict[str, Any] = {name: {"gold": 0, "found": []} for name in names}
    for record, prediction in zip(records, predictions, strict=True):
        if prediction.label is not None:
            kinds[str(record.label)]["gold"] += 1
            kinds[prediction.label]["found"].append((round(prediction.confidence, 4), prediction.label == record.label))
        for span in record.spans or () if prediction.label is None else ():
            kinds[span.type]["gold"] += 1
        for span in prediction.spans:
            kinds[span.type]["found"].append((round(span.confidence or 0.0, 4), span in (record.spans or ())))
    return kinds


def read_limits(threshold: Any, names: Sequence[str]) -> dict[str, float]:
    """The least confidence of each label or span type: one for all, or one for some of the names, 0 for the others.

    >>> read_limits(0.5, ["aspect", "opinion"]), read_limits({"aspect": 0.6}, ["aspect", "opinion"])
    ({'aspect': 0.5, 'opinion': 0.5}, {'aspect': 0.6, 'opinion': 0.0})
    >>> read_limits("{größe, tief: 0.6, 'hof': 0.4}", ["größe, tief", "hof"])
    {'größe, tief': 0.6, 'hof': 0.4}
    """
    if isinstance(threshold, str) and threshold[:1] == "{":  # its names have letters that Hydra can't read
        lines = re.sub(r"(:\s*[\d.e-]+\s*)(,|$)", r"\1\n", threshold[1:-1]).splitlines()  # a name may have commas
        items = [(name.strip(), value) for name, _, value in (line.rpartition(":") for line in lines)]
        items = [(name if name in names else name.strip("'\""), value) for name, value in items]
        if twice := [name for name, count in Counter(name for name, _ in items).items() if count > 1]:
            raise ValueError(f"threshold.{twice[0]}: is given twice; expected each name once")
        with suppress(ValueError):
            threshold = {name: float(value) for name, value in items}
    each = threshold if isinstance(threshold, Mapping) else dict.fromkeys(names, threshold)
    given = {str(name): value for name, value in each.items()}
    for name, value in given.items():
        if name not in names:
            known = ", ".join(map(repr, names))
            raise ValueError(f"threshold.{name}: the model has no such label or type; expected one of {known}")
        if isinstance(value, bool) or not (isinstance(value, Real) and not value < 0 and value <= 1):  # NumPy's, too
            example = f"threshold={{{names[0]}: 0.6}}"
            raise ValueError(f"threshold={value!r}: expected a number from 0 to 1, or one for each name: '{example}'")
    return {name: float(given.get(name, 0)) for name in names}


def apply_limits(prediction: Prediction, limits: Mapping[str, float]) -> Prediction:
    """A prediction without what lies below the thresholds: no label, fewer spans. Confidences are as they are shown.

    >>> apply_limits(Prediction("good", 0.91236), {"good": 0.9124}).label
    'good'
    """
    if prediction.label is not None:
        sure = round(prediction.confidence, 4) >= limits[prediction.label]
        return prediction if sure else replace(prediction, label=None)
    kept = (span for span in prediction.spans if round(span.confidence or 0.0, 4) >= limits[span.type])
    return replace(prediction, spans=tuple(kept))


def rate_sentences(folder: Path, limits: Mapping[str, float]) -> Iterator[str]:
    """In words: precision and recall at the thresholds, where the model has kept what its source dev shows."""
    if not any(limits.values()):
        return
    if not (about := source_dev(folder)):
        yield f"threshold: precision and recall at it are not known of this model, which has no {FILE}"
        return
    for name, limit in limits.items():
        precision, recall = rates(about["kinds"][name], limit)
        where = f"{about['texts']} held-out texts of {about['source']}"
        yield f"{name} from {limit:g}: precision {precision}, recall {recall} on {where}"


def source_dev(folder: Path) -> dict[str, Any]:
    """What :func:`count_confidences` gave of a model's source dev, as ``kinds``, with ``source`` and ``texts``; empty
    if that is not there, or damaged."""
    path = folder / FILE
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        for kind in about.get("kinds", {}).values():
            rates(kind, 0.0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("left out: %s is damaged (%s); copy it again", path, error)
        return {}
    return about


def rates(kind: Mapping[str, Any], limit: float) -> tuple[str, str]:
    """Precision and recall of a label or span type from a confidence on.

    >>> rates({"gold": 2, "found": [(0.9, True), (0.4, False)]}, 0.0), rates({"gold": 0, "found": []}, 0.5)
    (('50 %', '50 %'), ('none found', 'none annotated'))
    """
    found, gold = [right for sure, right in kind["found"] if sure >= limit], kind["gold"]
    precision = percent(sum(found) / len(found)) if found else "none found"
    return precision, percent(sum(found) / gold) if gold else "none annotated"
