"""A model handed over: without this package, it says what it said before."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import domadapt
from domadapt.data.records import Record, Span
from domadapt.inference.description import Description, read_description
from domadapt.inference.export import export, model_card, refuse_own
from domadapt.inference.onnx_model import OnnxModel
from domadapt.inference.thresholds import above, counted, least
from domadapt.runs.groups import read_metrics
from domadapt.runs.metrics import Expected
from domadapt.tasks.task import Prediction
from tests.support import Command

TASKS, STOCK = ("extraction", "classification"), ("README.md", "config.json")
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


def test_a_pipeline_says_the_same_called_as_we_say(tiny_run: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    exit_code, out, _ = command("export", f"model={tiny_run}", "to=out", "input=texts.txt")
    first, measured, *_ = out.splitlines()
    assert (exit_code, first.split("; ")[0]) == (0, "out: hf")
    assert " of 4 texts" in measured
    assert domadapt.load(tiny_run).session.task.temperature != 1.0
    call = first.partition("load it with ")[2]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert f"model = {call}\n" in card
    assert "| from 0 | from 0.5 |" in card and "held-out texts of" in card.split("## Thresholds")[1]
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
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, json.dumps(TEXTS)],
        capture_output=True, text=True, cwd=tmp_path, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    if kind == "sequence":
        same([{"label": f["label"], "confidence": f["score"]} for [f] in found], wanted, 1e-5)
    else:
        rows = [{"spans": [{**s, "type": s["entity_group"], "confidence": s["score"]} for s in f]} for f in found]
        same(rows, wanted, 1e-5)
        assert sum(len(row["spans"]) for row in wanted) > 3


def test_a_card_is_written_from_the_run(tiny_run: Path, tmp_path: Path) -> None:
    folder = tiny_run / "model"
    run = read_metrics(tiny_run / "metrics.json")
    card = model_card(read_description(folder), run, "use()", ["Measured."])
    trained = f"{run.counts.source_train} labelled texts"
    for told in (trained, f"{100 * (run.score() or 0):.1f}", "the first 24 pieces", "use()", "Measured."):
        assert told in card
    assert "not been measured" not in card.split("## Limits")[0]
    estimate = replace(run, target_test={}, expected=Expected(0.9, 0.76, 1.0))
    assert "without a label: 90 (76 to 100, " in model_card(read_description(folder), estimate, "use()", [])
    apart = model_card(read_description(folder), None, "use()", [])
    assert "Not known" in apart and "Beside the model" not in apart


@pytest.mark.parametrize(("tiny_run", "format"), [*zip(TASKS, ("onnx", "onnx-int8"))], indirect=["tiny_run"])
def test_onnxruntime_alone_says_the_same(tiny_run: Path, tmp_path: Path, format: str) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    told = export(tiny_run, tmp_path / "out", format, TEXTS[:2])
    assert any("times as fast as transformers' pipeline" in line for line in told)
    code = """if True:
        import json, sys
        from onnx_model import OnnxModel
        print(json.dumps(OnnxModel()(json.loads(sys.argv[1]), batch_size=3)))
        assert not {"torch", "transformers", "domadapt"} & set(sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, json.dumps(TEXTS)],
        capture_output=True, text=True, cwd=tmp_path / "out", check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    if format == "onnx":
        same(found, expected(tiny_run), 1e-3)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {*STOCK, "model.onnx", "onnx_model.py", "tokenizer.json"}


def test_what_a_stock_model_cannot_do_is_not_left_out_in_silence(tmp_path: Path) -> None:
    def made(backbone: str, *methods: str) -> Description:
        parts = {"task": {}, "relations": {}, "parser": {}, "control": {}, "parser_name": "", "max_pieces": 8}
        names = {"source": "a", "target": "b", "parses_at_prediction": False}
        own = {"backbone": {"_target_": backbone}, "methods": {name: {} for name in methods}}
        return Description(**parts, **names, **own)  # type: ignore[arg-type]

    stock = made("domadapt.models.encoder.Encoder", "corpus_evidence")
    with pytest.raises(ValueError, match="corpus_evidence takes part in its predictions.*drop_methods=true"):
        refuse_own(stock, tmp_path, drop_methods=False)
    refuse_own(stock, tmp_path, drop_methods=True)
    with pytest.raises(ValueError, match="no transformers model"):
        refuse_own(made("domadapt.models.bilstm.BiLSTM"), tmp_path, True)


def test_a_folder_with_something_in_it_is_left_alone(tiny_run: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    code, _, err = command("export", f"model={tiny_run}", "to=mine")
    assert (code, "to=mine: there is something in it" in err) == (2, True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"


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
        with pytest.raises(ValueError, match="finds spans"):
            model.probabilities(TEXTS)


def test_a_word_of_sentencepiece_begins_behind_its_space() -> None:
    pieces = [(piece, -1.0) for piece in ("[UNK]", "▁", "▁dull", "l", "ens", ".")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    text = "dull lens."
    encoded = tokenizer.encode(text)
    assert encoded.tokens == ["▁dull", "▁", "l", "ens", "."] and encoded.offsets[1:3] == [(4, 5), (5, 6)]
    model = OnnxModel.__new__(OnnxModel)
    model.labels, model.transitions, model.temperature = ["O", "B-aspect", "B-opinion"], np.zeros((4, 3)), 1.0
    tags = np.eye(3)[[2, 0, 1, 0, 0]]
    found = model._spans(text, encoded, tags)
    assert [(span["type"], span["text"]) for span in found] == [("opinion", "dull"), ("aspect", "lens.")]


def test_thresholds_of_spans() -> None:
    spans = Span(4, 8, "aspect", 0.8), Span(0, 3, "opinion", 0.3)
    record, prediction = Record("1", "d", "The lens", spans=spans[:1]), Prediction(spans=spans)
    kinds = counted([record], [prediction], ["aspect", "opinion"])
    assert kinds == {"aspect": {"gold": 1, "found": [(0.8, True)]}, "opinion": {"gold": 0, "found": [(0.3, False)]}}
    assert above(prediction, least({"opinion": 0.5}, [*kinds])).spans == spans[:1]
    assert above(prediction, least(0.9, [*kinds])).spans == ()
