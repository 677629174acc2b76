"""An existing model on labelled texts, and two models on the same texts."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from domadapt.cli.verbs import column
from domadapt.data.domains import TargetUnlabeled
from domadapt.data.readers import read
from domadapt.data.records import Record
from domadapt.data.streams import open_texts
from domadapt.inference.description import model_folder, read_description
from domadapt.runs.target_card import read_card
from domadapt.utils.files import refuse_overwriting, write_atomic
from domadapt.utils.text import cut, visible

if TYPE_CHECKING:
    from domadapt.statistics.items import ItemCounts
    from domadapt.tasks.task import Prediction, Task

FEW = 30  # labelled texts below which an interval says little
SHOWN, LONGEST = 10, 160  # texts that compare prints, and their characters


def score_file(cfg: DictConfig) -> str:
    """Score a model on a labelled file; ``output`` takes each text with its gold labels and the predicted ones.

    Args:
        cfg: a composed ``score.yaml``.

    Raises:
        ValueError: the model or the file can't be read, or the file has labels that the model does not know.
    """
    folder, path = model_folder(str(cfg.model)), Path(str(cfg.input))
    read_description(folder)
    if cfg.output is not None:
        refuse_overwriting(Path(str(cfg.output)), [path, *folder.rglob("*")])
    columns = {name: (str(cfg[key]),) for name, key in (("text", "column"), ("label", "label")) if cfg[key] is not None}
    corpus = read(path, domain="target", format=cfg.format, columns=columns or None)
    labelled = [r for r in corpus.records if r.label is not None or r.spans is not None]
    if not labelled:
        raise ValueError(f"input={path}: none of its {len(corpus.records)} texts has a label; label some of them first")
    from domadapt.inference.model import load

    model = load(folder, cfg.device, str(cfg.precision), cfg.trust_code)
    task, warnings = model.session.task, Counter(corpus.warnings)
    records = task.usable(tuple(labelled), warnings)
    task.check(records)
    predictions = model.predict_texts(TargetUnlabeled.from_records("target", records).texts)
    if cfg.output is not None:
        lines = [json.dumps(_line(r, p), ensure_ascii=False) + "\n" for r, p in zip(records, predictions, strict=True)]
        write_atomic(Path(str(cfg.output)), "".join(lines))
    left_out = len(corpus.records) - len(records)
    told = [
        f"{folder}: {len(records)} labelled texts of {path.name}"
        + (f"; {left_out} without a label are left out" if left_out else "")
    ]
    told += _table(task, records, predictions)
    told += [f"  {message} ({count} times)" for message, count in sorted(warnings.items())]
    if model.truncated:
        told.append(
            f"  {model.truncated} texts are longer than {model.session.max_pieces} pieces; their rest is not read"
        )
    if len(records) < FEW:
        told.append(f"  {len(records)} texts are few: read the range, not the number")
    card = read_card(folder.parent)
    if card is not None and card.expected is not None:
        score, low, high = (100 * share for share in (card.expected.score, card.expected.low, card.expected.high))
        told.append(f"  Without labels the card expected {score:.1f} ({low:.1f} to {high:.1f}, nine times in ten)")
    return "\n".join(told)


def _table(task: "Task", records: Sequence[Record], predictions: Sequence["Prediction"]) -> Iterator[str]:
    """Scores with their 95 % intervals over texts: of this model as it is, not of training again."""
    from domadapt.statistics.items import Answer, counted
    from domadapt.statistics.resampling import interval, mean_of, resampled_scores

    rows = [
        Answer(r.id, r.text, _gold(r, task.kind), _found(p, task.kind))
        for r, p in zip(records, predictions, strict=True)
    ]
    scores = task.score(records, predictions)
    kinds = sorted({str(r.label) for r in records}) if task.kind == "sequence" else list(getattr(task, "types", ()))
    average = "micro" if task.headline == "accuracy" else str(getattr(task, "average", "macro"))

    def line(name: str, items: "ItemCounts", more: str) -> str:
        found = interval(mean_of([items.score], resampled_scores([items])))
        low, high = max(0.0, found.low or 0.0), min(1.0, found.high or 1.0)
        return f"  {visible(name):20} {100 * items.score:5.1f}  ({100 * low:.1f} to {100 * high:.1f}){more}"

    yield f"  {'':20} {'F1':>5}  (95 % over texts)"
    yield line(task.headline.replace("_f1", " F1"), counted(rows, kinds, average), "")
    for kind in kinds:
        extra = {name: scores.get(f"{kind}_{name}") for name in ("precision", "recall")}
        parts = [f"{name} {100 * value:.1f}" for name, value in extra.items() if value is not None]
        count = f"{scores.get(f'{kind}_support', 0):.0f} labelled"
        yield line(kind, counted(rows, [kind], "macro"), f"  {', '.join([*parts, count])}")
    if task.kind == "sequence":
        yield f"  {'accuracy':20} {100 * scores['accuracy']:5.1f}"


def _gold(record: Record, kind: str) -> set[Any]:
    return {record.label} if kind == "sequence" else {(s.start, s.end, s.type) for s in record.spans or ()}


def _found(prediction: "Prediction", kind: str) -> set[Any]:
    return {prediction.label} if kind == "sequence" else {(s.start, s.end, s.type) for s in prediction.spans}


def _line(record: Record, prediction: "Prediction") -> dict[str, Any]:
    kind = "sequence" if record.label is not None else "token"
    row: dict[str, Any] = {"id": record.id, "text": record.text}
    if kind == "sequence":
        return {**row, "label": record.label, "predicted": prediction.label}
    for name, spans in (("spans", _gold(record, kind)), ("predicted", _found(prediction, kind))):
        row[name] = [dict(zip(("start", "end", "type"), span, strict=True)) for span in sorted(spans)]
    return row


def compare_models(cfg: DictConfig) -> str:
    """What two models label differently in the same texts; ``output`` takes every such text.

    Args:
        cfg: a composed ``compare.yaml``.

    Raises:
        ValueError: a model or the file can't be read, or the models are of different tasks.
    """
    folders = [model_folder(str(cfg[name])) for name in ("model", "other")]
    for folder in folders:
        read_description(folder)
    if cfg.output is not None:
        refuse_overwriting(
            Path(str(cfg.output)), [Path(str(cfg.input)), *(f for one in folders for f in one.rglob("*"))]
        )
    warnings = Counter[str]()
    texts = list(open_texts(str(cfg.input), cfg.format, warnings, column(cfg))[1])
    from domadapt.inference.model import load

    found: list[list[Prediction]] = []
    kinds = []
    for folder in folders:
        model = load(folder, cfg.device, str(cfg.precision), cfg.trust_code)
        found.append(model.predict_texts(texts))
        kinds.append(model.session.task.kind)
    if kinds[0] != kinds[1]:
        raise ValueError(f"{folders[0]} and {folders[1]}: one labels whole texts, the other finds spans")
    rows = [
        {"id": text.id, "text": text.text, "a": _found(a, kinds[0]), "b": _found(b, kinds[0])}
        for text, a, b in zip(texts, *found, strict=True)
        if _found(a, kinds[0]) != _found(b, kinds[0])
    ]
    if cfg.output is not None:
        lines = [json.dumps({**row, "a": sorted(row["a"]), "b": sorted(row["b"])}, ensure_ascii=False) for row in rows]
        write_atomic(Path(str(cfg.output)), "".join(line + "\n" for line in lines))
    told = [f"a: {folders[0]}", f"b: {folders[1]}", f"{len(rows)} of {len(texts)} texts are labelled differently"]
    if kinds[0] == "sequence":
        moved = Counter((min(row["a"]), min(row["b"])) for row in rows)
        told += [f"  {count:5}  {visible(a)} → {visible(b)}" for (a, b), count in moved.most_common()]
    else:
        told += _only(rows)
    told += [f"\n{_shown(row, kinds[0])}" for row in islice(rows, SHOWN)]
    return "\n".join(told)


def _only(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of spans, what one model finds and the other does not, most frequent first."""
    for name, other in (("a", "b"), ("b", "a")):
        lost = Counter(
            (kind, " ".join(row["text"][start:end].lower().split()))
            for row in rows
            for start, end, kind in row[name] - row[other]
        )
        common = ", ".join(f"{visible(words)} ({count})" for (_, words), count in lost.most_common(SHOWN))
        yield f"  found by {name} alone: {lost.total()} spans{': ' if common else ''}{common}"


def _shown(row: Mapping[str, Any], kind: str) -> str:
    text, _ = cut(row["text"], LONGEST)

    def labels(found: set[Any]) -> str:
        if kind == "sequence":
            return visible(str(min(found)))
        return ", ".join(f"{visible(row['text'][s:e])} [{visible(t)}]" for s, e, t in sorted(found)) or "nothing"

    return f"  {visible(text)}\n    a: {labels(row['a'])}\n    b: {labels(row['b'])}"
