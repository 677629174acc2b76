"""What a day of attack had broken, a case each."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import domadapt
from domadapt.data.readers import read
from domadapt.data.records import DataError
from domadapt.statistics.items import read_answers
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
    parquet.write_table(
        pyarrow.table({"text": [b"a fan", "café".encode()], "label": ["x", "y"]}), tmp_path / "a.parquet"
    )
    assert [r.text for r in read(tmp_path / "a.parquet", domain="x").records] == ["a fan", "café"]
    parquet.write_table(pyarrow.table({"text": [b"a fan", b"\xff"], "label": ["x", "y"]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b.parquet:2: text"):
        read(tmp_path / "b.parquet", domain="x")


def test_predictions_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b'{"id": "1", "text": "caf\xe9"}\n')
    with pytest.raises(ValueError, match=r"predictions.jsonl:1: not a prediction"):
        read_answers(path, "classification")


def test_a_run_leaves_torch_as_it_was(tmp_path: Path) -> None:
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    domadapt.train([*corpora(tmp_path), "trainer.epochs=1", "trainer.threads=1", f"paths.run={tmp_path}/run"])
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_a_text_that_was_cut_says_so(command: Command) -> None:
    long = " ".join(["The lens is great."] * 200)
    code, out, err = command("predict", f"model={finished('classification')}", f"text={long}")
    assert code == 0 and json.loads(out)["truncated"] is True and "longer than" in err
    code, out, _ = command("predict", f"model={finished('classification')}", "text=The lens is great.")
    assert code == 0 and "truncated" not in json.loads(out)
