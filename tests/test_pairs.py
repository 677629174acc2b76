"""Pairs of texts: read, parsed, tokenised, rewritten, learnt, asked and handed over."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.auditing.audit import audit
from domadapt.data.batches import Collator, encode
from domadapt.data.corpora import nli_genres
from domadapt.data.domains import Domains, TargetUnlabelled, unlabelled
from domadapt.data.records import Record
from domadapt.inference.description import read_description
from domadapt.inference.export import export
from domadapt.inference.onnx_model import OnnxModel
from domadapt.models.pretrained import load_tokenizer
from domadapt.reporting.target_card import as_lines
from domadapt.runs.target_card import read_card
from domadapt.serving.serve import Answers, make_app
from domadapt.syntax.conllu import conllu, read_conllu
from domadapt.syntax.parser import SpacyParser
from domadapt.training.build import build
from domadapt.utils.pairs import BOUNDARY, paired, parts, text_fields
from tests.support import Command, client_of, in_parts, read_jsonl, write_jsonl

NOUNS = ("lens", "screen", "fan", "room", "bed", "hinge")
PAIRS = [
    (f"The {one} is good.", f"{who} like the {other}.", "same" if one == other else "other")
    for place, one in enumerate(NOUNS)
    for who in ("I", "We", "They", "You")
    for other in (one, NOUNS[place - 1])
]
ASKED = [("The fan is good.", "I like the bed."), ("The room is fine.", "The screen is dull.")]
TEXT = st.text(st.characters(exclude_characters=BOUNDARY, exclude_categories=["Cs"]), max_size=30).filter(str.strip)


def rows(pairs: list[tuple[str, str, str]] = PAIRS) -> list[dict[str, str]]:
    return [{"text": one, "text_pair": other, "label": label} for one, other, label in pairs]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of pairs, adapted by the recipe."""
    folder = tmp_path_factory.mktemp("pairs")
    source = [((one, other), label) for one, other, label in PAIRS]
    target = [(one.replace("good", "fine"), other) for one, other, _ in PAIRS]  # as predict takes them
    small = ["backbone=tiny_random", "trainer.epochs=2", "trainer.min_steps=1", "trainer.precision=32"]
    given = [*small, "adaptation=recipe", f"paths.run={folder}/run", f"paths.cache={folder}/cache"]
    domadapt.train(given, source=source, target=target)
    return folder / "run"


@given(TEXT, TEXT)
def test_two_texts_are_told_apart_again(one: str, other: str) -> None:
    assert text_fields(paired(one, other)) == {"text": one, "text_pair": other}


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3), st.integers(5, 40))
def test_pieces_and_words_of_a_pair_stay_on_their_side(pairs: list[tuple[str, str]], most: int) -> None:
    texts, parser = [paired(*pair) for pair in pairs], SpacyParser()
    words = list(parser.tokenize(unlabelled(texts)))
    tokenizer = load_tokenizer("tiny_random")
    examples, _ = encode(texts, words, tokenizer, most)
    for pair, example in zip(pairs, examples, strict=True):
        alone = tokenizer(*pair, truncation=True, max_length=most)
        assert example.input_ids == alone["input_ids"] and example.segments == alone["token_type_ids"]
        (_, end), (start, _) = parts(example.text)
        assert all(stop <= end or first >= start for first, stop in example.words.tolist())
        segments = np.array(example.segments)[example.alignment.pair_pieces]
        assert (segments == (example.words[example.alignment.pair_words, 0] >= start)).all()
    batch = Collator(0)(examples)
    assert batch.token_type_ids is not None and batch.token_type_ids.shape == batch.input_ids.shape


def test_a_pair_is_parsed_as_its_two_texts_are() -> None:
    pair, *_ = given = list(unlabelled([ASKED[0], *ASKED[0]]))
    both, one, other = SpacyParser().parse(given)
    [(_, written)] = read_conllu(conllu(pair.id, pair.text, both), "out.conllu")
    assert both.relations == one.relations + other.relations and written.words.tolist() == both.words.tolist()
    assert both.heads.tolist() == [*one.heads.tolist(), *(other.heads + len(one.heads)).tolist()]


def test_a_model_says_only_what_did_something_for_its_task(run: Path) -> None:
    named = read_description(run / "model").left_behind.keys() - {"self_training"}  # whose labels may be refused
    assert named == {"averaging"}  # no pairs are rewritten


def test_sides_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    small = ["backbone=tiny_random", f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}"]
    source = [((one, other), label) for one, other, label in PAIRS]
    with pytest.raises(
        ValueError, match="'It rains.' is a single text; the model learns from pairs: give the second text"
    ):
        domadapt.train(small, source=source, target=["It rains."] * 9)
    write_jsonl(tmp_path / "source.jsonl", rows())
    with pytest.raises(
        ValueError, match=r"as text_pair, in Python as \(\(text, other\), None\)"
    ):  # not in a label's place
        domadapt.train(small, source=tmp_path / "source.jsonl", target=ASKED)
    with pytest.raises(ValueError, match="the source: 96 of 98 texts are pairs; expected all or none; 'It r.* is none"):
        domadapt.train(small, source=[*source, ("It rains.", "same")] * 2, target=["It rains."] * 9)
    spans = [((one, other), [(0, 3, "aspect")]) for one, other, _ in PAIRS]
    with pytest.raises(ValueError, match="pairs of texts take one label each"):
        domadapt.train([*small, "task=extraction"], source=spans, target=rows())
    spans = [(one, [(0, 2, "aspect")]) for one, *_ in PAIRS]
    write_jsonl(tmp_path / "test.jsonl", [{"text": "It rains.", "text_pair": "It is dry.", "spans": []}])
    with pytest.raises(ValueError, match="a labelled text: 'It r.* is a pair; the model learns from single texts"):
        domadapt.train([*small, f"target.test_path={tmp_path}/test.jsonl"], source=spans, target=["It rains."] * 9)


def test_a_noun_of_both_texts_is_replaced_alike(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "source.jsonl", rows())
    write_jsonl(tmp_path / "target.jsonl", [{"text": "The pasta is old.", "text_pair": "A waiter had the soup."}] * 9)
    files = ["data=my_files", f"source.path={tmp_path}/source.jsonl", f"target.path={tmp_path}/target.jsonl"]
    all_of_it = ["adaptation.term_substitution.sentence_share=1", "adaptation.term_substitution.noun_probability=1"]
    given = ["adaptation=term_substitution", *all_of_it, "backbone=tiny_random", f"paths.cache={tmp_path}"]
    session, _ = build(domadapt.compose("train", [*files, *given]))
    method: Any = session.methods["term_substitution"]
    method.prepare()
    before = session.domains.source_train
    after = method.augment(before, 0, np.random.default_rng(1))
    for one in after:
        sides = zip(text_fields(one.text).values(), (1, 3), strict=True)
        nouns = [text.rstrip(".").split()[place] for text, place in sides]
        assert {*nouns} <= {"pasta", "waiter", "soup"} and (one.label == "other" or len({*nouns}) == 1)
    assert len({one.text for one in after}) > 3


def test_predict_score_and_the_endpoint_take_pairs(run: Path, tmp_path: Path, command: Command) -> None:
    model = domadapt.load(run, "cpu", "32")
    said = model.predict(ASKED)
    named = [{"premise": one, "hypothesis": other} for one, other in ASKED]
    write_jsonl(tmp_path / "asked.jsonl", named)
    out, _ = command("predict", f"model={run}", "input=asked.jsonl", "column=[premise,hypothesis]")
    found = [json.loads(line) for line in out.splitlines()]
    assert [row["label"] for row in found] == [one.label for one in said]
    assert [(row["text"], row["text_pair"]) for row in found] == ASKED
    out, _ = command("predict", f"model={run}", f"text={ASKED[0][0]}", f"text_pair={ASKED[0][1]}")
    assert json.loads(out)["label"] == said[0].label
    with pytest.raises(ValueError, match="is a single text"):
        model.predict(["It rains."])
    write_jsonl(tmp_path / "labelled.jsonl", rows())
    card = read_card(run)
    assert card is not None
    assert 'text="Type a sentence here." text_pair="And the other here."' in as_lines(card)
    without = as_lines(replace(card, folder=str(tmp_path)))
    assert f"{tmp_path}/model is gone" in without and "domadapt predict" not in without
    out, _ = command("score", f"model={run}", "input=labelled.jsonl", "output=out.jsonl")
    assert f"{len(PAIRS)} labelled texts" in out
    assert [(row["text"], row["text_pair"]) for row in read_jsonl(tmp_path / "out.jsonl")] == [p[:2] for p in PAIRS]
    write_jsonl(tmp_path / "twice.jsonl", [*rows(), *rows(), {"text": " "}])
    out, _ = command("sample", f"model={run}", "input=twice.jsonl", "output=ask.jsonl")
    assert f"copy of another text, left out ({len(PAIRS)} times)" in out and "blank text, dropped (1 time)" in out
    form = '{"id": "...", "text": "the text", "text_pair": "the other text", "label": "LABEL"}'
    assert form in (tmp_path / "ask.prompt.txt").read_text(encoding="utf-8")

    pytest.importorskip("httpx")
    client = client_of(make_app(Answers(model, run / "model"), "a", ["127.0.0.1"]))
    both = {"text": ASKED[0][0], "text_pair": ASKED[0][1]}
    answer = client.post("/predict", json=both).json()["predictions"][0]
    assert answer["label"] == said[0].label and {name: answer[name] for name in both} == both
    for text, other in (("It rains.", " "), (f"It {BOUNDARY} rains.", "It is dry.")):
        with pytest.raises(ValueError, match="^text 2: .*(blank; expected the two|which parts the two of a pair)"):
            model.predict([ASKED[0], (text, other)])
        refused = client.post("/predict", json={"texts": [[text, other]]})
        assert refused.status_code == 400 and "text" in refused.json()["error"]
        assert client.post("/", data={"text": [text, other]}).status_code == 400
    page = client.post("/", data={"text": list(ASKED[0])}).text
    assert page.count("<textarea") == 2 and ASKED[0][1] in page and str(said[0].label) in page
    assert '{"text": "…", "text_pair": "…"}' in html.unescape(page)


@pytest.mark.parametrize("format", ["hf", "onnx"])
def test_a_model_of_pairs_is_handed_over(run: Path, tmp_path: Path, command: Command, format: str) -> None:
    measured = export(run, tmp_path / "out", format, [paired(*pair) for pair in ASKED])
    assert "The same label in 2 of 2 texts." in measured
    said = domadapt.load(run, "cpu", "32").predict(ASKED)
    write_jsonl(tmp_path / "labelled.jsonl", rows())
    told, _ = command("score", f"model={tmp_path}/out", f"baseline={run}", f"input={tmp_path}/labelled.jsonl")
    assert f"{len(rows())} labelled texts" in told and re.search(r"gain over it +\+0.0", told)
    _, told = command("predict", f"model={tmp_path}/out", "text=It rains.", code=2)
    assert "is a single text; the model learns from pairs: give the second text as text_pair" in told
    if format == "onnx":
        found = OnnxModel(tmp_path / "out")(ASKED)
        with pytest.raises(TypeError, match="expected two texts, got 'It'"):
            OnnxModel(tmp_path / "out")(["It"])
        assert [row["label"] for row in found] == [one.label for one in said]
        assert [row["confidence"] for row in found] == pytest.approx([one.confidence for one in said], abs=1e-3)


def test_the_audit_asks_what_one_text_tells_alone() -> None:
    numbered = enumerate(PAIRS * 2)
    records = tuple(Record(str(i), "a", paired(one, other), label=label) for i, (one, other, label) in numbered)
    telling = tuple(Record(r.id, "a", r.text + f" {r.label}", label=r.label) for r in records)
    for source, least, most in ((records, 0.0, 0.75), (telling, 0.9, 1.0)):
        texts = TargetUnlabelled.from_records("b", records)
        found = [f for f in audit(Domains("a", "b", source, (), (), texts, None)).findings if f.kind == "pairs"]
        assert len(found) == 2 and least <= max(f.numbers["accuracy"] for f in found) <= most


def test_nli_genres(tmp_path: Path) -> None:
    parted = {"train": 20, "test": 20}
    root = in_parts(tmp_path, "nli_genres", ("fiction", "travel"), parted, lambda domain, part, i: rows()[i])
    domains = nli_genres(str(root), "fiction_to_travel")
    assert len(domains.source_train) + len(domains.source_dev) == 20 and len(domains.unlabelled.texts) == 20
    assert parts(domains.unlabelled.texts[0].text) == parts(paired(*PAIRS[0][:2]))
    assert domains.test is not None and domains.test.open()[0].label == PAIRS[0][2]
