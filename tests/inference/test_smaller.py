"""Smaller models: layers and heads that go, the right ones, exactly; a cut vocabulary reads as before."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from domadapt.inference.cut_vocabulary import cost, cut, encoded, pieces_needed
from domadapt.inference.export import export, pipeline_like
from domadapt.inference.smaller import answers, distil, divergence, drop_layers, prune_heads
from domadapt.models.attention import attention_modules, output_projection
from domadapt.models.pretrained import load_tokenizer
from tests.support import Command

SAID = [f"The {part} of number {number} is {how}." for number in range(5) for part in ("lens", "strap", "zoom")
         for how in ("superb", "dull", "too slow for me")]  # fmt: skip


def network(depth: int = 4) -> Any:
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=depth, num_attention_heads=4, intermediate_size=32,
        num_labels=3, initializer_range=0.5,
    )  # fmt: skip
    return transformers.BertForTokenClassification(config).eval()


def taught(model: Any) -> list[Any]:
    inputs = []
    for length in (5, 9, 7):
        mask = torch.ones(6, length, dtype=torch.long)
        mask[0, 3:] = 0
        inputs.append({"input_ids": torch.randint(1, 50, (6, length)), "attention_mask": mask})
    return [(one, answers(model, one)) for one in inputs]


def test_those_layers_go_without_which_answers_change_least() -> None:
    model = network()
    known, losses = taught(model), {}
    for place in range(4):
        other = copy.deepcopy(model)
        del other.base_model.encoder.layer[place]
        other.config.num_hidden_layers = 3
        losses[place] = divergence(other, known)
    kept = drop_layers(model, 3, known)
    assert kept == sorted({*range(4)} - {min(losses, key=losses.__getitem__)})
    assert divergence(model, known) == pytest.approx(min(losses.values()), abs=1e-6)
    assert (len(model.base_model.encoder.layer), model.config.num_hidden_layers) == (3, 3)


def test_a_model_without_heads_answers_as_one_whose_heads_are_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = network()
    known, less = taught(whole), copy.deepcopy(whole)
    assert prune_heads(less, 0.5, known) == (8, 16)
    counts = [module.num_attention_heads for module in attention_modules(less.base_model)]
    assert sum(counts) == 8 and min(counts) >= 1
    for module, less_of in zip(attention_modules(whole.base_model), attention_modules(less.base_model), strict=True):
        rows = {tuple(row) for row in less_of.query.weight.tolist()}
        stays = torch.tensor([tuple(row) in rows for row in module.query.weight.tolist()])
        projection: Any = output_projection(whole.base_model, module)
        projection.register_forward_pre_hook(lambda module, args, stays=stays: (args[0] * stays, *args[1:]))
    for inputs, _ in known:
        torch.testing.assert_close(answers(less, inputs), answers(whole, inputs), atol=1e-5, rtol=1e-4)


def test_what_stays_learns_what_the_whole_model_says() -> None:
    model = network()
    known = taught(model)
    drop_layers(model, 2, known)
    before = divergence(model, known)
    distil(model, known, 60)
    assert divergence(model, known) < 0.3 * before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("layers=9", "input=texts.txt"), "layers=9: expected 1 to 1"),
        (("layers=1",), "input=FILE"),
        (("layers=1", "input=few.txt"), "expected 30 texts or more"),
        (("prune_heads=0.5", "input=texts.txt"), "add format=onnx"),
        (("prune_heads=1", "input=texts.txt", "format=onnx"), "a number from 0 to 0.9"),
        (("layers=1", "input=texts.txt", "distil_epochs=0"), "a whole number from 1"),
        (("layers=many", "input=texts.txt"), "layers='many': expected a whole number from 1"),
        (("vocabulary=corpus",), "vocabulary=corpus, layers and prune_heads need texts of the new domain: input=FILE"),
        (("vocabulary=half", "input=texts.txt"), "vocabulary='half': expected whole or corpus"),
    ],
)
def test_what_cannot_be_made_smaller_is_refused(
    tiny_run: Path, tmp_path: Path, command: Command, given: tuple[str, ...], message: str
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(SAID))
    (tmp_path / "few.txt").write_text("\n".join(SAID[:9]))
    code, _, err = command("export", f"model={tiny_run}", "to=out", *given)
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("tiny_run", ["extraction"], indirect=True)
def test_fewer_layers_are_a_stock_model_and_fewer_heads_a_graph(tiny_run: Path, tmp_path: Path) -> None:
    told = export(tiny_run, tmp_path / "stock", texts=SAID, layers=1, vocabulary="corpus", distil_epochs=1)
    assert any("1 of 2 layers stay" in line for line in told)
    stock: Any = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "stock")
    assert stock.config.num_hidden_layers == len(stock.base_model.encoder.layer) == 1
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    told = export(tiny_run, tmp_path / "onnx", "onnx", SAID, layers=1, prune_heads=0.5, distil_epochs=1)
    assert any("attention heads are gone" in line for line in told)
    assert any("others:" in line for line in told) and any("% of all spans are shared" in line for line in told)


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
