"""Models handed over, whole or smaller: without this package they say what they said before."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers

import domadapt
from domadapt.data.domains import unlabelled
from domadapt.data.records import Record, Span
from domadapt.inference import smaller
from domadapt.inference.description import Description, LabelsRead, read_description
from domadapt.inference.export import export, notes, pipeline_like, quietly, refuse_non_stock, write_onnx
from domadapt.inference.light import Bert, Exported
from domadapt.inference.model_card import model_card
from domadapt.inference.onnx_model import OnnxModel
from domadapt.inference.smaller import answers, distil, divergence, drop_layers, stock_model
from domadapt.inference.thresholds import apply_limits, count_confidences, read_limits, source_dev
from domadapt.models.pretrained import load_tokenizer
from domadapt.runs.groups import read_metrics
from domadapt.runs.metrics import Expected
from domadapt.tasks.task import Prediction
from tests.support import Command, edit, ran, setting_of, small_encoder, without_checksums, write_jsonl

TASKS, STOCK = ("extraction", "classification"), ("README.md", "config.json", "labels_read.json")
TEXTS = [
    "The lens of number 3 is superb.",
    "The strap of number 9 is dull.",
    "A weak battery, a great zoom and a lovely screen",
    "incomprehensible menus " * 30,  # more than the model reads
]


def spans_of(row: Any) -> set[tuple[int, int, str]]:
    return {(s["start"], s["end"], s["type"]) for s in row["spans"]}


def expected(run: Path, plain: bool = False) -> list[dict[str, Any]]:
    """What the model itself says, in the form of an exported one; plain is as transformers decodes, word by word."""
    model: Any = domadapt.load(run, "cpu", "32")
    if plain and model.session.task.kind == "token":
        model.session.task.transition_weight, model.session.task.temperature = 0.0, 1.0
    found = model.predict(TEXTS)
    if model.session.task.kind == "sequence":
        return [{"label": p.label, "confidence": p.confidence} for p in found]
    return [{"spans": [{"start": s.start, "end": s.end, "type": s.type, "confidence": s.confidence} for s in p.spans]}
            for p in found]  # fmt: skip


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]], within: float) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        if "label" in b:
            assert (a["label"], a["confidence"]) == (b["label"], pytest.approx(b["confidence"], abs=within))
        else:
            assert spans_of(a) == spans_of(b)
            sure = [s["confidence"] for s in b["spans"]]
            assert [s["confidence"] for s in a["spans"]] == pytest.approx(sure, abs=within)


def copied_and_damaged(folder: Path, command: Command) -> None:
    """What is wrong with a copy of an exported folder, ``out``, is told in a line with the right file."""

    def told(file: str, content: str | None) -> str:
        shutil.copytree(folder / "out", folder / "copy", dirs_exist_ok=True)
        (folder / "copy" / file).unlink() if content is None else (folder / "copy" / file).write_text(content)
        return command("predict", "model=copy", "text=Sharp.", code=2)[1]

    weights = "model.onnx" if (folder / "out" / "model.onnx").is_file() else "model.safetensors"
    config = json.loads((folder / "out" / "config.json").read_text("utf-8"))
    of_another = json.dumps({**config, "kind": None, "architectures": ["BertForMaskedLM"]})
    assert "copy: not a model folder (tokenizer.json is missing in it)" in told("tokenizer.json", None)
    assert "(model.safetensors or model.onnx is missing in it)" in told(weights, None)
    assert "copy/config.json: expected a model that labels texts or finds spans" in told("config.json", of_another)
    assert re.search(r"copy/tokenizer.json: damaged|could not be loaded", told("tokenizer.json", "{}"))
    assert re.search(r"copy: damaged|could not be loaded", told(weights, "x"))
    if config.get("transitions"):
        crooked = json.dumps({**config, "transitions": [[1, 2]]})
        assert "config.json: transitions of (1, 2), expected (" in told("config.json", crooked)


def scored_as_its_own(folder: Path, wanted: list[dict[str, Any]], command: Command) -> None:
    """`predict`, `score` and `compare` of an exported folder, ``out``, on labels that it gives itself."""
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    copied_and_damaged(folder, command)
    printed, told = command("predict", "model=out", "input=texts.txt", "batch_size=3")
    rows = [*map(json.loads, printed.splitlines())]
    same(rows, wanted, 1e-3)
    assert [row.get("truncated") for row in rows] == [None, None, None, True] and "1 of 4 texts are longer" in told
    write_jsonl(folder / "gold.jsonl", [{"text": text, **row} for text, row in zip(TEXTS, wanted, strict=True)])
    out = command("score", "model=out", "input=gold.jsonl", "baseline=out")[0]
    assert re.search(r"F1 +100\.0 ", out) and "gain over it          +0.0" in out and "1 text is longer than 24" in out
    assert "0 of 4 texts" in command("compare", "out", "out", "input=gold.jsonl")[0]
    assert "stock or exported" in command("sample", "model=out", "input=texts.txt", "output=some", code=2)[1]


def test_a_pipeline_says_the_same_called_as_we_say(tiny_run: Path, tmp_path: Path, command: Command) -> None:
    write_jsonl(tmp_path / "texts.jsonl", [{"review": text} for text in [*TEXTS, " "]])
    out, err = command("export", f"model={tiny_run}", "to=out", "input=texts.jsonl", "column=review")
    assert "blank text, dropped (1 time)" in err
    first, measured, *_ = out.splitlines()
    assert first.split("; ")[0] == "out: hf"
    assert " of 4 texts" in measured
    assert domadapt.load(tiny_run).session.task.temperature != 1.0
    call = first.partition("load it with ")[2]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert f"model = {call}\n" in card
    assert "| from 0 | from 0.5 |" in card and "held-out texts of" in card.split("## Thresholds")[1]
    assert card.count("of the model that this folder was made from") == 3  # all that is not measured again
    code = f"""if True:
        import json, sys
        from transformers import pipeline
        print(json.dumps([*map({call}, json.loads(sys.argv[1]))], default=float))
        assert "domadapt" not in sys.modules
    """
    wanted = expected(tiny_run, plain=True)
    kind = "sequence" if "label" in wanted[0] else "token"
    if kind == "token":
        assert "decodes the tags of a text together" in card
    found = json.loads(ran(code, json.dumps(TEXTS), cwd=tmp_path))
    if kind == "sequence":
        same([{"label": f["label"], "confidence": f["score"]} for [f] in found], wanted, 1e-5)
    else:
        rows = [{"spans": [{**s, "type": s["entity_group"], "confidence": s["score"]} for s in f]} for f in found]
        same(rows, wanted, 1e-5)
        assert sum(len(row["spans"]) for row in wanted) > 3
    scored_as_its_own(tmp_path, wanted, command)
    settings = json.loads((path := tmp_path / "out" / "tokenizer_config.json").read_text("utf-8"))
    path.write_text(json.dumps({**settings, "model_max_length": int(1e30)}))  # as many stock models have it
    assert "longer than" in command("predict", "model=out", f"text={'menus ' * 2000}")[1]


def test_a_stock_model_of_relative_positions_reads_texts_of_any_length(tmp_path: Path) -> None:
    encoder = small_encoder(tmp_path, "xlnet")
    encoder.tokenizer.model_max_length = int(1e30)  # as of many stock models
    encoder.save(tmp_path)
    assert not Exported(tmp_path).predict_texts([*unlabelled(["Sharp. " * 200])])[0].truncated


def test_code_in_a_strangers_folder_is_not_run_to_score_it(tiny_run: Path, tmp_path: Path, command: Command) -> None:
    export(tiny_run, folder := tmp_path / "out", texts=TEXTS[:1])
    write_jsonl(tmp_path / "gold.jsonl", [{"text": text, **row} for text, row in zip(TEXTS, expected(tiny_run))])
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'mark')!r})\n")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    own = {name: f"evil.{name}" for name in ("AutoConfig", "AutoModelForTokenClassification")}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "evil", "auto_map": own}))
    assert "could not be loaded" in command("score", "model=out", "input=gold.jsonl", code=2)[1]
    assert not (tmp_path / "mark").exists()


def test_a_card_is_written_from_the_run(tiny_run: Path, tmp_path: Path) -> None:
    folder = tiny_run / "model"
    run = read_metrics(tiny_run / "metrics.json")
    card = model_card(read_description(folder), run, "use()", ["Measured."])
    trained = f"{run.counts.source_train} labelled texts"
    for told in (trained, f"{100 * (run.score() or 0):.1f}", "the first 24 subwords", "use()", "Measured."):
        assert told in card
    assert f" and no text of {run.target} without labels" in card  # it is source-only
    assert "not been measured" not in card.split("## Limits")[0]
    sure = replace(run.calibration, error=0.31, scaled_error=0.04)  # as it is, and as it is told
    assert "off by 4 points" in model_card(read_description(folder), replace(run, calibration=sure), "use()", [])
    estimate = replace(run, target_test={}, expected=Expected(0.9, 0.76, 1.0))
    assert "without a label: 90 (76 to 100, " in model_card(read_description(folder), estimate, "use()", [])
    few = model_card(read_description(folder), replace(run, counts=replace(run.counts, target_labels=20)), "use()", [])
    assert f"{trained} of {run.source} and {run.target} (20 of {run.target}, maybe repeated) and " in few
    apart = model_card(read_description(folder), None, "use()", [])
    assert "Not known" in apart and "Beside the model" not in apart
    ceiling = LabelsRead("in_domain", run.source, 8, None, True)
    dev = {"texts": 3, "kinds": {}}
    told = model_card(read_description(folder), replace(run, role="in_domain"), "use()", [], dev, [ceiling])
    assert f"on 3 held-out texts of {run.target}" in told and f"| {run.target}, held out |" in told
    told = model_card(read_description(folder), None, "use()", [], every=[ceiling])
    for label_use in (f"labelled text of {run.target}", "It is a ceiling", "given 8 labels", "chosen its epoch"):
        assert label_use in told


@pytest.mark.parametrize(("tiny_run", "format"), [*zip(TASKS, ("onnx", "onnx-int8"))], indirect=["tiny_run"])
def test_onnxruntime_alone_says_the_same(
    tiny_run: Path, tmp_path: Path, format: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    told = export(tiny_run, tmp_path / "out", format, TEXTS[:2])
    assert any("times as fast as transformers' pipeline" in line for line in told)
    assert "model = OnnxModel()\n" in (tmp_path / "out" / "README.md").read_text(
        "utf-8"
    )  # whatever the folder is called
    code = """if True:
        import json, sys
        sys.dont_write_bytecode = True  # into the folder
        from onnx_model import OnnxModel
        texts = json.loads(sys.argv[1])
        found = OnnxModel()(texts, batch_size=3)
        print(json.dumps(found))
        for wrong in ("One text, which is no list of letters.", [["A pair", "of texts"]], [None]):
            try:
                OnnxModel()(wrong)
            except TypeError as error:
                assert str(error).startswith("expected a")
            else:
                raise AssertionError(wrong)
        assert not {"torch", "transformers", "domadapt"} & set(sys.modules)
        if sys.argv[2] == "onnx-int8":
            assert found == [OnnxModel()([text])[0] for text in texts]  # whatever it is labelled with
    """
    found = json.loads(ran(code, json.dumps(TEXTS), format, cwd=tmp_path / "out"))
    if format == "onnx":
        same(found, expected(tiny_run), 1e-3)
    texts = "\ufeffSharp \N{GRINNING FACE}.\r\n\nDull.\r\n".encode()
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    program = [sys.executable, "onnx_model.py"]
    done = subprocess.run(program, cwd=tmp_path / "out", input=texts, env=latin, capture_output=True, check=True)
    read = [json.loads(line)["text"] for line in done.stdout.decode().splitlines()]
    assert read == ["Sharp \N{GRINNING FACE}.", "", "Dull."]
    scored_as_its_own(tmp_path, found, command)
    if "spans" in found[0]:
        (tmp_path / "tokens.txt").write_text("The O\nscreen/lid B-aspect\n")
        told = "text with words of its own, which an exported model cuts by its own rules (1 time)"
        assert told in command("score", "model=out", "input=tokens.txt", "format=conll")[0]
    assert "is an exported model" in command("predict", "model=out", "text=x", "precision=bf16-mixed", code=2)[1]
    verb = "import sys; sys.argv[1:] = ['predict', 'model=out', 'text=Sharp.']"
    ran(f"{verb}; from domadapt.cli.main import main; main(); assert 'torch' not in sys.modules", cwd=tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # not installed
    monkeypatch.delitem(sys.modules, "domadapt.inference.onnx_model", raising=False)
    told = command("predict", "model=out", "text=Sharp.", code=2)[1]
    assert told.endswith("out: needs onnxruntime: pip install 'domadapt[onnx]'\n")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {*STOCK, "model.onnx", "onnx_model.py", "tokenizer.json"}


def test_onnx_of_padded_texts_whose_positions_are_rotated(tmp_path: Path) -> None:
    """Where they are added, as BERT's are, the test above has texts of several lengths in a batch."""
    onnxruntime = pytest.importorskip("onnxruntime")
    encoder = small_encoder(tmp_path, "modernbert")
    encoder.save(tmp_path / "stock")
    model = stock_model(tmp_path / "stock")
    with quietly():
        write_onnx(tmp_path / "stock", model, setting_of(encoder), tmp_path, eight_bits=False)
    ids, mask = torch.arange(30).view(3, 10) + 5, torch.tensor([[1] * 10, [1] * 6 + [0] * 4, [1] * 3 + [0] * 7])
    given = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    (logits,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, given)
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask).logits.numpy()
    np.testing.assert_allclose(logits[mask == 1], expected[mask == 1], atol=1e-4)


def test_what_a_stock_model_cannot_do_is_not_left_out_in_silence(tmp_path: Path) -> None:
    def made(backbone: str, *methods: str) -> Description:
        parts = {"task": {}, "relations": {}, "parser": {}, "control": {}, "parser_name": "", "max_length": 8}
        names = {"source": "a", "target": "b", "parses_at_prediction": False}
        own = {"backbone": {"_target_": backbone}, "methods": {name: {} for name in methods}}
        return Description(**parts, **names, **own)  # type: ignore[arg-type]

    stock = made("domadapt.models.encoder.Encoder", "corpus_evidence")
    with pytest.raises(ValueError, match="corpus_evidence takes part in its predictions.*drop_methods=true"):
        refuse_non_stock(stock, tmp_path, drop_methods=False)
    refuse_non_stock(stock, tmp_path, drop_methods=True)
    assert "reads text as it is: lower it" in "".join(notes(replace(stock, lowercase=True), None))
    with pytest.raises(ValueError, match="no transformers model"):
        refuse_non_stock(made("domadapt.models.bilstm.BiLSTM"), tmp_path, True)


def test_a_folder_with_something_in_it_is_left_alone(
    tiny_run: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    assert "to=mine: there is something in it" in command("export", f"model={tiny_run}", "to=mine", code=2)[1]
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"
    assert "to=.: there is something in it" in command("export", f"model={tiny_run}", "to=.", code=2)[1]
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for verb, more in (("export", []), ("guide", ["types=[aspect]", "terms=[lens]"])):
        _, err = command(verb, f"model={tiny_run}", "to=.", *more, code=2)
        assert "to=.: is the folder that you are in; give one in it, or beside it" in err
    monkeypatch.chdir(tmp_path)
    _, err = command("export", f"model={tiny_run}", "to=/proc/mine", code=2)
    assert "No such file or directory; name a folder that can be read and written (to; model is read)" in err


def test_what_lies_beside_a_model_and_damaged_predictions(tiny_run: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(tiny_run, tmp_path / "mine"))
    (mine / "model" / "encoder" / "notes").mkdir()
    (mine / "model" / "notes.md").symlink_to(tmp_path / "gone.md")
    export(mine, tmp_path / "stock")
    if "types" in read_description(mine / "model").task:
        domadapt.guide(mine, tmp_path / "guided", terms=["lens"])
    for number, line in enumerate(('{"text"', '{"label": 1}', "1")):
        (mine / "predictions.jsonl").write_text(line, encoding="utf-8")
        with pytest.raises(ValueError, match=r"mine/predictions.jsonl: damaged .*; delete it, or give other texts"):
            export(mine, tmp_path / str(number))
    (mine / "predictions.jsonl").unlink()
    assert "for want of texts" in export(mine, tmp_path / "other")[0]


def test_a_run_folder_is_loaded_like_its_model(tiny_run: Path) -> None:
    both = [domadapt.predict(folder, TEXTS) for folder in (tiny_run, tiny_run / "model")]
    assert both[0] == both[1]
    model = domadapt.load(tiny_run, "cpu", "32")
    if model.session.task.kind == "sequence":
        shares = model.probabilities(TEXTS)
        found = model.predict(TEXTS)
        assert [model.session.task.labels[i] for i in shares.argmax(1)] == [p.label for p in found]
        assert shares.max(1).tolist() == pytest.approx([p.confidence for p in found])
    else:
        assert all(0 < (s.confidence or 0) <= 1 for p in both[0] for s in p.spans)


def test_a_word_of_sentencepiece_begins_behind_its_space() -> None:
    pieces = [(piece, -1.0) for piece in ("[UNK]", "▁", "▁dull", "l", "ens", ".")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    text = "dull lens."
    encoded = tokenizer.encode(text)
    assert encoded.tokens == ["▁dull", "▁", "l", "ens", "."] and encoded.offsets[1:3] == [(4, 5), (5, 6)]
    model = OnnxModel.__new__(OnnxModel)
    model.labels, model.transitions, model.temperature = ["O", "B-aspect", "B-opinion"], np.zeros((4, 3)), 1.0
    found = model._spans(text, encoded, np.eye(3)[[2, 0, 1, 0, 0]])
    assert [(span["type"], span["text"]) for span in found] == [("opinion", "dull"), ("aspect", "lens.")]


BYTES = Tokenizer(models.BPE({letter: i for i, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}, []))
BYTES.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
TOKENIZERS = {"WordPiece": load_tokenizer("tiny_random").backend_tokenizer, "byte-level BPE": BYTES}
LETTERS = st.tuples(st.sampled_from("bcé\u0915\u0928"), st.text("\u0301\u0308\u0902\u093f\u0947\u20e3", max_size=2))
MARKED = st.lists(LETTERS.map("".join), min_size=1, max_size=5).map("".join)
ENDED = st.tuples(MARKED, st.sampled_from(["", ",", " !"])).map("".join)


@pytest.mark.parametrize("family", TOKENIZERS)
@given(text=st.lists(ENDED, min_size=1, max_size=5).map(" ".join))
def test_a_combining_mark_is_of_its_word_whatever_the_tokenizer_does_with_it(family: str, text: str) -> None:
    encoded = TOKENIZERS[family].encode(text)
    package = Bert.__new__(Bert)
    package.longest, package.warnings = 512, Counter()
    words = OnnxModel.__new__(OnnxModel)._words(text, encoded)
    assert words == package._words(text, encoded)
    assert [text[start:end] for _, start, end in words] == re.findall(r"[^\s,!]+|[,!]", text)


@pytest.mark.parametrize("content", ['{"sou', "[]", '{"source": "a", "texts": 5, "kinds": {"aspect": [[1]]}}'])
def test_a_damaged_source_dev_is_left_out_and_told(tmp_path: Path, content: str, caplog: Any) -> None:
    """Of the report of many runs, which checks no model's checksums, it ended all."""
    (tmp_path / "source_dev.json").write_text(content)
    assert source_dev(tmp_path) == {} and f"{tmp_path}/source_dev.json is damaged" in caplog.text


def test_thresholds_of_spans() -> None:
    spans = Span(4, 8, "aspect", 0.8), Span(0, 3, "opinion", 0.3)
    record, prediction = Record("1", "d", "The lens", spans=spans[:1]), Prediction(spans=spans)
    kinds = count_confidences([record], [prediction], ["aspect", "opinion"])
    assert kinds == {"aspect": {"gold": 1, "found": [(0.8, True)]}, "opinion": {"gold": 0, "found": [(0.3, False)]}}
    assert apply_limits(prediction, read_limits({"opinion": 0.5}, [*kinds])).spans == spans[:1]
    assert apply_limits(prediction, read_limits(0.9, [*kinds])).spans == ()


SAID = [f"The {part} of number {number} is {how}." for number in range(5) for part in ("lens", "strap", "zoom")
         for how in ("superb", "dull", "too slow for me")]  # fmt: skip


def network(depth: int = 4) -> Any:
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=depth, num_attention_heads=4, intermediate_size=32,
        num_labels=3, initializer_range=0.5
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
        (("layers=9", "input=texts.txt"), "layers=9: expected 1 to 1; the model has 2"),
        (("drop_methods=no",), "drop_methods='no': expected true or false"),
        (("layers=1",), "input=FILE"),
        (("layers=1", "input=few.txt"), "30 texts or more to learn from, beside every tenth, which is held out"),
        (("layers=1", "input=texts.txt", "distil_epochs=0"), "a whole number from 1"),
        (("distil_epochs=3", "input=texts.txt"), "distil_epochs=3: nothing is distilled; add layers="),
        (("layers=many", "input=texts.txt"), "layers='many': expected a whole number from 1"),
        (("vocabulary=corpus",), "vocabulary=corpus and layers need texts of the new domain: input=FILE"),
        (("vocabulary=half", "input=texts.txt"), "vocabulary='half': expected whole or corpus"),
    ],
)
def test_what_will_not_get_smaller(tiny_run: Path, tmp_path: Path, command: Command, given: Any, message: str) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(SAID))
    (tmp_path / "few.txt").write_text("\n".join(SAID[:9]))
    assert message in command("export", f"model={tiny_run}", "to=out", *given, code=2)[1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("tiny_run", ["extraction"], indirect=True)
def test_fewer_layers_are_a_stock_model(tiny_run: Path, tmp_path: Path, capfd: Any) -> None:
    told = export(tiny_run, tmp_path / "stock", texts=SAID, layers=1, vocabulary="corpus", distil_epochs=1)
    assert any("1 of 2 layers stay" in line for line in told) and "it/s" not in capfd.readouterr().err  # no bars
    stock: Any = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "stock")
    assert stock.config.num_hidden_layers == len(stock.base_model.encoder.layer) == 1
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    told = export(tiny_run, tmp_path / "onnx", "onnx", SAID, layers=1, distil_epochs=1)
    assert any("others:" in line for line in told) and any("% of all spans are shared" in line for line in told)


@pytest.mark.parametrize("tiny_run", ["extraction"], indirect=True)
def test_a_model_of_lower_case_gets_smaller_on_lower_case(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = without_checksums(Path(shutil.copytree(tiny_run / "model", tmp_path / "model")))
    edit(model / "domadapt.json", lambda content: content.update(lowercase=True))
    read: list[str] = []
    monkeypatch.setattr("domadapt.inference.export.cut_folder", lambda folder, texts: read.extend(texts) or [])
    export(model, tmp_path / "cut", texts=SAID, vocabulary="corpus")
    assert read == [text.lower() for text in SAID] != SAID


WORDS = st.text("abcdé一", min_size=1, max_size=7)
CORPORA = st.lists(st.lists(WORDS, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=12)
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
@settings(max_examples=100)
@given(PIECES, st.lists(st.floats(-20, -1), min_size=60, max_size=60), CORPORA, CORPORA)
def test_the_corpus_is_read_as_before(kind: Any, pieces: Any, scores: Any, texts: list[str], others: list[str]) -> None:
    whole = kind(pieces, scores[: len(pieces)] + scores[: len(pieces)])
    kept = smaller.pieces_needed(whole, texts)
    less = smaller.cut_tokenizer(whole, kept)
    for old, new in zip(smaller.encodings(whole, texts), smaller.encodings(less, texts), strict=True):
        assert old.ids == [kept[number] for number in new.ids]
        assert old.offsets == new.offsets
    if kind is unigram:  # single characters stay: what was known is known
        for old, new in zip(smaller.encodings(whole, others), smaller.encodings(less, others), strict=True):
            assert new.tokens.count("<unk>") <= old.tokens.count("<unk>") or "d" in "".join(others)


def test_the_real_wordpiece_tokenizer() -> None:
    """With its normalizer, special pieces and fixed padding."""
    whole = json.loads(load_tokenizer("minilm").backend_tokenizer.to_str())
    texts = [f"The naïve café, room {i}, wasn't great!! ☃ 你好 {'x' * 120}" for i in range(40)]
    kept = smaller.pieces_needed(whole, texts)
    assert len(kept) < 6000 and kept[0] == 0
    less = smaller.cut_tokenizer(whole, kept)
    for old, new in zip(smaller.encodings(whole, texts), smaller.encodings(less, texts), strict=True):
        assert old.ids == [kept[number] for number in new.ids]
    told = "Text that was not met, of the same kind: cut to nine tenths of these texts, "
    words = ["lens", "strap", "zoom", "tripod", "shutter", "battery", "firmware", "aperture", "viewfinder", "flash"]
    for corpus, warned in ((texts, False), ([f"The {word}." for word in words], True)):
        said = smaller.cost(whole, corpus)
        assert said.startswith(told) and said.endswith("leave the vocabulary whole.") == warned
    assert "is not known" in smaller.cost(whole, ["The same."] * 20)


def to_5_digits(number: str) -> float:
    return round(float(number), 5)


def test_an_exported_folder_is_cut_and_says_so(tiny_run: Path, tmp_path: Path, command: Command) -> None:
    texts = [f"The lens of number {i} is superb and the strap was not." for i in range(30)]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    given = [f"model={tiny_run}", "input=texts.txt"]
    out, _ = command("export", *given, "to=cut", "vocabulary=corpus")
    assert "The vocabulary is cut to 30 texts" in out and "Text that was not met" in out
    command("export", *given, "to=whole")
    kind = "token" if tiny_run.parent.name.startswith("extraction") else "sequence"
    whole, less = (pipeline_like(kind, model=str(tmp_path / name))(texts) for name in ("whole", "cut"))
    one, other = (json.dumps(found, default=float) for found in (whole, less))
    # The last digit depends on where in memory the weights lie.
    assert json.loads(one, parse_float=to_5_digits) == json.loads(other, parse_float=to_5_digits)
    assert "The vocabulary is cut to 30 texts" in (tmp_path / "cut" / "README.md").read_text("utf-8")
    size = json.loads((tmp_path / "cut" / "config.json").read_text("utf-8"))["vocab_size"]
    rows = [t for name, t in load_file(tmp_path / "cut" / "model.safetensors").items() if "word_embeddings" in name]
    assert [len(row) for row in rows] == [size] and size < 6000


def test_a_model_is_told_guidelines_without_training(tiny_run: Path, tmp_path: Path, command: Command) -> None:
    def guide(*given: str, code: int = 2) -> str:
        return command("guide", f"model={tiny_run}", f"to={tmp_path}/guided", *given, code=code)[1 if code else 0]

    if domadapt.load(tiny_run).session.task.kind != "token":
        assert "it labels whole texts; guidelines are for spans" in guide("terms=[lens]")
        return
    (tmp_path / "words.txt").write_text("lens\r\nThe strap\n", encoding="utf-8-sig")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "words.csv").write_text("\nlens\n")
    (tmp_path / "row.txt").write_text("strap\nlens, strap\n")
    words = f"terms={tmp_path}/words.txt"
    for stated, told in {
        ("types=[aspect]",): "no guideline: give terms",
        ("types=[thing]", words): "types=['thing']: expected some of",
        ("terms=[...]",): "'...': expected words",
        ("terms=[true]",): "True: expected words; one such as true goes into quotes",
        ("terms=true",): "True: expected words; one such as true goes into quotes",
        ("terms=5", "types=aspect"): "5: expected words",
        ("terms=[' ']",): "guidelines.terms: no word in it",
        (f"not_terms={tmp_path}/none.txt",): "guidelines.not_terms: no word in it",
        ("terms=[lens]", "types=5"): "types=[5]: expected some of",
        ("terms=[lens]", "not_terms=[lens]"): "both have lens",
        ("terms=nowhere.txt",): "guidelines.terms=nowhere.txt: no such file",
        (f"terms={tmp_path}/latin.txt",): "latin.txt: not UTF-8",
        (f"terms={tmp_path}/words.csv",): "words.csv: 'lens': expected a text file, one word or phrase per line",
        (f"terms={tmp_path}/row.txt",): "row.txt: 'lens, strap': expected a text file, one word or phrase per line",
        ("degree_words=english",): "which of",
    }.items():
        assert told in guide(*stated) and not (tmp_path / "guided").exists()
    assert "domadapt compare" in guide("types=[aspect]", words, "not_terms=[number]", code=0)
    (tmp_path / "words.txt").write_bytes(b"caf\xe9\n")  # by now another file: the model has its words
    model = domadapt.load(tmp_path / "guided")
    with pytest.raises(ValueError, match="term: there is no such setting; expected some of model, to, types, terms"):
        domadapt.guide(tiny_run, tmp_path / "other", term=["lens"])
    with pytest.raises(ValueError, match="lies in the model's folder"):
        domadapt.guide(tmp_path / "guided", tmp_path / "guided" / "encoder" / "other", terms=["lens"])
    with pytest.raises(ValueError, match="lies in the model's folder"):
        export(tmp_path / "guided", tmp_path / "guided" / "other")
    same_words = {"types": ["aspect"], "terms": ["lens", "the strap"], "not_terms": ["number"]}
    assert domadapt.guide(tiny_run, tmp_path / "other", **same_words).predict(TEXTS) == model.predict(TEXTS)
    found = [TEXTS[0][s.start : s.end] for s in model.predict(TEXTS)[0].spans if s.type == "aspect"]
    assert any("lens" in span for span in found) and not any("number" in span for span in found)
    assert "there is something in it" in guide("types=[aspect]", "terms=[lens]")
    (tmp_path / "disk").mkdir()
    for link, to in (("empty", "disk"), ("new", "disk/new")):  # a link, to a folder or to none yet, stays one
        (tmp_path / link).symlink_to(tmp_path / to)
        domadapt.guide(tiny_run, tmp_path / link, **same_words)
        assert (tmp_path / link).is_symlink() and (tmp_path / to / "domadapt.json").is_file()
    _, told = command("guide", f"model={tmp_path}/guided", f"to={tmp_path}/again", "terms=[strap]")
    assert "has guidelines; these take their place" in told
    measured = export(tmp_path / "guided", tmp_path / "stock", drop_methods=True)
    assert measured[0] == "It was not compared with the original, for want of texts: give input=FILE."
    out, told = command("predict", f"model={tmp_path}/guided", f"text={TEXTS[0]}", "threshold=0.01")
    assert '"text": "lens"' in out and "not known of this model" in told  # on the source it was another model's
