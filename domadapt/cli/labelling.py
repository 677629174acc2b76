"""Labels of people and saved models: texts to have labelled, scores on labelled ones, two models compared."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domadapt.cli.verbs import JSON_LINES, column, file_ending, input_file, labeller
from domadapt.config.compose import Settings
from domadapt.config.overrides import in_range
from domadapt.data.domains import TargetUnlabelled, UnlabelledText
from domadapt.data.readers import read
from domadapt.data.records import DataError, Record, unsayable
from domadapt.data.streams import open_texts
from domadapt.data.texts import copy_key, sampled
from domadapt.inference.description import files_of, labels_read, model_folder, read_description, short_hash
from domadapt.inference.light import Exported, is_exported
from domadapt.runs.key import hash_of
from domadapt.runs.target_card import read_card
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import labels_of
from domadapt.utils.files import refuse_overwriting, write_atomic
from domadapt.utils.pairs import text_fields
from domadapt.utils.text import counted, escape_controls, json_lines, shortened, warning_lines

if TYPE_CHECKING:
    from domadapt.inference.model import Model
    from domadapt.tasks.task import Prediction, Task

FEW_LABELLED = 30  # labelled texts below which an interval says little
SHOWN_ROWS, LONGEST_TEXT, LONGEST_SPAN = 10, 160, 40  # texts that compare prints, their characters, those of a span
EXAMPLES = 10  # labelled source texts in the prompt


def score(cfg: Settings) -> str:
    """Scores of a model on a labelled file; ``output`` takes each text with its gold labels and the predicted ones."""
    (folder, *other), path = _folders(cfg, "model", "baseline"), input_file(cfg.input)
    columns = {name: (one,) for name, one in zip(("text", "text_pair"), column(cfg), strict=False)}
    columns |= {} if cfg.label is None else {"label": (str(cfg.label),)}
    corpus = read(path, domain="target", format=cfg.format, columns=columns or None)
    labelled = tuple(r for r in corpus.records if r.label is not None or r.spans is not None)
    if not labelled:
        fix = "label some of them first, or name their column: label=COLUMN"
        raise ValueError(f"input={path}: none of its {len(corpus.records)} texts has a label; {fix}")
    for one in (folder, *other):
        try:
            _refuse_labels(one, labelled)
        except DataError as error:
            if one == folder:
                raise
            fix = "give a baseline with the model's labels, or compare the two"
            raise ValueError(
                f"baseline={cfg.baseline} has {error.expected}; {error.where}: {error.field} is {error.value!r}; {fix}"
            ) from None
    texts, warnings = TargetUnlabelled.from_records("target", labelled).texts, Counter(corpus.warnings)
    models = [labeller(cfg, one, texts, exact=True) for one in (folder, *other)]
    task = models[0].task
    records = task.usable(labelled, warnings)
    for model in models:
        model.task.check(records)
    texts = TargetUnlabelled.from_records("target", records).texts
    predictions, *beside = [model.predict_texts(texts) for model in models]
    baseline = next(iter(beside), None)
    if cfg.output is not None:
        rows = [_row(record, one, task.kind) for record, one in zip(records, predictions, strict=True)]
        write_atomic(Path(str(cfg.output)), "".join(json_lines(rows)))
    left_out = len(corpus.records) - len(records)
    head = f"{folder}: {counted(len(records), 'labelled text')} of {path.name}"
    head += f"; {left_out} without a label are left out" if left_out else ""
    lines = [head, *_table(task, records, predictions, baseline), *_notes(warnings, *models)]
    if any(r.confidence is not None or any(s.confidence is not None for s in r.spans or ()) for r in records):
        lines.append("  the labels have confidences: a model wrote them, and the scores say how alike the two label")
    crossed, inside = map(sum, zip(*map(unsayable, records), strict=True))
    if crossed or inside:
        found = f"labelled spans that overlap another: {crossed}; that begin or end inside a word: {inside}"
        lines.append(f"  {found}; predictions hardly ever equal them")
    for name, one in zip(("model", "baseline"), (folder, *other), strict=False):
        if learned := _learned_from(one, path, records):
            lines.append(f"  the {name} has learned from labels {learned}: such scores say little of other texts")
    if len(records) < FEW_LABELLED:
        lines.append(f"  {counted(len(records), 'text is', 'texts are')} few: read the range, not the number")
    card = read_card(folder.parent) if folder.name == "model" else None  # what else lies there is another model
    if card is not None and card.expected is not None:
        mean, low, high = (100 * share for share in (card.expected.score, card.expected.low, card.expected.high))
        lines.append(f"  Without labels the card expected {mean:.1f} ({low:.1f} to {high:.1f}, nine times in ten)")
    return "\n".join(lines)


def _folders(cfg: Settings, *names: str) -> list[Path]:
    """Of the models that are named, once they are known to do one thing, and ``output`` would overwrite no file."""
    file_ending(cfg.output, "score" if "baseline" in names else "compare", *JSON_LINES)
    folders = [model_folder(str(model)) for name in names if (model := getattr(cfg, name)) is not None]
    spans = [
        Exported(f).task.kind == "token" if is_exported(f) else "types" in read_description(f).task for f in folders
    ]
    if len({*spans}) > 1:
        does = [f"{f} {'finds spans' if its else 'labels whole texts'}" for f, its in zip(folders, spans, strict=True)]
        raise ValueError(f"{' and '.join(does)}; expected two models of one task, such as RUN/source_only and RUN")
    read = [input_file(cfg.input), *(file for folder in folders for file in files_of(folder))]
    refuse_overwriting(cfg.output, read, mark='"predicted": ' if "baseline" in names else '"a": .*"b": ')
    return folders


def _refuse_labels(folder: Path, records: Sequence[Record]) -> None:
    """Refuse labels that a model of ours does not know, before torch is loaded to load it."""
    if is_exported(folder):
        exported_task = Exported(folder).task
        return exported_task.check(exported_task.usable(tuple(records), Counter()))
    task = read_description(folder).task
    labels, types = task.get("labels"), task.get("types")
    if str(task.get("_target_")).startswith("domadapt.tasks.") and isinstance(types or labels, list):
        known: Task = Extraction(types) if types else Classification(labels, pairs=bool(task.get("pairs")))
        known.check(known.usable(tuple(records), Counter()))


def _learned_from(folder: Path, path: Path, records: Sequence[Record]) -> str:
    """Of which texts of a file a model, or one that it went on or learned from, was given the labels; empty if none."""
    read = labels_read(folder if is_exported(folder) else folder / "encoder")
    if any(hash_of(path) in one.files for one in read):
        return "in this file"
    known = {text for one in read for text in one.texts.split()}
    count = sum(short_hash(record.text) in known for record in records)
    return f"of {count} of these {len(records)} texts, or of copies of them" if count else ""


def _notes(warnings: Counter[str], *models: "Model | Exported") -> Iterator[str]:
    """What was mended in a file, and what models did not read of it."""
    for model in models:
        warnings = warnings | model.warnings  # those of two models are of the same texts
    yield from (f"  {line}" for line in warning_lines(warnings))
    for cut, limit in dict.fromkeys((model.truncated, model.longest) for model in models if model.truncated):
        yield f"  {counted(cut, 'text is', 'texts are')} longer than {limit} subwords; the rest is not read"


def _table(task: "Task", records: Sequence[Record], predictions: Any, baseline: Any = None) -> Iterator[str]:
    """Scores, and the gain over a baseline, with 95 % intervals over texts: of models as they are, not trained anew."""
    from domadapt.statistics.items import Answer, count_items
    from domadapt.statistics.resampling import interval, items_test, mean_of, resampled_scores, score_interval

    gold = [labels_of(r, task.kind) for r in records]
    scores = task.score(records, predictions)
    kinds = sorted({str(r.label) for r in records}) if task.kind == "sequence" else list(getattr(task, "types", ()))
    average = "micro" if task.headline == "accuracy" else str(getattr(task, "average", "macro"))
    every = kinds
    if task.headline == "accuracy":  # what is wrongly predicted counts, too, the baseline's own labels among it
        every = sorted({*task.names, *(str(p.label) for p in baseline or ())})

    def counts(predicted: Sequence["Prediction"], kinds: list[str], average: str) -> Any:
        rows = zip(records, gold, predicted, strict=True)
        answers = [Answer(r.id, r.text, labels, labels_of(p, task.kind)) for r, labels, p in rows]
        return count_items(answers, kinds, average)

    def line(name: str, kinds: list[str], average: str, suffix: str) -> str:
        items = counts(predictions, kinds, average)
        ends = score_interval(mean_of([items.score], resampled_scores([items])))
        low, high = ends.low or 0.0, 1.0 if ends.high is None else ends.high
        concerned = int(items.counts.any(axis=(1, 2)).sum())  # texts that have, or are given, one of these kinds
        if items.score in (0, 1) and concerned:  # drawn again, so is it: what so few allow (Clopper & Pearson 1934)
            chance = 0.025 ** (1 / concerned)
            low, high = (chance, 1.0) if items.score else (0.0, 1 - chance)
        return f"  {escape_controls(name):20} {100 * items.score:5.1f}  ({100 * low:.1f} to {100 * high:.1f}){suffix}"

    yield f"  {'':20} {'F1':>5}  (95 % over texts)"
    yield line(headline := task.headline.replace("_f1", " F1"), every, average, "")
    if baseline is not None:
        both = [counts(predicted, every, average) for predicted in (predictions, baseline)]
        drawn = resampled_scores(both)
        gain = interval(mean_of([both[0].score - both[1].score], drawn[:, :1] - drawn[:, 1:]))
        [(p, _)] = items_test([(both[:1], both[1:])])
        low, value, high = (100 * (number or 0) for number in (gain.low, gain.mean, gain.high))
        yield f"  {'baseline':20} {100 * both[1].score:5.1f}"
        yield f"  {'gain over it':20} {value:+5.1f}  ({low:+.1f} to {high:+.1f})  p = {p:.2g} (permutation test)"
    for kind in kinds:
        extra = {name: scores.get(f"{kind}_{name}") for name in ("precision", "recall")}
        parts = [f"{name} {100 * value:.1f}" for name, value in extra.items() if value is not None]
        count = f"{scores.get(f'{kind}_support', 0):.0f} labelled"
        yield line(kind, [kind], "macro", f"  {', '.join([*parts, count])}")
    if task.kind == "sequence" and headline != "accuracy":
        yield f"  {'accuracy':20} {100 * scores['accuracy']:5.1f}"
        if absent := [name for name in task.names if name not in kinds]:
            names = ", ".join(map(escape_controls, absent))
            yield f"  no text is labelled {names}: the mean leaves {'them' if len(absent) > 1 else 'it'} out"


def _row(record: Record, prediction: "Prediction", kind: str) -> dict[str, Any]:
    row: dict[str, Any] = {"id": record.id, **text_fields(record.text)}
    if kind == "sequence":
        return {**row, "label": record.label, "predicted": prediction.label}
    for name, side in (("spans", record), ("predicted", prediction)):
        row[name] = [dict(zip(("start", "end", "type"), span, strict=True)) for span in sorted(labels_of(side, kind))]
    return row


def compare(cfg: Settings) -> str:
    """What two models label differently in the same texts; ``output`` takes every such text."""
    folders, warnings = _folders(cfg, "model", "other"), Counter[str]()
    texts = list(open_texts(str(cfg.input), cfg.format, warnings, column(cfg))[1])
    models = [labeller(cfg, folder, texts) for folder in folders]
    kind = models[0].task.kind
    predicted = [[labels_of(prediction, kind) for prediction in model.predict_texts(texts)] for model in models]
    differing = [(text, a, b) for text, a, b in zip(texts, *predicted, strict=True) if a != b]
    rows: list[dict[str, Any]] = [{"id": text.id, "text": text.text, "a": a, "b": b} for text, a, b in differing]
    if cfg.output is not None:
        written = (row | text_fields(row["text"]) | {name: sorted(row[name]) for name in "ab"} for row in rows)
        write_atomic(Path(str(cfg.output)), "".join(json_lines(written)))
    lines = [f"a: {folders[0]}", f"b: {folders[1]}", f"{len(rows)} of {len(texts)} texts are labelled differently"]
    lines += _notes(warnings, *models)
    if kind == "sequence":
        moved = Counter((min(row["a"]), min(row["b"])) for row in rows)
        lines += [f"  {count:5}  {escape_controls(a)} → {escape_controls(b)}" for (a, b), count in moved.most_common()]
    else:
        lines += [_only(rows, "a", "b"), _only(rows, "b", "a")]
    for row in rows[:SHOWN_ROWS]:
        labels = [f"    {name}: {_in_words(row['text'], row[name], kind)}" for name in ("a", "b")]
        lines += [f"\n  {shortened(row['text'], LONGEST_TEXT)}", *labels]
    return "\n".join(lines)


def _only(rows: Sequence[Mapping[str, Any]], name: str, other: str) -> str:
    """Of spans, what one model finds and the other does not, most frequent first."""
    spans = [row["text"][start:end] for row in rows for start, end, _ in sorted(row[name] - row[other])]
    counts = Counter(" ".join(words.lower().split()) for words in spans)
    common = ", ".join(f"{shortened(words, LONGEST_SPAN)} ({count})" for words, count in counts.most_common(SHOWN_ROWS))
    return f"  found by {name} alone: {counted(counts.total(), 'span')}{': ' if common else ''}{common}"


def _in_words(text: str, labels: set[Any], kind: str) -> str:
    if kind == "sequence":
        return escape_controls(str(min(labels)))
    spans = ((shortened(text[start:end], LONGEST_TEXT), escape_controls(name)) for start, end, name in sorted(labels))
    return ", ".join(f"{words} [{name}]" for words, name in spans) or "nothing"


def sample(cfg: Settings) -> str:
    """Write texts drawn at random, with places for labels, and a prompt with examples in the user's own style."""
    in_range("count", cfg.count, 1)
    file_ending(cfg.output, "sample", *JSON_LINES)
    folder = model_folder(str(cfg.model))
    about = read_description(folder)
    names, token, examples = about.names, "types" in about.task, list[Record]()
    if cfg.examples is not None:
        records = read(path := Path(str(cfg.examples)), domain="source").records
        if not (examples := [r for r in records if (r.spans if token else r.label is not None)]):
            what = "a span" if token else "a label"
            raise ValueError(f"examples={path}: none of its texts has {what}; expected the model's labelled source")
        _refuse_labels(folder, examples)
        examples = random.Random(1).sample(examples, min(EXAMPLES, len(examples)))
    output = Path(str(cfg.output))
    refuse_overwriting(output, [input_file(cfg.input)])
    for path in (output, output.with_suffix(".prompt.txt")):
        if path.exists():
            raise ValueError(f"output={output}: {path} is there already, and may hold labels; give another name")
    warnings = Counter[str]()
    given = [*open_texts(str(cfg.input), cfg.format, warnings, column(cfg))[1]]
    texts = list({copy_key(text.text): text for text in given}.values())
    if len(texts) < len(given):
        warnings["copy of another text, left out"] = len(given) - len(texts)
    chosen = sampled(texts, cfg.count, seed=1)
    place: dict[str, Any] = {"spans": None} if token else {"label": None}
    write_atomic(output, "".join(json_lines({"id": text.id, **text_fields(text.text), **place} for text in chosen)))
    try:
        write_atomic(output.with_suffix(".prompt.txt"), prompt(chosen, examples, names, token))
    except OSError:
        output.unlink()  # or the same command, run again, would spare it
        raise
    message = (
        f"{output}: {len(chosen)} of {len(texts)} texts; {output.with_suffix('.prompt.txt')}: the same as a prompt, "
        f"with {len(examples)} examples; learn from what comes back with adaptation=external_labels "
        f"adaptation.external_labels.path=FILE; to measure, label a run's fifty_to_label"
    )
    return "\n".join([message, *_notes(warnings)])


def prompt(texts: Sequence[UnlabelledText], examples: Sequence[Record], names: Sequence[str], token: bool) -> str:
    """Instructions, examples and texts, with answers in the form that external labels are read in."""
    form = '"spans": [{"text": "words as they stand in the text", "type": "TYPE"}]' if token else '"label": "LABEL"'
    other = ' "text_pair": "the other text",' if any("text_pair" in text_fields(t.text) for t in texts) else ""
    what = "mark every span of these types" if token else "give each text one of these labels"
    lines = [
        f"In the texts below, {what}: {', '.join(names)}.{' Follow the style of the examples.' if examples else ''}",
        f'Answer with one JSON object a line, and nothing else: {{"id": "...", "text": "the text",{other} {form}}}',
        *(["", "Examples:"] if examples else []),
    ]
    for record in examples:
        spans = [{"text": record.text[s.start : s.end], "type": s.type} for s in record.spans or ()]
        answer = {"spans": spans} if token else {"label": record.label}
        lines.append(json.dumps({**text_fields(record.text), **answer}, ensure_ascii=False))
    lines += ["", "Texts:", *(json.dumps({"id": t.id, **text_fields(t.text)}, ensure_ascii=False) for t in texts)]
    return "\n".join(lines) + "\n"
