"""Each trap, planted in a clean invented corpus, is found with its numbers; the clean corpus gives no alarm."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from domadapt.auditing.artefacts import annotation, artefacts
from domadapt.auditing.audit import audit, verdict
from domadapt.auditing.copies import conflicts, duplicates, near_duplicates
from domadapt.auditing.finding import Finding, Parts, paths
from domadapt.auditing.gap import gap
from domadapt.auditing.shift import encoding, preparation, shift, vocabulary
from domadapt.data.records import Record, Span, from_tokens
from domadapt.syntax.parser import SpacyParser

from .conftest import corpora, problem, with_text

Plant = Callable[..., Parts]
Records = tuple[Record, ...]


def tokenised(text: str) -> str:
    """As the Penn Treebank writes it."""
    return re.sub(r"([.,!?])", r" \1", text.replace("isn't", "is n't"))


def bad(findings: Iterable[Finding]) -> list[str]:
    return [f.text for f in findings if f.severity != "note"]


def one(findings: Iterable[Finding], *words: str) -> Finding:
    """The only finding that says all these words."""
    found = [f for f in findings if all(word in f.text for word in words)]
    assert len(found) == 1, [f.text for f in found]
    return found[0]


def test_a_clean_corpus_gives_no_alarm() -> None:
    found = audit(problem(), SpacyParser())
    assert bad(found.findings) == []
    assert "nothing was found" in verdict(found)
    kinds = {f.kind for f in found.findings}
    assert {"artefacts", "gap", "label shift", "length shift", "paths", "terms", "vocabulary"} <= kinds


def test_same_seed_same_numbers() -> None:
    first, second = (audit(problem(), seed=5) for _ in range(2))
    assert first.findings == second.findings


def test_test_texts_in_training_text(parts: Parts, planted: Plant) -> None:
    test = parts.get("target test")
    assert test is not None
    copies = [replace(r, id=f"copy-{i}", text=tokenised(r.text).upper()) for i, r in enumerate(test.records[:30])]
    verbatim = [replace(r, id=f"same-{i}") for i, r in enumerate(test.records[30:34])]
    found = list(duplicates(planted(unlabelled=lambda r: (*r, *copies, *verbatim), train=lambda r: (*r, *verbatim))))
    leak = one(found, "of the target test", "in the target unlabelled too")
    assert (leak.severity, leak.numbers) == ("severe", {"texts": 34, "of": 120, "verbatim": 4})
    trained = one(found, "of the target test", "in the source train too")
    assert (trained.severity, trained.numbers["texts"]) == ("warning", 4)
    assert "with its label" in trained.text


def test_dev_texts_in_train(parts: Parts, planted: Plant) -> None:
    train = parts.get("source train")
    assert train is not None
    copies = [replace(r, id=f"copy-{i}") for i, r in enumerate(train.records[:10])]
    found = one(duplicates(planted(dev=lambda r: (*r, *copies))), "of the source dev", "in the source train too")
    assert (found.severity, found.numbers["texts"]) == ("severe", 10)


def test_repeats_within_a_part_and_a_domain(planted: Plant) -> None:
    def repeat(records: Records) -> Records:
        return (*records, *(replace(r, id=f"again-{i}") for i, r in enumerate(records[:12] * 2)))

    found = list(duplicates(planted(train=repeat)))
    within = one(found, "of the source train", "repeat an earlier one")
    assert (within.severity, within.numbers) == ("warning", {"texts": 24, "of": 174})
    assert within.examples[0].startswith("3 × ")
    assert one(found, "labelled texts of camera").numbers == {"texts": 24, "of": 224}


def test_near_duplicates(parts: Parts, planted: Plant) -> None:
    test = parts.get("target test")
    assert test is not None
    edited = [replace(r, id=f"near-{i}", text="Xo " + r.text) for i, r in enumerate(test.records[:9])]
    found = list(near_duplicates(planted(unlabelled=lambda r: (*r, *edited))))
    across = one(found, "of the target test", "in the target unlabelled")
    assert (across.severity, across.numbers["texts"]) == ("severe", 9)
    assert list(near_duplicates(parts)) == []


def test_labels_and_spans_in_conflict(planted: Plant) -> None:
    def contradict(records: Records) -> Records:
        flipped = {"positive": "negative", "negative": "positive"}
        return (
            *records,
            *(replace(r, id=f"flip-{i}", label=flipped[str(r.label)]) for i, r in enumerate(records[:8])),
            *(replace(r, id=f"less-{i}", spans=(r.spans or ())[:1]) for i, r in enumerate(records[8:13])),
            *(replace(r, id=f"same-{i}", text=r.text.lower()) for i, r in enumerate(records[13:20])),
        )

    found = list(conflicts(planted(train=contradict)))
    labels, spans = (one(found, "in the source,", f"different {what}") for what in ("labels", "spans"))
    assert (labels.numbers["conflicting"], labels.numbers["repeated"]) == (8, 20)
    assert (spans.numbers["conflicting"], spans.severity) == (5, "warning")
    assert "negative, positive" in labels.examples[0]
    assert "in another nothing" in spans.examples[0] or "in one nothing" in spans.examples[0]


def test_conflicts_between_domains(parts: Parts, planted: Plant) -> None:
    test = parts.get("target test")
    assert test is not None
    record = replace(test.records[0], id="other", label="quite another")
    found = list(conflicts(planted(train=lambda r: (*r, record))))
    assert one(found, "source and target together", "labels").numbers["conflicting"] == 1


def test_label_shift(planted: Plant) -> None:
    def mostly_positive(records: Records) -> Records:
        return tuple(replace(r, label="positive" if i % 5 else "negative") for i, r in enumerate(records))

    found = one(shift(planted(train=mostly_positive, dev=mostly_positive)), "Labels shift from camera to laptop")
    assert found.severity == "warning"
    assert found.numbers["p"] < 0.001
    assert found.numbers["positive source"] == pytest.approx(0.8)
    within = one(shift(planted(test=mostly_positive)), "Labels shift from the target train to the target test")
    assert within.severity == "warning"


def test_labels_and_types_that_the_source_lacks(planted: Plant) -> None:
    def other(records: Records) -> Records:
        return tuple(
            replace(r, label="neutral", spans=(Span(0, 2, "brand"),)) if i % 4 == 0 else r
            for i, r in enumerate(records)
        )

    found = list(shift(planted(test=other)))
    assert one(found, "(neutral)").severity == "severe"
    assert one(found, "(brand)").severity == "severe"


def test_length_shift(planted: Plant) -> None:
    found = one(shift(planted(unlabelled=lambda rs: [replace(r, text=f"{r.text} {r.text}") for r in rs])),
                "source train", "target unlabelled")  # fmt: skip
    assert found.severity == "warning"
    assert found.numbers["cliffs_delta"] > 0.9


def test_fewer_spans(planted: Plant) -> None:
    found = list(shift(planted(test=lambda rs: [replace(r, spans=()) for r in rs])))
    assert one(found, "aspect spans a text").severity == "warning"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("clich\ufffd", "U+FFFD"),
        ("cafÃ©", "UTF-8 read as Windows-1252"),
        ("it â€™s", "UTF-8 read as Windows-1252"),
        ("bell\x07", "control or invisible"),
        ("\u202eevil", "control or invisible"),
        ("R &amp; B", "HTML entities"),
        ("at &#38; t", "HTML entities"),
        ("so<br />there", "HTML tags"),
    ],
)
def test_damage(planted: Plant, damage: str, says: str) -> None:
    def plant(records: Records) -> Records:
        return tuple(with_text(r, f"{'word ' * 60}{damage} {r.text}") if i < 5 else r for i, r in enumerate(records))

    [found] = [f for f in encoding(planted(test=plant)) if says in f.text]
    assert (found.severity, found.numbers) == ("warning", {"texts": 5, "of": 120})
    assert len(found.examples) == 3
    assert "\x07" not in "".join(found.examples)
    assert "\u202e" not in "".join(found.examples)


@pytest.mark.parametrize(
    "text", ["Ça va, São Tomé: «été» à 20 °C — “naïve”…", "AT&T, R&D; x < y > z", "naïve ½ £5 Ångström"]
)
def test_what_is_no_damage(planted: Plant, text: str) -> None:
    assert list(encoding(planted(test=lambda rs: [with_text(r, text) for r in rs]))) == []


def test_parts_of_one_domain_prepared_in_two_ways(planted: Plant) -> None:
    trap = planted(test=lambda rs: [with_text(r, tokenised(r.text.lower())) for r in rs])
    found = list(preparation(trap))
    pair = ("Two parts of laptop", "target unlabelled", "target test")
    assert one(found, *pair, "are tokenised").severity == "severe"
    assert one(found, *pair, "upper-case").severity == "severe"
    learnt = one(artefacts(trap), "target unlabelled from target test")
    assert learnt.severity == "severe"
    assert learnt.numbers["surface as given auc"] > 0.99
    assert learnt.numbers["surface both auc"] < 0.65
    assert learnt.numbers["explained by both"] > 0.7


def test_case_alone_parts_the_domains(planted: Plant) -> None:
    def lower(records: Records) -> list[Record]:
        return [replace(r, text=r.text.lower()) for r in records]

    trap = planted(test=lower, unlabelled=lower, ceiling=lower)
    assert one(preparation(trap), "Source and target", "upper-case").severity == "warning"
    assert not [f for f in preparation(trap) if "tokenised" in f.text]
    learnt = one(artefacts(trap), "source train from target unlabelled")
    assert learnt.severity == "warning"
    assert learnt.numbers["surface lower-cased auc"] < 0.65 < 0.99 < learnt.numbers["surface as given auc"]
    assert learnt.numbers["surface without tokenisation auc"] > 0.99
    assert any("‹A" in example for example in learnt.examples)


def test_words_are_no_surface(parts: Parts) -> None:
    learnt = one(artefacts(parts), "source train from target unlabelled")
    assert learnt.numbers["words both auc"] > 0.9  # the things that the domains talk about
    assert learnt.numbers["surface as given auc"] < 0.65


def test_few_texts_are_not_judged(planted: Plant) -> None:
    found = list(artefacts(planted(unlabelled=lambda rs: rs[:10])))
    assert all("fewer than 40 texts" in f.text for f in found)


def test_new_vocabulary_and_terms(parts: Parts, planted: Plant) -> None:
    terms = one(vocabulary(parts), "aspect terms of laptop")
    assert terms.numbers["types"] == 0
    assert terms.numbers["tokens"] == 0

    def foreign(records: Records) -> list[Record]:
        return [with_text(r, " ".join(word[::-1] + "x" for word in r.text.split())) for r in records]

    found = one(vocabulary(planted(test=foreign, unlabelled=foreign, ceiling=foreign)), "running words")
    assert (found.severity, found.numbers["tokens"] < 0.1) == ("warning", True)


def neighbours(touching: bool) -> Callable[[Records], Records]:
    """Records of two things with a word between them; and of two that touch, merged or not."""
    apart = from_tokens(["bo", "lens", "and", "strap", "wa"], ["O", "B-ASP", "O", "B-ASP", "O"])
    close = from_tokens(["bo", "lens", "strap", "wa"], ["O", "B-ASP", "B-ASP" if touching else "I-ASP", "O"])

    def plant(records: Records) -> Records:
        made = (apart if i % 12 else close for i in range(len(records)))
        return tuple(replace(r, text=t, words=w, spans=s) for r, (t, w, s) in zip(records, made, strict=True))

    return plant


def test_neighbours_that_were_merged(planted: Plant) -> None:
    merged, kept = neighbours(touching=False), neighbours(touching=True)
    found = one(annotation(planted(train=merged, dev=merged)), "not one pair touches")
    assert found.severity == "warning"
    assert found.numbers["one_word_between"] >= 150
    assert not [f for f in annotation(planted(train=kept, dev=kept)) if "touches" in f.text]


def test_texts_without_a_span(planted: Plant) -> None:
    def half(records: Records) -> list[Record]:
        return [replace(r, spans=() if i % 2 else r.spans) for i, r in enumerate(records)]

    found = one(annotation(planted(train=half, dev=half)), "without any span")
    assert found.severity == "warning"
    assert found.numbers == {"camera empty": 100, "camera of": 200, "laptop empty": 0, "laptop of": 240}
    assert "somebody may have left them out" in found.text


def test_no_gap_to_close(parts: Parts, planted: Plant) -> None:
    assert one(gap(parts), "There is a gap to close").numbers["low"] > 0
    source = (*corpora()["train"], *corpora()["dev"])
    order = np.random.default_rng(0).permutation(len(source))
    swapped = [source[i] for i in order]  # target texts that come from the source's own language
    trap = planted(test=lambda _: swapped[:100], ceiling=lambda _: [], train=lambda _: swapped[100:], dev=lambda _: [])
    found = one(gap(trap), "No gap to close is shown")
    assert found.severity in ("severe", "warning")
    assert found.numbers["low"] <= 0


def test_paths_that_the_source_lacks(planted: Plant) -> None:
    def tell(text: str) -> Callable[[Records], list[Record]]:
        spans = (
            Span(text.index("lens"), text.index("lens") + 4, "aspect"),
            Span(text.index("sharp"), text.index("sharp") + 5, "opinion"),
        )
        return lambda records: [replace(r, text=text, spans=spans) for r in records[:3]]

    one_way, other_way = tell("The lens is sharp."), tell("It has a sharp lens.")
    parser = SpacyParser()
    different = planted(train=one_way, dev=one_way, test=other_way, ceiling=other_way)
    assert one(paths(different, parser), "dependency paths").numbers["tokens"] == 0
    same = planted(train=one_way, dev=one_way, test=one_way, ceiling=one_way)
    assert one(paths(same, parser), "dependency paths").numbers["tokens"] == 1
