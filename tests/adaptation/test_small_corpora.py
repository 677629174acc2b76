"""Adaptations where there is next to nothing to learn from, or what they look for is not there."""

from pathlib import Path

import pytest

import domadapt
from domadapt.methods.adaptation.guidelines import Guidelines
from domadapt.syntax.parser import load_pipeline
from tests.support import corpora, setting_of, tiny_encoder, write_jsonl

WORDS = ["apple", "bridge", "candle", "dragon", "engine", "forest", "garden", "hammer", "island", "jacket", "kettle"]


@pytest.mark.parametrize("texts", [[f"The {word} is great." for word in WORDS], ["The lens is great."] * 12])
def test_nouns_that_come_once_and_a_single_noun(tmp_path: Path, texts: list[str]) -> None:
    overrides = corpora(tmp_path)
    rows = [
        {
            "id": str(i),
            "text": text,
            "spans": [
                {"start": at, "end": at + len(word), "type": kind}
                for at, word, kind in ((4, text.split()[1], "aspect"), (text.index("great"), "great", "opinion"))
            ],
        }
        for i, text in enumerate(texts)
    ]
    write_jsonl(tmp_path / "source.jsonl", rows)
    methods = ["adaptation=[self_training,term_substitution]", "data.dev_by=record", "trainer.epochs=1"]
    metrics = domadapt.train([*overrides, *methods])
    assert 0 < metrics["stages"]["term_substitution/terms"] <= len(texts)


def test_terms_can_not_need_an_opinion_where_none_is_annotated() -> None:
    method = Guidelines(terms_need_opinion=True, not_terms=None)
    session = setting_of(tiny_encoder(labels=3), method)
    session.task.types, session.task.labels = ["NEG", "POS"], ["O", "B-NEG", "I-NEG", "B-POS", "I-POS"]
    method.session = session
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("domadapt.methods.terms.noun_kinds", lambda *of: frozenset({"NEG", "POS"}))
        with pytest.raises(ValueError, match="terms_need_opinion=true: expected a span type of opinions"):
            method.prepare()


def test_spans_are_nothing_to_classification(tmp_path: Path) -> None:
    methods = ["task=classification", "adaptation=term_substitution", "trainer.epochs=1"]
    stages = domadapt.train([*corpora(tmp_path), *methods])["stages"]
    assert stages["term_substitution/terms"] == 0 < stages["term_substitution/others"]


def test_a_parser_that_is_loaded_in_the_middle_of_training_changes_no_number(tmp_path: Path) -> None:
    def trained(name: str) -> object:
        folder = tmp_path / name
        overrides = [*corpora(tmp_path), "adaptation=term_substitution", "trainer.threads=1", f"paths.run={folder}"]
        return [(line["losses"], line["validators"]) for line in domadapt.train(overrides)["curve"]]

    warm = trained("warm")
    load_pipeline.cache_clear()  # the parses of the corpora are in the cache: what is made anew each epoch loads it
    assert trained("cold") == warm


def test_what_was_mended_is_counted_as_read_not_at_every_epoch(tmp_path: Path) -> None:
    overrides = corpora(tmp_path)
    rows = [
        {
            "id": str(i),
            "text": f"The lens of a strap{i} is dull, number {i}.",
            "spans": [{"start": 4, "end": 8, "type": "aspect"}, {"start": 9, "end": 10, "type": "opinion"}],
        }
        for i in range(20)
    ]
    write_jsonl(tmp_path / "source.jsonl", rows)
    often = "span off word boundaries, snapped outward"
    told = [
        domadapt.train(
            [
                *overrides,
                "data.dev_by=record",
                "adaptation=term_substitution",
                "adaptation.term_substitution.share=1.0",
                f"trainer.epochs={n}",
            ]
        )["counts"]["warnings"][often]
        for n in (1, 2)
    ]
    assert told[0] == told[1] == 20
