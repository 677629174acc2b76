"""What a day of attack had broken, a case each."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import domadapt
from domadapt.data.readers import read
from domadapt.data.records import DataError, Record, Span
from domadapt.inference.thresholds import above, counted, least
from domadapt.reporting.tables import text_table
from domadapt.runs.groups import typed
from domadapt.statistics.items import read_answers
from domadapt.syntax.parser import one_thread_for_numpy
from domadapt.tasks.task import Prediction
from domadapt.training.distributed import settings_of_torch
from tests.support import Command, corpora, finished


def test_a_stray_file_of_the_tokenizer_is_refused(tmp_path: Path) -> None:
    model = shutil.copytree(finished("classification") / "model", tmp_path / "model")
    (model / "encoder" / "notes.md").write_text("mine", encoding="utf-8")
    domadapt.load(model)
    (model / "encoder" / "added_tokens.json").write_text('{"lens": 5}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"added_tokens.json: not a file of this model .* move it away"):
        domadapt.load(model)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"text": "Fast.", "label": "${oc.env:HOME}"}, r"a name without '\$\{'"),
        ({"text": "Fast.", "spans": [{"start": 0, "end": 4, "type": "${x}"}]}, r"a name without '\$\{'"),
        ({"text": "So fast.", "spans": [{"start": 0, "end": 4, "type": "x", "text": "fast"}]}, "in this very text"),
    ],
)
def test_labels_that_no_model_could_keep_and_offsets_that_are_off(line: object, told: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": "1", "domain": "x", **dict(line)}) + "\n", encoding="utf-8")  # type: ignore[call-overload]
    with pytest.raises(DataError, match=told):
        read(path, domain="x")


def test_a_header_may_quote_a_comma(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,"price, in euro",label\nSharp.,5,good\n', encoding="utf-8")
    [record] = read(path, domain="x").records
    assert (record.text, record.label) == ("Sharp.", "good")


def test_binary_columns_of_parquet_are_text_or_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name, second in (("a", "café".encode()), ("b", b"\xff")):
        table = pyarrow.table({"text": [b"a fan", second], "label": ["x", "y"]})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    assert [r.text for r in read(tmp_path / "a.parquet", domain="x").records] == ["a fan", "café"]
    with pytest.raises(DataError, match=r"b.parquet:2: text"):
        read(tmp_path / "b.parquet", domain="x")


def test_predictions_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b'{"id": "1", "text": "caf\xe9"}\n')
    with pytest.raises(ValueError, match=r"predictions.jsonl:1: not a prediction"):
        read_answers(path, "classification")


def test_docstrings_that_python_has_dropped_are_not_the_backbones_fault() -> None:
    code = "from domadapt.models.pretrained import load_tokenizer; load_tokenizer('tiny_random')"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("ValueError: python -OO takes away the docstrings")


def test_what_is_told_to_end_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "domadapt", "parse", "input=-", "output=out.conllu", f"paths.cache={tmp_path}/c"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdin is not None
        while not [*tmp_path.glob(".out.conllu.*")]:
            assert process.poll() is None
            process.stdin.write(b"The fan whines.\n" * 1000)
            process.stdin.flush()
        process.terminate()
        process.stdin.close()
        assert process.wait() == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["c"]
    assert not [*tmp_path.glob("*out.conllu*")]


def test_a_platform_that_nobody_has_tested_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("--version")[2] == ""
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    code, out, err = command("--version")
    assert (code, err) == (0, "warning: tested on Linux x86-64 alone; this is Linux arm64\n") and out.strip()


def test_a_single_run_with_a_labelled_test_gets_its_interval() -> None:
    run = finished("classification")
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    assert "95 % interval over test texts" in text_table([{**metrics, "folder": str(run)}])


def test_a_run_leaves_torch_as_it_was(tmp_path: Path) -> None:
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    domadapt.train([*corpora(tmp_path), "trainer.epochs=1", "trainer.threads=1", f"paths.run={tmp_path}/run"])
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_a_run_leaves_the_threads_of_blas_as_they_were() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, "blas"):
        before = threads()
        with settings_of_torch():
            one_thread_for_numpy()
        assert threads() == before


def test_a_text_that_was_cut_says_so(command: Command) -> None:
    long = " ".join(["The lens is great."] * 200)
    code, out, err = command("predict", f"model={finished('classification')}", f"text={long}")
    assert code == 0 and json.loads(out)["truncated"] is True and "longer than" in err
    code, out, _ = command("predict", f"model={finished('classification')}", "text=The lens is great.")
    assert code == 0 and "truncated" not in json.loads(out)


@pytest.mark.parametrize("lines", ["Sharp.\nDull.\nLight, too.\n", "review,stars\nSharp.,5\n"])
def test_a_pipe_is_read_by_predict_as_training_reads_it(lines: str, tmp_path: Path) -> None:
    column = ["review"] if "review" in lines else []
    code = (
        "from collections import Counter; from domadapt.data.streams import open_texts\n"
        f"print(*(text.text for text in open_texts('-', None, Counter(), {column!r})[1]), sep='|')"
    )
    done = subprocess.run([sys.executable, "-c", code], input=lines, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ("Sharp." if column else "Sharp.|Dull.|Light, too.")


@pytest.mark.parametrize(
    ("columns", "labelled", "fix"),
    [
        ({"text": ("review",)}, False, "source.text= or target.text=.* column="),
        ({"label": ("mood",)}, True, "score with label="),
    ],
)
def test_a_column_that_is_not_there_is_told_with_the_setting_that_names_it(
    columns: dict[str, tuple[str, ...]], labelled: bool, fix: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("text,stars\nSharp.,5\n", encoding="utf-8")
    with pytest.raises(DataError, match=fix):
        read(tmp_path / "a.csv", domain="x", labelled=labelled, columns=columns)


def test_what_is_wrong_with_a_dataframe_names_no_file_of_the_cache(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^source=list:2: label is 5.5; expected a string"):
        domadapt.train([f"paths.cache={tmp_path}"], source=[("Sharp.", "x"), ("Dull.", 5.5)], target=["A fan."])


def test_span_types_keep_their_owners_names(tmp_path: Path) -> None:
    spans = [{"start": 0, "end": 5, "type": "OP"}, {"start": 6, "end": 10, "type": "ASP"}]
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "sharp lens", "spans": spans}) + "\n", encoding="utf-8")
    (tmp_path / "a.conll").write_text("sharp B-OP\nlens B-ASP\n", encoding="utf-8")
    for name in ("a.jsonl", "a.conll"):
        [record] = read(tmp_path / name, domain="x").records
        assert [span.type for span in record.spans or ()] == ["OP", "ASP"]


def test_a_vocabulary_larger_than_the_encoder_is_refused(tmp_path: Path) -> None:
    model = shutil.copytree(finished("classification") / "model", tmp_path / "model")
    path = model / "encoder" / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model"]["vocab"]["lens"] = 1_000_000
    path.write_text(json.dumps(content), encoding="utf-8")
    about = json.loads((model / "domadapt.json").read_text(encoding="utf-8"))
    (model / "domadapt.json").write_text(json.dumps(about | {"checksums": None}), encoding="utf-8")
    (model / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match=r"tokenizer.json: 'lens' has the id 1000000; the encoder knows ids below"):
        domadapt.load(model)


def test_a_home_that_can_not_be_written_is_told_with_the_setting(command: Command) -> None:
    code, _, err = command("parse", f"input={Path('a.txt')}", "paths.cache=/proc/nope")
    assert code == 2 and "a.txt: file is missing" in err
    Path("a.txt").write_text("Sharp.\n", encoding="utf-8")
    code, _, err = command("parse", "input=a.txt", "paths.cache=/proc/nope")
    assert code == 2 and "/proc/nope: No such file or directory; name a folder that can be read and written" in err


@pytest.mark.parametrize("score", ["0.5", True])
def test_what_is_no_number_is_no_score(score: object) -> None:
    content = json.loads((finished("classification") / "metrics.json").read_text(encoding="utf-8"))
    typed(content)
    with pytest.raises(ValueError, match="source_dev"):
        typed(content | {"source_dev": {**content["source_dev"], content["headline"]: score}})


def test_a_threshold_leaves_out_what_is_unsure_and_tells_what_that_costs(command: Command) -> None:
    model = finished("classification")
    code, out, _ = command("predict", f"model={model}", "text=The lens is great.")
    sure = json.loads(out)["confidence"]
    code, out, err = command("predict", f"model={model}", "text=The lens is great.", f"threshold={sure - 1e-3}")
    assert code == 0 and json.loads(out)["label"] is not None
    cost = r"from [\d.]+: precision (?:\d+ %|none found), recall (?:\d+ %|none annotated) on \d+ held-out texts"
    assert len(re.findall(cost, err)) == 2
    code, out, _ = command("predict", f"model={model}", "text=The lens is great.", f"threshold={min(1, sure + 1e-3)}")
    assert code == 0 and json.loads(out)["label"] is None
    for wrong, told in (("{nice: 0.5}", ".nice: expected one of"), ("60", "=60: expected a number from 0 to 1")):
        code, _, err = command("predict", f"model={model}", "text=Hm.", f"threshold={wrong}")
        assert (code, f"threshold{told}" in err) == (2, True)


def test_thresholds_of_spans() -> None:
    spans = Span(4, 8, "aspect", 0.8), Span(0, 3, "opinion", 0.3)
    record, prediction = Record("1", "d", "The lens", spans=spans[:1]), Prediction(spans=spans)
    kinds = counted([record], [prediction], ["aspect", "opinion"])
    assert kinds == {"aspect": {"gold": 1, "found": [(0.8, True)]}, "opinion": {"gold": 0, "found": [(0.3, False)]}}
    assert above(prediction, least({"opinion": 0.5}, [*kinds])).spans == spans[:1]
    assert above(prediction, least(0.9, [*kinds])).spans == ()
