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


def test_binary_columns_of_parquet_are_text_or_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name, second in (("a", "café".encode()), ("b", b"\xff")):
        table = pyarrow.table({"text": [b"a fan", second], "label": ["x", "y"]})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    assert [r.text for r in read(tmp_path / "a.parquet", domain="x").records] == ["a fan", "café"]
    with pytest.raises(DataError, match=r"b.parquet:2: text"):
        read(tmp_path / "b.parquet", domain="x")


def test_docstrings_that_python_has_dropped_are_not_the_backbones_fault() -> None:
    code = "from domadapt.models.pretrained import load_tokenizer; load_tokenizer('tiny_random')"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("ValueError: python -OO takes away docstrings")


def test_what_is_told_to_end_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "domadapt", "parse", "input=-", "output=out.conllu", f"paths.cache={tmp_path}/c"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path) as process:
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


def test_what_is_wrong_with_a_dataframe_names_no_file_of_the_cache(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^source=list:2: label is 5.5; expected a string"):
        domadapt.train([f"paths.cache={tmp_path}"], source=[("Sharp.", "x"), ("Dull.", 5.5)], target=["A fan."])


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
