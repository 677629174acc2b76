"""Answers to the questions of a card, as a person would give them: ``python -m benchmarks.answers RUN FOLDER``.

RUN is a finished run of spans on a research corpus. The target's training labels stand for the person, its test for
nobody: a word is a term if 40 % of its uses or more are in one, no term if 10 % or fewer are, and else is left out;
adverbs of degree belong to opinions if most of them are in one. FOLDER takes the lists of words. What is printed: the
settings, and the test scores of the run's models with these settings at decoding alone.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from domadapt.config.compose import compose, make
from domadapt.data.domains import Domains, TargetUnlabelled
from domadapt.data.records import Record
from domadapt.data.texts import words
from domadapt.inference.model import Model, load, row
from domadapt.methods.adaptation.guidelines import with_adverb
from domadapt.methods.terms import noun_kinds
from domadapt.syntax.parser import SpacyParser
from domadapt.training.card import adverbs, to_judge
from domadapt.utils.files import write_atomic

# Shares of a word's uses that are in terms. What is right more often than half of an F1 raises it (Lipton et al. 2014).
YES, NO = 0.4, 0.1


def answers(domains: Domains, model: Model, folder: Path) -> list[str]:
    """Settings; the lists of words that they name are written into ``folder``."""
    texts = domains.unlabelled.texts
    now = [row(text, found, "token") for text, found in zip(texts, model.predict_texts(texts), strict=True)]
    source, known = domains.source_train[:500], domains.ceiling().train
    kinds = noun_kinds(source, [*SpacyParser().parse(source)])
    found = [span["text"] for line in now for span in line["spans"] if span["type"] in kinds]
    asked = [word for word, *_ in to_judge([text.text for text in texts], found)]
    uses = Counter(word for record in known for word in words(record.text))
    inside = Counter(
        word
        for record in known
        for s in record.spans or ()
        if s.type in kinds
        for word in words(record.text[s.start : s.end])
    )
    share = {word: inside[word] / uses[word] for word in asked if uses[word]}
    lists = {
        "terms": [w for w in asked if share.get(w, 0.3) >= YES],
        "not_terms": [w for w in asked if share.get(w, 0.3) <= NO],
    }
    settings = []
    for name, some in lists.items():
        write_atomic(folder / f"{name}.txt", "".join(f"{word}\n" for word in some))
        settings.append(f"adaptation.guidelines.{name}={folder}/{name}.txt")
    spans = [(line["text"], s["start"], s["end"], s["type"]) for line in now for s in line["spans"]]
    if [*adverbs(spans_of(domains.source_records), spans)]:
        places = [(p, start) for text, start, end, _ in spans_of(known) if (p := with_adverb(text, start, end))]
        if sum(p[0] == start for p, start in places) > len(places) / 2:
            settings.append("adaptation.guidelines.degree_words=english")
        else:
            settings += [
                "adaptation.guidelines.degree_words=english",
                "adaptation.guidelines.degree_words_in_opinion=false",
            ]
    return settings


def spans_of(records: Sequence[Record]) -> Iterator[tuple[str, int, int, str]]:
    return ((record.text, s.start, s.end, s.type) for record in records for s in record.spans or ())


def scores(model: Model, records: Sequence[Record], settings: Sequence[str]) -> dict[str, float]:
    """Scores with these settings at decoding, in percent."""
    model.session.methods.clear()
    model.session.collator.extras.clear()
    if settings:
        config = compose("train", ["adaptation=guidelines", "data=my_files", *settings])
        method = make(config.adaptation.guidelines)
        method.terms = [place for place, label in enumerate(model.session.task.labels) if label[2:] == "aspect"]
        model.session.methods["guidelines"] = method.eval()
        model.session.attach()
    predictions = model.predict_texts(TargetUnlabelled.from_records("target", records).texts)
    return {
        name: round(100 * value, 1)
        for name, value in model.session.task.score(records, predictions).items()
        if name.endswith("f1")
    }


def main() -> None:
    run, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    domains, model = make(metrics["config"]["data"]), load(run)
    settings, records = answers(domains, model, folder), domains.test.open()
    shown: dict[str, Any] = {
        "settings": settings,
        "before": scores(model, records, ()),
        "answered": scores(model, records, settings),
    }
    words_only = [one for one in settings if "terms" in one]
    shown |= {
        "words": scores(model, records, words_only),
        "adverbs": scores(model, records, [s for s in settings if s not in words_only]),
    }
    print(json.dumps(shown, indent=1))


if __name__ == "__main__":
    main()
