"""The card of a run without target labels: what it predicts, the score to expect, warnings."""

import logging
import math
import os
import random
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from domadapt.analysis.expected import FEWEST_DEV
from domadapt.auditing.audit import Audit, audit, write_audit
from domadapt.config.overrides import quoted, train_arguments
from domadapt.config.resolvers import own_files
from domadapt.data.domains import UnlabelledText
from domadapt.data.records import Record
from domadapt.data.texts import copy_key, words
from domadapt.methods.adaptation.guidelines import with_adverb
from domadapt.methods.session import Session
from domadapt.methods.terms import term_kinds
from domadapt.reporting.target_card import SOURCE_ONLY, as_markdown
from domadapt.runs.groups import backbone_name, typed
from domadapt.runs.metrics import Expected, Metrics, Truncation
from domadapt.runs.target_card import CardWarning, ChangedWords, Kind, ShownText, TargetCard, read_card, write_card
from domadapt.tasks.task import Prediction, Task, row
from domadapt.training.options import CHUNK, RunConfig
from domadapt.utils.files import write_atomic
from domadapt.utils.text import counted, csv_lines, cut, json_lines, listed, plain_json, read_json_lines, shortened

log = logging.getLogger(__name__)
ONE_CLASS = 0.98  # share of one label from which the model is taken to know no other
FEW_SPANS = 20  # of the source-only model, below which their number says nothing
MUCH_WORSE = 0.1  # of a score of source dev, from its best epoch to the one that is kept
TO_LABEL = 50
SAMPLES, LONGEST = 10, 200  # texts that are shown, and their characters
WORDS, READ = 10, 20_000  # shown of each kind; texts that are counted for them
FEW_STEPS, FEW_DEV, CUT = 100, FEWEST_DEV, 0.1  # below or above which a warning is due
# Labelled and raw texts of the smallest domains that the recipe was measured on: spans, whole texts.
MEASURED_SIZES = {"token": (371, 100), "sequence": (1300, 1700)}
PRONOUNS = frozenset({"they", "them", "it", "this", "these", "those", "one", "ones"})  # some guidelines have them
DOMAIN_DIFFERENCES = ("vocabulary", "shift")  # kinds of findings: target and source differ
COMPARE = "domadapt compare {source_only} {run} input={run}/predictions.jsonl"
Found = tuple[str, int, int, str]  # a text, and a span of it: start, end, type


def score_warnings(
    task: Task,
    records: Sequence[Record],
    predictions: Sequence[Prediction],
    curve: Sequence[Mapping[str, Any]],
    epoch: int,
) -> Iterator[str]:
    """Why not to take a score on the target test at its word, one sentence each; ``epoch`` is the kept one."""
    dev = {line["epoch"]: float(line["source_dev"][task.headline]) for line in curve}
    best = max(dev, key=lambda candidate: dev[candidate])
    if dev[best] - dev[epoch] >= MUCH_WORSE:
        scores = f"{100 * dev[epoch]:.1f} {task.headline} and epoch {best} had {100 * dev[best]:.1f}"
        yield f"on source dev the kept epoch {epoch} has {scores}: compare with selection=source_dev"
    if task.kind == "sequence":
        held, predicted = Counter(r.label for r in records), Counter(p.label for p in predictions)
        if missing := [repr(name) for name in task.labels if not held[name]]:
            yield f"the target test has no text labelled {', '.join(missing)}: scores say nothing about these"
        if len(held) > 1:
            yield from one_class(predicted, "texts of the target test")
    elif not any(prediction.spans for prediction in predictions):
        yield f"no span is found in any of the target test's {len(records)} texts"


def one_class(predicted: Mapping[str | None, int], texts: str) -> Iterator[str]:
    """That one class is all that is predicted, or nearly so.

    >>> list(one_class({"good": 99, "bad": 1}, "target texts"))
    ["one class predicted: 99 of 100 target texts are called 'good'"]
    >>> list(one_class({"good": 9, "bad": 1}, "target texts"))
    []
    """
    total, name = sum(predicted.values()), max(predicted, key=lambda label: predicted[label])
    if predicted[name] >= ONE_CLASS * total:
        yield f"one class predicted: {predicted[name]} of {total} {texts} are called {name!r}"


def target_card(session: Session, predictions: list[Prediction], metrics: Metrics, audit: Audit | None) -> TargetCard:
    """Put together what a person wants to see of a run without target labels; ``audit`` is of its texts, if any."""
    texts, spans = session.domains.unlabelled.texts, session.task.kind == "token"
    empty = sum(not p.spans for p in predictions) if spans else 0
    now = [row(text, prediction, session.task.kind) for text, prediction in zip(texts, predictions, strict=True)]
    kinds = tuple(_kinds(session, now))
    before, was = _source_only(session), session.source_only and read_card(session.source_only)
    relabelled = sum(a.get("label") != b.get("label") for a, b in zip(before, now, strict=False))
    chosen = sorted(random.Random(0).sample(range(len(texts)), min(SAMPLES, len(texts))))
    same = ("source", "target", "task", "method", "seed", "headline", "expected")
    return TargetCard(
        **{name: getattr(metrics, name) for name in same},
        key=metrics.key or "",
        backbone=backbone_name(metrics.config["backbone"]),
        source_dev=metrics.source_dev[metrics.headline],
        dev_texts=len(session.domains.source_dev),
        source_texts=len(session.domains.source_records),
        steps=metrics.curve[-1].step,
        epochs=len(metrics.curve),
        texts=len(texts),
        empty=empty,
        kinds=kinds,
        samples=tuple(_shown_text(texts[i], predictions[i]) for i in chosen),
        warnings=(
            *harm_warnings(before, now),
            *no_gain_warnings(was.expected if was and (spans or relabelled) else None, metrics.expected),
            *_warnings(session, metrics, kinds, empty, audit),
        ),
        **_questions(session, now),
        changes=tuple(changes(before, now)) if spans and before else (),
        relabelled=relabelled if before and not spans else None,
        pairs=session.task.pairs,
        target_labels=session.domains.target_labels,
    )


def _source_only(session: Session) -> list[dict[str, Any]]:
    """What the source-only model, where it was trained along, says of the same texts."""
    path = None if session.source_only is None else session.source_only / "predictions.jsonl"
    if path is None or not path.is_file():
        return []
    rows = read_json_lines(path)
    texts = [text.text for text in session.domains.unlabelled.texts]
    return rows if [line["text"] for line in rows] == texts else []


def harm_warnings(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[CardWarning]:
    """That adapting has cost most of what the source-only model finds: the likeliest way in which it harms.

    >>> span = {"start": 0, "end": 4, "type": "aspect"}
    >>> before, now = [{"spans": [span, span]}] * 10, [{"spans": [span]}, *[{"spans": []}] * 9]
    >>> [warning.text for warning in harm_warnings(before, now)]
    ['spans found: 1, by the source-only model 20; adapting has likely harmed: use that model']
    """
    spans_before, spans_now = (sum(len(row.get("spans", ())) for row in rows) for rows in (before, now))
    if spans_before >= FEW_SPANS and spans_now < spans_before / 2:
        harmed = "adapting has likely harmed: use that model"
        yield CardWarning(f"spans found: {spans_now:,}, by the source-only model {spans_before:,}; {harmed}", COMPARE)


def no_gain_warnings(before: Expected | None, now: Expected | None) -> Iterator[CardWarning]:
    """That nothing shows a gain, so that labelling or reading must.

    >>> [warning.text for warning in no_gain_warnings(Expected(0.6, 0.5, 0.7), Expected(0.65, 0.55, 0.75))]
    ['it may be no better than before: read what the two models label differently']
    """
    if before and now and before.high >= now.low:
        yield CardWarning("it may be no better than before: read what the two models label differently", COMPARE)


def changes(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[ChangedWords]:
    """What is found three times as often as before, or a third as often, and differs by three at least.

    Each with the first text of the rows in which more was found.

    >>> shoe, room, fit = (
    ...     {"text": text, "spans": [{"start": 0, "end": len(text), "type": "aspect", "text": text}]}
    ...     for text in ("Shoe", "Room", "Fit")
    ... )
    >>> before, now = [shoe] * 18 + [room] * 9, [room] * 8 + [fit] * 3
    >>> [(change.words, change.before, change.now, change.text.text) for change in changes(before, now)]
    [('shoe', 18, 0, 'Shoe'), ('fit', 0, 3, 'Fit')]
    """
    texts: dict[tuple[bool, str, str], ShownText] = {}
    counts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for gained, rows in enumerate((before, now)):
        for line, span in ((one, span) for one in rows for span in one["spans"]):
            counts[gained][_name(span)] += 1
            shown, left_out = cut(line["text"], LONGEST)
            if span["end"] <= len(shown):
                marked = ((span["start"], span["end"], span["type"]),)
                texts.setdefault((bool(gained), *_name(span)), ShownText(shown, left_out, spans=marked))
    pairs = [(counts[0][key], counts[1][key], key) for key in {*counts[0], *counts[1]}]
    large = [(a, b, key) for a, b, key in pairs if abs(a - b) >= 3 and 3 * min(a, b) <= max(a, b)]
    for a, b, (kind, written) in sorted(large, key=lambda change: (-abs(change[0] - change[1]), change[2])):
        yield ChangedWords(kind, written, a, b, texts.get((b > a, kind, written)))


def _name(span: Mapping[str, Any]) -> tuple[str, str]:
    """Its type and words, in lower case."""
    return span["type"], " ".join(span["text"].lower().split())


def _kinds(session: Session, now: Sequence[Mapping[str, Any]]) -> Iterator[Kind]:
    records = session.domains.source_records
    if session.task.kind == "token":
        source = Counter(span.type for record in records for span in record.spans or ())
        counts = Counter(_name(span) for line in now for span in line["spans"])
        for name in session.task.names:
            terms = Counter({written: count for (kind, written), count in counts.items() if kind == name})
            yield Kind(name, terms.total(), source[name], tuple(terms.most_common(WORDS)))
        return
    labels, predicted = Counter(record.label for record in records), Counter(line["label"] for line in now)
    typical = typical_words([(line["text"], str(line["label"])) for line in now[:READ]])
    for name in session.task.labels:
        yield Kind(name, predicted[name], labels[name], typical.get(name, ()))


def typical_words(labelled: Sequence[tuple[str, str]]) -> dict[str, tuple[tuple[str, int], ...]]:
    """Words that set a label's texts apart from the others', with the number of its texts that hold them.

    Ranked by the log odds ratio of a text's holding the word, in its standard errors, a half added to each count.

    >>> typical_words([("a good pen", "good"), ("good ink", "good"), ("a bad pen", "bad"), ("bad", "bad")])["good"]
    (('good', 2),)
    """
    held = [(frozenset(words(text)), label) for text, label in labelled]
    of_all = Counter(word for text_words, _ in held for word in text_words)
    result = {}
    for name, size in Counter(label for _, label in held).items():
        counts = Counter(word for text_words, label in held if label == name for word in text_words)
        often = [(word, count, of_all[word] - count) for word, count in counts.items() if count > 1]
        ranked = sorted((-log_odds(here, size, there, len(held) - size), word) for word, here, there in often)
        result[name] = tuple((word, counts[word]) for score, word in ranked[:WORDS] if score < -1)
    return result


def log_odds(count: int, size: int, other_count: int, other_size: int) -> float:
    """Log odds ratio, in standard errors, of ``count`` of ``size`` texts to ``other_count`` of ``other_size``."""
    a, b, c, d = count + 0.5, other_count + 0.5, size - count + 0.5, other_size - other_count + 0.5
    return (math.log(a / c) - math.log(b / d)) / math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)


def _shown_text(text: UnlabelledText, prediction: Prediction) -> ShownText:
    shown, left_out = cut(text.text, LONGEST)
    spans = tuple((s.start, min(s.end, len(shown)), s.type) for s in prediction.spans if s.start < len(shown))
    return ShownText(shown, left_out, prediction.label, round(prediction.confidence, 4), spans)


def _warnings(
    session: Session, metrics: Metrics, kinds: Sequence[Kind], empty: int, audit: Audit | None
) -> Iterator[CardWarning]:
    """The others, the most important first, each with what to type."""
    total, texts = sum(kind.count for kind in kinds), len(session.domains.unlabelled.texts)
    severe_or_warning = [finding for finding in audit.findings if finding.severity != "note"] if audit else []
    for finding in severe_or_warning:
        if finding.kind in ("spelling", "conflicts"):
            yield CardWarning(finding.text, audit_command(metrics.config["data"]))
    look = COMPARE if session.source_only else ""
    for name, method in session.methods.items():
        if session.task.kind in method.tasks and (why := method.idle(epochs := len(metrics.curve))):
            longer = _rerun_command(metrics, "trainer.epochs", metrics.config["trainer"]["epochs"] + 1)
            yield CardWarning(f"{name} did nothing: {why}", longer if method.first_epoch >= epochs else look)
    if (dev := len(session.domains.source_dev)) < FEW_DEV:
        few = f"source dev has {counted(dev, 'text')}, too few to expect a score from: label some of the target's"
        yield CardWarning(few, "domadapt score model={run} input=LABELLED")
    never = [repr(kind.name) for kind in kinds if not kind.count]
    if session.task.kind == "sequence":
        dominant = list(one_class({kind.name: kind.count for kind in kinds}, "target texts"))
        for text in dominant or ([f"never predicted: {listed(never)}"] if never else []):
            yield CardWarning(text, look)
        known = Counter(record.label for record in session.domains.source_dev)
        always = known.most_common(1)[0]
        if metrics.source_dev.get("accuracy", 1.0) <= always[1] / known.total():
            right = f"on source dev the model is right no more often than one that always says {always[0]!r}"
            larger = max(3 * FEW_STEPS, 2 * metrics.curve[-1].step)
            yield CardWarning(right, _rerun_command(metrics, "trainer.min_steps", larger))
    elif not total:
        yield CardWarning(f"no span is found in any of {texts} target texts", look)
    elif never:
        yield CardWarning(f"never found: {listed(never)}", look)
    elif empty > ONE_CLASS * texts:
        yield CardWarning(f"{empty} of {texts} target texts have no span", look)
    if (steps := metrics.curve[-1].step) < FEW_STEPS:
        few = f"{counted(steps, 'step')} in all, few to learn from"
        yield CardWarning(few, _rerun_command(metrics, "trainer.min_steps", 3 * FEW_STEPS))
    if (lost := session.truncation["target"].texts) > CUT * texts:
        cut_off = f"{lost} of {texts} target texts are longer than {session.max_length} subwords; the rest is not read"
        larger = min(2 * session.max_length, session.encoder.longest)
        yield CardWarning(cut_off, _rerun_command(metrics, "max_length", larger) if larger > session.max_length else "")
    for finding in severe_or_warning:
        if finding.kind == "preparation" and (setting := re.search(r"(data\.\w+)=true", finding.text)):
            yield CardWarning(finding.text, _rerun_command(metrics, setting[1], "true"))
        elif finding.kind.endswith(DOMAIN_DIFFERENCES):
            yield CardWarning(f"target unlike source: {finding.text}", audit_command(metrics.config["data"]))
    labelled = len(session.domains.source_records) + len(session.domains.source_dev)
    for name, count, least in zip(
        ("labelled", "target"), (labelled, texts), MEASURED_SIZES[session.task.kind], strict=True
    ):
        if session.source_only and count < least:
            yield CardWarning(f"{count} {name} texts: adapting has never been measured with fewer than {least}")


def audit_command(data: Mapping[str, Any]) -> str:
    """Of the same texts in the same case, or its numbers would be others.

    >>> sides = {"source": {"name": "a", "path": "a.csv", "dev_path": "b.csv"}, "target": {"path": "c.txt", "id": None}}
    >>> audit_command({**sides, "lowercase": True, "detokenise": False})
    'domadapt audit data=my_files source.path=a.csv source.dev_path=b.csv target.path=c.txt data.lowercase=true'
    """
    given = [(f"{s}.{k}", v) for s in ("source", "target") for k, v in data.get(s, {}).items() if k != "name"]
    files = [f"{name}={value}" for name, value in given if value is not None]
    changed = [f"data.{name}=true" for name in ("lowercase", "detokenise") if data.get(name)]
    return shlex.join(["domadapt", "audit", "data=my_files", *files, *changed]) if files else ""


def adverb_questions(labelled: Iterable[Found], found: Iterable[Found]) -> Iterator[str]:
    """A question that only the user can answer: are adverbs of degree in a type's spans?

    >>> labelled, found = [("Very good.", 5, 9, "opinion")] * 20, [("So soft.", 3, 7, "opinion")] * 5
    >>> next(adverb_questions(labelled, found)).partition("; ")[::2]  # doctest: +NORMALIZE_WHITESPACE
    ("type opinion: 'So soft' or 'soft'? Your labels leave the adverb out (20 of 20 times), predictions 5 of 5 times",
    'if that is wrong for the target, add degree_words=english')
    """
    known, predictions = Counter[tuple[str, bool | None]](), Counter[tuple[str, bool | None]]()
    examples = dict[tuple[str, bool], str]()
    for counts, spans in ((known, labelled), (predictions, found)):
        for text, start, end, kind in spans:
            places = with_adverb(text, start, end)
            inside = None if places is None else places[0] == start
            counts[kind, inside] += 1
            if counts is predictions and places and inside is not None:
                examples.setdefault((kind, inside), " or ".join(repr(shortened(text[at:end], 40)) for at in places))
    for (kind, inside), example in examples.items():
        same, total, now = known[kind, inside], known[kind, True] + known[kind, False], predictions[kind, inside]
        with_one = now + predictions[kind, not inside]
        if total >= FEW_SPANS and same > 0.8 * total and now > 0.05 * (with_one + predictions[kind, None]):
            do = f"{'have the adverb' if inside else 'leave the adverb out'} ({same} of {total} times)"
            evidence = f"Your labels {do}, predictions {now} of {with_one} times"
            add = f"add degree_words=english{' degree_words_in_opinion=false' if inside else ''}"
            yield f"type {kind}: {example}? {evidence}; if that is wrong for the target, {add}"


def words_to_judge(texts: Sequence[str], found: Iterable[str], pronouns: bool = True) -> list[tuple[str, int, int]]:
    """Words of which a person may know whether they are terms, with their uses and how many of these are in found ones.

    Last words of ``found`` terms that are found in some uses and not in others; and English ``pronouns``.

    >>> words_to_judge(["The fit is good."] * 9 + ["Good fit."] * 4 + ["They fit."] * 20, ["fit"] * 8 + ["fit size"])
    [('fit', 33, 9), ('they', 20, 0)]
    >>> words_to_judge(["They fit."] * 9 + ["They're fine."] * 9, ["They"] * 12)  # parsers cut these words in two
    [('they', 18, 12)]
    """
    terms = [words(term) for term in found]
    uses, known = (
        Counter(part for words_of_it in each for word in words_of_it for part in {word, *word.split("'")})
        for each in (map(words, texts), terms)
    )
    last = {term[-1] for term in terms if term} - PRONOUNS
    doubt = {word: min(known[word], uses[word] - known[word]) for word in last}
    asked = sorted((word for word, times in doubt.items() if times >= 3), key=lambda one: (-doubt[one], one))[:15]
    often = sorted((word for word in PRONOUNS if pronouns and uses[word] >= 10), key=lambda one: (-uses[one], one))[:5]
    return sorted(((word, uses[word], known[word]) for word in [*asked, *often]), key=lambda one: (-one[1], one[0]))


def _questions(session: Session, now: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What only a person knows of the target's annotation, and the command that takes the answers."""
    if session.task.kind != "token" or "guidelines" in session.methods or not session.reads("corpus_parses"):
        return {}
    kinds, questions, settings = sorted(term_kinds(session)), list[str](), list[str]()
    terms = [span["text"] for line in now for span in line["spans"] if span["type"] in kinds]
    if asked := words_to_judge([line["text"] for line in now], terms, len(kinds) == 1):
        counts = ", ".join(f"{shortened(word, 40)} {found} of {uses}" for word, uses, found in asked)
        questions.append(f"which of these words are of type {' or '.join(kinds)}? Found so far: {counts}")
        types = ",".join(kind if kind.isascii() and kind.isalpha() else quoted(kind) for kind in kinds)
        settings += [shlex.quote(f"types=[{types}]"), "'terms=[...]'", "'not_terms=[...]'"]
    labelled = ((r.text, s.start, s.end, s.type) for r in session.domains.source_records for s in r.spans or ())
    spans = ((line["text"], s["start"], s["end"], s["type"]) for line in now for s in line["spans"])
    if len(session.task.names) > len(kinds):
        questions += adverb_questions(labelled, spans)
    command = " ".join(["domadapt guide model={run} to={run}_guided", *settings])
    return {"questions": tuple(questions), "answer": command} if questions else {}


def _rerun_command(metrics: Metrics, setting: str, value: int | str) -> str:
    """The run's command with another value, and another folder where it names one."""
    command = shlex.split(metrics.command or "")
    words = command if command[:2] == ["domadapt", "train"] else ["domadapt", "train", "..."]
    remaining = [word for word in words if not word.startswith((f"{setting}=", "paths.run="))]
    named = any(word.startswith("paths.run=") for word in words)  # two commands of a card take two folders
    folder = f" paths.run={{run}}_{setting.rpartition('.')[2]}_{value}" if named else ""
    given = dict(word.partition("=")[::2] for word in remaining)
    files = [given.get(f"{side}.path", "") for side in ("source", "target")]
    short = [word for word in train_arguments(files) if not word.startswith("paths.run=")] if all(files) else []
    if short and {*short} <= {*remaining}:  # as it was most likely typed
        remaining = ["domadapt", "adapt", *files, *(word for word in remaining[2:] if word not in short)]
    return f"{shlex.join(remaining)} {setting}={value}{folder}"


def label_target(session: Session, batch_size: int, path: Path) -> list[Prediction]:
    """Label all unlabelled target text, and write it a line each."""
    texts, lost = session.domains.unlabelled.texts, Truncation()
    predictions = list[Prediction]()
    for start in range(0, len(texts), batch_size * CHUNK):
        chunk = texts[start : start + batch_size * CHUNK]
        examples = session.examples(chunk, "target", session.parses_at_prediction, labelled=False)
        cut_off = session.truncation["target"]
        lost = Truncation(lost.texts + cut_off.texts, lost.words + cut_off.words)
        predictions += session.evaluate(examples, batch_size, "label target").predictions
    session.truncation["target"] = lost
    write_predictions(texts, predictions, session.task.kind, path)
    return predictions


def write_predictions(
    texts: Sequence[UnlabelledText], predictions: Sequence[Prediction], kind: str, path: Path
) -> None:
    """A line a text, as ``domadapt predict`` has it; ``kind`` is the task's."""
    write_atomic(path, "".join(json_lines(row(t, p, kind) for t, p in zip(texts, predictions, strict=True))))


def audit_own_files(config: RunConfig, session: Session) -> Audit | None:
    """The fast part of the audit, of a user's own files, not benchmarks, into the run's folder; no test is opened."""
    if config.in_domain or config.pairs is not None or not own_files(config.values["data"]):
        return None
    result = audit(session.domains, session.task.kind, session.seed, fast=True)
    write_audit(result, config.folder / "audit.json")  # metrics.json holds the configuration, without secrets
    for finding in result.findings:
        if finding.severity != "note" and session.source_only is None:  # that run has said it
            log.warning("audit: %s", finding.text)
    return result


def leave_card(
    session: Session, predictions: list[Prediction], metrics: dict[str, Any], audit: Audit | None, folder: Path
) -> None:
    """Write ``card.json`` and ``card.md``; the arguments are those of :func:`target_card`, and the run's folder."""
    card = target_card(session, predictions, typed(plain_json(metrics)), audit)
    if Path(os.path.normpath(folder.absolute())).is_relative_to(Path.cwd()):  # else its way would name the machine's
        card = replace(card, made_in=os.path.relpath(Path.cwd(), folder))
    given = dict(word.partition("=")[::2] for word in shlex.split(metrics["command"] or ""))
    if session.source_only is not None:  # the adapted model's run alone: one file to label
        learnt = {record.text for record in session.domains.target_records}
        texts = [text for text in session.domains.unlabelled.texts if text.text not in learnt]
        source_only = os.path.relpath(session.source_only, folder)
        card = replace(card, to_label=draw_to_label(texts, session.task.kind, folder), source_only=source_only)
    elif folder.name == SOURCE_ONLY != Path(given.get("paths.run", SOURCE_ONLY)).name:
        # Made for an adapted model: the command that was typed trains both, and the adapted model's card has it.
        again = ("domadapt train ", "domadapt adapt ")
        warnings = (replace(w, command="" if w.command.startswith(again) else w.command) for w in card.warnings)
        card = replace(card, warnings=tuple(warnings))
    write_card(card, folder)
    write_atomic(folder / "card.md", as_markdown(replace(card, folder=str(folder))))


def draw_to_label(texts: Sequence[UnlabelledText], kind: str, folder: Path) -> str:
    """Write fifty random texts of the target for ``domadapt score``, unless they are there, and give the file's name.

    No two are copies of each other, which would count twice.

    >>> import tempfile
    >>> texts = [UnlabelledText(f"b:{number}", "b", "So, so.") for number in (1, 2)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = draw_to_label(texts, "sequence", Path(folder))
    ...     name, Path(folder, name).read_text()
    ('fifty_to_label.csv', 'id,text,label\\nb:1,"So, so.",\\n')
    """
    texts = list({copy_key(text.text): text for text in reversed(texts)}.values())[::-1]
    chosen = [texts[i] for i in sorted(random.Random(0).sample(range(len(texts)), min(TO_LABEL, len(texts))))]
    name = "fifty_to_label.csv" if kind == "sequence" else "fifty_to_label.jsonl"
    if not (folder / name).exists():
        lines = json_lines({"id": text.id, "text": text.text, "spans": None} for text in chosen)
        if kind == "sequence":
            lines = csv_lines([("id", "text", "label"), *((text.id, text.text, "") for text in chosen)])
        write_atomic(folder / name, "".join(lines))
    return name
