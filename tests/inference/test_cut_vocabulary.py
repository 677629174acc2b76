"""A vocabulary cut to a corpus: its texts are read as before, whatever the pieces; what else it costs is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from domadapt.inference.cut_vocabulary import cost, cut, encoded, pieces_needed
from domadapt.inference.export import pipeline_like
from domadapt.models.pretrained import load_tokenizer
from tests.support import Command

WORDS = st.text("abcdé一", min_size=1, max_size=7)
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=12)
PIECES = st.lists(st.text("abcé一", min_size=1, max_size=4), min_size=1, max_size=40, unique=True)  # d is in none
LONGEST = {"max_input_chars_per_word": 9}
SPECIAL = [
    {"id": number, "content": piece, "single_word": False, "lstrip": False, "rstrip": False}
    | {"normalized": False, "special": True}
    for number, piece in enumerate(["<pad>", "<unk>"])
]


def unigram(pieces: list[str], scores: list[float]) -> dict[str, Any]:
    spelled = ["<pad>", "<unk>", "▁", *pieces, *(f"▁{piece}" for piece in pieces[::2])]
    scores = [0.0, 0.0, -4.0, *scores, *(score - 1 for score in scores)][: len(spelled)]
    vocab = [*map(list, zip(spelled, scores, strict=True))]
    model = {"type": "Unigram", "unk_id": 1, "byte_fallback": False, "vocab": vocab}
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {"version": "1.0", "added_tokens": SPECIAL, "pre_tokenizer": space, "model": model}


def wordpiece(pieces: list[str], _: list[float]) -> dict[str, Any]:
    spelled = ["<pad>", "<unk>", *pieces, *(f"##{piece}" for piece in pieces[::-1])]
    model = {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", **LONGEST}
    model["vocab"] = {piece: number for number, piece in enumerate(spelled)}  # type: ignore[assignment]
    return {"version": "1.0", "added_tokens": SPECIAL, "pre_tokenizer": {"type": "Whitespace"}, "model": model}


@pytest.mark.parametrize("kind", [unigram, wordpiece])
@settings(max_examples=300)
@given(PIECES, st.lists(st.floats(-20, -1), min_size=60, max_size=60), TEXTS, TEXTS)
def test_the_corpus_is_read_as_before(kind: Any, pieces: Any, scores: Any, texts: list[str], others: list[str]) -> None:
    whole = kind(pieces, scores[: len(pieces)] + scores[: len(pieces)])
    kept = pieces_needed(whole, texts)
    less = cut(whole, kept)
    for old, new in zip(encoded(whole, texts), encoded(less, texts), strict=True):
        assert old.ids == [kept[number] for number in new.ids]
        assert old.offsets == new.offsets
    if kind is unigram:  # single characters stay: what was known is known
        for old, new in zip(encoded(whole, others), encoded(less, others), strict=True):
            assert new.tokens.count("<unk>") <= old.tokens.count("<unk>") or "d" in "".join(others)


def test_the_real_wordpiece_tokenizer() -> None:
    """With its normalizer, special pieces and fixed padding."""
    whole = json.loads(load_tokenizer("minilm").backend_tokenizer.to_str())
    texts = [f"The naïve café, room {i}, wasn't great!! ☃ 你好 {'x' * 120}" for i in range(40)]
    kept = pieces_needed(whole, texts)
    assert len(kept) < 6000 and kept[0] == 0
    for old, new in zip(encoded(whole, texts), encoded(cut(whole, kept), texts), strict=True):
        assert old.ids == [kept[number] for number in new.ids]
    assert cost(whole, texts).startswith("Text that was not met, of the same kind: cut to nine tenths of these texts, ")
    assert "is not known" in cost(whole, ["The same."] * 20)


def test_an_exported_folder_is_cut_and_says_so(tiny_run: Path, tmp_path: Path, command: Command) -> None:
    texts = [f"The lens of number {i} is superb and the strap was not." for i in range(30)]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    given = [f"model={tiny_run}", "input=texts.txt"]
    code, out, _ = command("export", *given, "to=cut", "vocabulary=corpus")
    assert code == 0 and "The vocabulary is cut to 30 texts" in out and "Text that was not met" in out
    assert command("export", *given, "to=whole")[0] == 0
    kind = "token" if tiny_run.parent.name.startswith("extraction") else "sequence"
    whole, less = (pipeline_like(tmp_path / name, kind)(texts) for name in ("whole", "cut"))
    assert whole == less
    assert "The vocabulary is cut to 30 texts" in (tmp_path / "cut" / "README.md").read_text("utf-8")
    size = json.loads((tmp_path / "cut" / "config.json").read_text("utf-8"))["vocab_size"]
    rows = [t for name, t in load_file(tmp_path / "cut" / "model.safetensors").items() if "word_embeddings" in name]
    assert [len(row) for row in rows] == [size] and size < 6000
    code, _, err = command("export", f"model={tiny_run}", "to=other", "vocabulary=corpus")
    assert code == 2 and "vocabulary=corpus, layers and prune_heads need texts of the new domain: input=FILE" in err
    code, _, err = command("export", *given, "to=other", "vocabulary=half")
    assert code == 2 and "vocabulary='half': expected whole or corpus" in err
