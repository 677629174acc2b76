"""Learning itself: a pinned loss curve, a structure that only syntax tells, a shift that adaptation must close."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import domadapt
from domadapt.syntax.conllu import conllu
from domadapt.syntax.controls import random_heads
from domadapt.syntax.parser import Parse
from tests.parsers import word_ranges
from tests.support import trained, write_jsonl

# Of corpora() in tests/support with seed 1, in float32 on one thread: what the seeding bug of old would have moved.
PINNED = [1.5701, 1.5480]


def test_the_loss_curve_of_a_tiny_run_is_pinned(tmp_path: Path) -> None:
    metrics = trained(tmp_path, "run", "trainer.precision=32", "trainer.threads=1", "seed=1")
    assert [line["losses"]["task"] for line in metrics["curve"]] == pytest.approx(PINNED, rel=1e-3)


WORDS = ["lens", "strap", "zoom", "flash", "menu", "case", "dial", "sound", "price", "grip"]


def planted_structure(folder: Path, name: str, count: int, seed: int) -> list[str]:
    """Words in random order under random trees: a word is an aspect where its head is ``zoom``: only a tree tells."""
    rng = random.Random(seed)
    rows, blocks = [], []
    for i in range(count):
        words = rng.sample(WORDS, 6)
        if "zoom" not in words:
            words[0] = "zoom"
        rng.shuffle(words)
        heads = random_heads(len(words), np.random.default_rng([seed, i])).tolist()
        text = " ".join(words)
        parse = Parse(word_ranges(text), np.array(heads), ("dep",) * len(words), ("NN",) * len(words))
        of_zoom = [k for k, head in enumerate(heads) if head != k and words[head] == "zoom"]
        spans = [{"start": s, "end": e, "type": "aspect"} for s, e in parse.words[of_zoom].tolist()]
        rows.append({"id": f"{name}-{i}", "domain": name, "text": text, "spans": spans})
        blocks.append(conllu("", text, parse))
    write_jsonl(folder / f"{name}.jsonl", rows)
    return blocks


def planted_run(folder: Path, name: str, *more: str) -> dict[str, Any]:
    """Metrics of a run on source.jsonl, target.jsonl and test.jsonl of a folder."""
    files = (("source.path", "source"), ("target.path", "target"), ("target.test_path", "test"))
    given = ["data=my_files", *(f"data.{part}={folder}/{file}.jsonl" for part, file in files), "backbone=tiny_random"]
    given += ["trainer.min_steps=0", "trainer.learning_rate=3e-3", "trainer.precision=32"]
    own = [f"paths.cache={folder}/cache", f"paths.run={folder}/{name}"]
    metrics: dict[str, Any] = domadapt.train([*given, *own, *more])
    return metrics


def test_a_structure_that_only_the_tree_tells_is_learnt_from_the_tree_alone(tmp_path: Path) -> None:
    parts = {"source": 600, "target": 60, "test": 100}
    blocks = [b for seed, (name, n) in enumerate(parts.items()) for b in planted_structure(tmp_path, name, n, seed)]
    (tmp_path / "parses.conllu").write_text("".join(blocks), encoding="utf-8")
    common = ["parser=conllu", f"parser.path={tmp_path}/parses.conllu", "trainer.epochs=12"]
    syntax = ["injection=lisa", "injection.lisa.layer=0", "injection.lisa.at_prediction=parser"]
    found = planted_run(tmp_path, "lisa", *common, *syntax)["target_test"]["aspect_f1"]
    off = planted_run(tmp_path, "off", *common)["target_test"]["aspect_f1"]
    assert off < 0.5 < 0.8 < found, (off, found)


SOURCE_NOUNS = ["lens", "strap", "zoom", "flash", "menu", "dial", "sensor", "battery"]
TARGET_NOUNS = ["keyboard", "hinge", "screen", "fan", "charger", "speaker", "touchpad", "webcam"]
OPINIONS = ["great", "dull", "superb", "weak", "lovely", "awful"]


def planted_shift(folder: Path, name: str, nouns: list[str], count: int, seed: int) -> None:
    """The aspect is the noun that is judged. In the source its words would do, for no other noun is ever judged."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        aspect, other = (rng.choice(half) for half in (nouns[:4], nouns[4:]))
        opinion = rng.choice(OPINIONS)
        texts = f"The {aspect} is {opinion} beside the {other}.", f"With a {other}, the {aspect} is {opinion}."
        text = rng.choice(texts)
        start = text.index(f" {aspect} is") + 1
        spans = [{"start": start, "end": start + len(aspect), "type": "aspect"}]
        rows.append({"id": f"{name}-{i}", "domain": name, "text": text, "spans": spans})
    write_jsonl(folder / f"{name}.jsonl", rows)


def test_a_shift_of_words_is_closed_by_substitution_and_not_without(tmp_path: Path) -> None:
    parts = [("source", SOURCE_NOUNS, 300), ("target", TARGET_NOUNS, 200), ("test", TARGET_NOUNS, 100)]
    for seed, (name, nouns, count) in enumerate(parts):
        planted_shift(tmp_path, name, nouns, count, seed)
    on = ["adaptation=term_substitution", "selection=last"]  # source dev is perfect before the first text is rewritten
    found = planted_run(tmp_path, "on", "trainer.epochs=12", *on)
    off = planted_run(tmp_path, "off", "trainer.epochs=12")
    assert off["source_dev"]["aspect_f1"] > 0.9
    scores = off["target_test"]["aspect_f1"], found["target_test"]["aspect_f1"]
    assert scores[0] < 0.5 < 0.8 < scores[1], scores
