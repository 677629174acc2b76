"""Answers to the questions of a card, as a person would give them: ``python -m benchmarks.answers RUN LISTS OUT``.

RUN is a finished run of spans on a research corpus. The target's training labels stand for the person, its test for
nobody: a word is a term if 40 % of its uses or more are in one, no term if 10 % or fewer are, and else is left out;
adverbs of degree belong to opinions if most of them are in one. LISTS takes the lists of words; OUT takes run folders
of the same model as it decodes with the answers, for ``benchmarks.collect``.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from domadapt.config.compose import compose, make
from domadapt.data.domains import Domains, TargetUnlabelled
from domadapt.data.records import Record
from domadapt.data.texts import words
from domadapt.inference.model import Model, load
from domadapt.methods.adaptation.guidelines import with_adverb
from domadapt.methods.terms import noun_kinds
from domadapt.syntax.parser import SpacyParser
from domadapt.tasks.task import row
from domadapt.training.card import adverb_questions, words_to_judge
from domadapt.training.cell import scores_on_test
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
    asked = [word for word, *_ in words_to_judge([text.text for text in texts], found)]
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
    if [*adverb_questions(spans_of(domains.source_records), spans)]:
        places = [(p, start) for text, start, end, _ in spans_of(known) if (p := with_adverb(text, start, end))]
        settings.append("adaptation.guidelines.degree_words=english")
        if sum(p[0] == start for p, start in places) <= len(places) / 2:
            settings.append("adaptation.guidelines.degree_words_in_opinion=false")
    return settings


def spans_of(records: Sequence[Record]) -> Iterator[tuple[str, int, int, str]]:
    return ((record.text, s.start, s.end, s.type) for record in records for s in record.spans or ())


def guided(run: Path, domains: Domains, lists: Path, out: Path) -> None:
    """Write run folders: the run's model with answers to both kinds of questions, and to each kind."""
    model, metrics = load(run), json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    session, answered = model.session, answers(domains, model, lists)
    records = domains.test.open()
    of_words = [one for one in answered if "terms=" in one]
    variants = {"answers": answered, "words": of_words, "adverbs": [one for one in answered if one not in of_words]}
    kinds = [*{label[2:] for label in session.task.labels[1:]} & {"aspect", "term"}]
    for name, settings in variants.items():
        method_name, pair = f"{metrics['method']}_{name}", f"{metrics['source']}_to_{metrics['target']}"
        folder = out / pair / method_name / f"seed{metrics['seed']}"
        folder.mkdir(parents=True, exist_ok=True)
        config = compose("train", ["adaptation=guidelines", "data=my_files", *settings])
        session.methods["guidelines"] = method = make(config.adaptation.guidelines).eval()
        session.attach()
        method.refuse()  # reads the lists
        method.set_terms(session.task.labels, kinds)
        predictions = model.predict_texts(TargetUnlabelled.from_records("target", records).texts)
        scores = session.task.score(records, predictions)
        found = scores_on_test(session.task, domains, records, predictions, scores, folder)
        made = {"method": method_name, "role": "adapted", "key": f"{metrics['key'][:-1]}{name[0]}"}
        write_atomic(folder / "metrics.json", json.dumps({**metrics, **found, **made}))
        shown = {key: round(100 * value, 1) for key, value in scores.items() if key.endswith("f1")}
        print(json.dumps({"method": method_name, "settings": settings, **shown}), flush=True)


def main() -> None:
    run, lists, out = map(Path, sys.argv[1:])
    lists.mkdir(parents=True, exist_ok=True)
    config = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["config"]
    guided(run, make(config["data"]), lists, out)


if __name__ == "__main__":
    main()
