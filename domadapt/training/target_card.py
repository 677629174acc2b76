"""The card of a run without target labels: what was predicted, on which words, and why not to believe it."""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from domadapt.auditing.audit import Audit
from domadapt.data.domains import UnlabelledText
from domadapt.data.texts import words
from domadapt.methods.setting import Setting
from domadapt.runs.metrics import Metrics
from domadapt.runs.target_card import Kind, Sample, TargetCard
from domadapt.tasks.task import FloatArray, Prediction
from domadapt.training.doubts import ONE_CLASS, one_class
from domadapt.utils.text import cut

SAMPLES, LONGEST = 10, 200  # texts that are shown, and their characters
WORDS, READ = 10, 20_000  # shown of each kind; texts that are counted for them
FEW_STEPS, FEW_DEV, CUT = 100, 30, 0.1  # below or above which a warning is due
UNLIKE = ("vocabulary", "shift", "preparation")  # kinds of an audit's findings that set target and source apart


@dataclass(frozen=True, slots=True)
class Labelled:
    """What the model says of every target text; probabilities (predicted,) of labels, or of the words in spans."""

    predictions: list[Prediction]
    sure: FloatArray


def target_card(setting: Setting, labelled: Labelled, metrics: Metrics, audit: Audit | None) -> TargetCard:
    """Put together what a person wants to see of a run without target labels.

    Args:
        setting: that was trained.
        labelled: its target text.
        metrics: of the run.
        audit: of its texts, where there was one.
    """
    texts, predictions = setting.domains.unlabeled.texts, labelled.predictions
    kinds = tuple(_spans(setting, predictions) if setting.task.kind == "token" else _labels(setting, predictions))
    empty = sum(not p.spans for p in predictions) if setting.task.kind == "token" else 0
    chosen = sorted(random.Random(0).sample(range(len(texts)), min(SAMPLES, len(texts))))
    return TargetCard(
        key=metrics.key or "",
        source=metrics.source,
        target=metrics.target,
        task=metrics.task,
        backbone=str(metrics.config["backbone"].get("name") or metrics.config["backbone"]["_target_"].split(".")[-1]),
        method=metrics.method,
        seed=metrics.seed,
        headline=metrics.headline,
        source_dev=metrics.source_dev[metrics.headline],
        dev_texts=len(setting.domains.source_dev),
        source_texts=len(setting.domains.source_train),
        steps=metrics.curve[-1].step,
        epochs=len(metrics.curve),
        texts=len(texts),
        empty=empty,
        confidence=round(float(labelled.sure.mean()), 4) if len(labelled.sure) else None,
        unsure=round(float((labelled.sure < 0.5).mean()), 4) if len(labelled.sure) else 0.0,
        kinds=kinds,
        samples=tuple(_sample(texts[i], predictions[i]) for i in chosen),
        warnings=tuple(_warnings(setting, metrics, kinds, empty, audit)),
        expected=metrics.expected,
    )


def _spans(setting: Setting, predictions: Sequence[Prediction]) -> Iterator[Kind]:
    texts = setting.domains.unlabeled.texts
    source = Counter(span.type for record in setting.domains.source_train for span in record.spans or ())
    found: dict[str, Counter[str]] = {name: Counter() for name in getattr(setting.task, "types", ())}
    for text, prediction in zip(texts, predictions, strict=True):
        for span in prediction.spans:
            found[span.type][" ".join(text.text[span.start : span.end].lower().split())] += 1
    for name, counts in found.items():
        yield Kind(name, counts.total(), source[name], tuple(counts.most_common(WORDS)))


def _labels(setting: Setting, predictions: Sequence[Prediction]) -> Iterator[Kind]:
    texts = setting.domains.unlabeled.texts
    source = Counter(record.label for record in setting.domains.source_train)
    found = Counter(prediction.label for prediction in predictions)
    typical = typical_words([(text.text, str(p.label)) for text, p in zip(texts[:READ], predictions, strict=False)])
    for name in setting.task.labels:
        yield Kind(name, found[name], source[name], typical.get(name, ()))


def typical_words(labelled: Sequence[tuple[str, str]]) -> dict[str, tuple[tuple[str, int], ...]]:
    """Words that set a label's texts apart from the others', with the number of its texts that hold them.

    Ranked by the log odds ratio of a text's holding the word, in its standard errors, a half added to each count.

    Args:
        labelled: texts and their labels.

    >>> typical_words([("a good pen", "good"), ("good ink", "good"), ("a bad pen", "bad"), ("bad", "bad")])["good"]
    (('good', 2),)
    """
    held = [(frozenset(words(text)), label) for text, label in labelled]
    sizes = Counter(label for _, label in held)
    of_all = Counter(word for found, _ in held for word in found)
    result = {}
    for name, size in sizes.items():
        own = Counter(word for found, label in held if label == name for word in found)
        rest = len(held) - size

        def odds(word: str, own: Counter[str] = own, size: int = size, rest: int = rest) -> float:
            a, b = own[word] + 0.5, of_all[word] - own[word] + 0.5
            c, d = size - own[word] + 0.5, rest - (of_all[word] - own[word]) + 0.5
            return (math.log(a / c) - math.log(b / d)) / math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)

        ranked = sorted((-odds(word), word) for word, count in own.items() if count > 1)
        result[name] = tuple((word, own[word]) for score, word in ranked[:WORDS] if score < -1)
    return result


def _sample(text: UnlabelledText, prediction: Prediction) -> Sample:
    shown, left_out = cut(text.text, LONGEST)
    spans = tuple((s.start, min(s.end, len(shown)), s.type) for s in prediction.spans if s.start < len(shown))
    return Sample(shown, left_out, prediction.label, round(prediction.confidence, 4), spans)


def _warnings(
    setting: Setting, metrics: Metrics, kinds: Sequence[Kind], empty: int, audit: Audit | None
) -> Iterator[str]:
    total, texts = sum(kind.count for kind in kinds), len(setting.domains.unlabeled.texts)
    if setting.task.kind == "sequence":
        if one := list(one_class({kind.name: kind.count for kind in kinds}, "target texts")):
            yield from one
        elif never := [repr(kind.name) for kind in kinds if not kind.count]:
            yield f"never predicted: {', '.join(never)}"
        known = Counter(record.label for record in setting.domains.source_dev)
        always = known.most_common(1)[0]
        if metrics.source_dev.get("accuracy", 1.0) <= always[1] / known.total():
            yield f"on source dev the model is right no more often than one that always says {always[0]!r}"
    elif not total:
        yield f"no span is found in any of {texts} target texts"
    elif never := [repr(kind.name) for kind in kinds if not kind.count]:
        yield f"never found: {', '.join(never)}"
    elif empty > ONE_CLASS * texts:
        yield f"{empty} of {texts} target texts have no span"
    if metrics.curve[-1].step < FEW_STEPS:
        yield f"{metrics.curve[-1].step} steps in all, few to learn from; raise trainer.least_steps or trainer.epochs"
    if len(setting.domains.source_dev) < FEW_DEV:
        yield f"source dev has {len(setting.domains.source_dev)} texts: its score is a rough one"
    if (lost := setting.truncation["target"].texts) > CUT * texts:
        yield f"{lost} of {texts} target texts are longer than {setting.max_pieces} pieces; their rest is not read"
    if audit is not None:
        for finding in audit.findings:
            if finding.severity != "note" and finding.kind.endswith(UNLIKE):
                yield f"target unlike source: {finding.text}"
