"""A user's own files: columns by name, other tools' annotations, packed files, patterns; and what a program holds."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from domadapt.config.compose import compose
from domadapt.data.corpora import my_files
from domadapt.data.files import saved
from domadapt.data.readers import read
from domadapt.data.records import DataError, Record, Span
from domadapt.data.texts import detokenised
from domadapt.runs.key import cell_key

TEXT = "The fan whines."
SPAN = (Span(4, 7, "aspect"),)
AT, ENDS = {"start": 4, "end": 7}, {"id": 9, "start_offset": 4, "end_offset": 7}
OF_TOOLS: dict[str, dict[str, Any]] = {  # beside the text
    "ours": {"id": "1", "spans": [{**AT, "type": "aspect"}]},
    "no id": {"spans": [{**AT, "type": "aspect"}]},
    "doccano": {"id": 1, "label": [[4, 7, "aspect"]]},
    "doccano, old": {"id": 1, "labels": [[4, 7, "aspect"]]},
    "doccano with relations": {"id": 1, "entities": [{**ENDS, "label": "aspect"}], "relations": []},
    "spaCy, for training": {"entities": [[4, 7, "aspect"]]},
    "spaCy, to_json": {"ents": [{**AT, "label": "aspect"}], "tokens": [{"id": 0, "start": 0, "end": 3}]},
    "prodigy": {"spans": [{**AT, "label": "aspect"}], "answer": "accept"},
}


@pytest.mark.parametrize("tool", OF_TOOLS)
def test_spans_are_read_as_tools_write_them(tmp_path: Path, tool: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": TEXT, **OF_TOOLS[tool]}) + "\n", encoding="utf-8")
    (record,) = read(path, domain="laptop").records
    assert (record.text, record.spans) == (TEXT, SPAN)
    assert record.id == ("1" if "id" in OF_TOOLS[tool] else "laptop/a:1")
    assert read(path, domain="laptop", labelled=False).records[0].spans is None


@pytest.mark.parametrize(("label", "known"), [(["good"], "good"), (1, "1"), (2.0, "2"), ([], None), (None, None)])
def test_labels_are_read_as_tools_write_them(tmp_path: Path, label: object, known: str | None) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": TEXT, "label": label}) + "\n", encoding="utf-8")
    assert read(path, domain="laptop").records[0].label == known


def csv(path: Path) -> None:
    path.write_text(f"Review,sentiment,text,stars\n{TEXT},negative,other,2\n", encoding="utf-8")


def jsonl(path: Path) -> None:
    row = {"Review": TEXT, "sentiment": "negative", "text": "other", "stars": 2}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")


def packed(path: Path) -> None:
    csv(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    columns = {"Review": [TEXT], "sentiment": [1], "stars": [2]}
    names = {"info": {"features": {"sentiment": {"names": ["positive", "negative"], "_type": "ClassLabel"}}}}
    table = pyarrow.table(columns).replace_schema_metadata({"huggingface": json.dumps(names)})
    write_table(table, path)


WRITERS = [(csv, "a.csv"), (jsonl, "a.jsonl"), (packed, "a.csv.gz"), (parquet, "a.parquet")]


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_columns_are_read_by_the_user_s_names(tmp_path: Path, write: Callable[[Path], None], name: str) -> None:
    write(tmp_path / name)
    columns = {"text": ("Review",), "label": ("sentiment",)}
    corpus = read(tmp_path / name, domain="laptop", columns=columns)
    assert [(r.text, r.label) for r in corpus.records] == [(TEXT, "negative")]
    assert not corpus.warnings  # what nobody asked for is no finding
    with pytest.raises(DataError, match="expected a column 'sentimnt'; did you mean 'sentiment'?"):
        read(tmp_path / name, domain="laptop", columns={**columns, "label": ("sentimnt",)})


def test_a_format_that_the_user_names_is_the_one_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "source.csv").write_text("text,label\nGood.,good\nBad.,bad\nWorse.,bad\n", encoding="utf-8")
    (tmp_path / "target.txt").write_text("[\n{\n", encoding="utf-8")  # lines of text, however odd
    source = {"path": str(tmp_path / "source.csv")}
    target = {"path": str(tmp_path / "target.txt"), "name": "target", "format": "plain_text"}
    domains = my_files(source, target, 0.3, "record")
    assert [text.text for text in domains.unlabelled.texts] == ["[", "{"]
    with pytest.raises(DataError, match="format is 'plain'; expected one of blitzer_review, conll"):
        my_files(source, {**target, "format": "plain"}, 0.3)


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    packed(tmp_path / "a.csv.gz")
    whole = (tmp_path / "a.csv.gz").read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(whole[:-9])
    with pytest.raises(DataError, match=r"a.csv.gz: file is 'damaged gzip .*expected a whole gzip file; copy it again"):
        read(tmp_path / "a.csv.gz", domain="laptop")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match=r"a.parquet: file is .damaged parquet "):
        read(tmp_path / "a.parquet", domain="laptop")


def test_a_pattern_is_one_domain_and_its_files_count_in_the_key(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"part{number}.csv").write_text(
            f"text,label\nGood {number}.,good\nBad day number {number}.,bad\n", encoding="utf-8"
        )
    (tmp_path / "b.txt").write_text("A text.\n", encoding="utf-8")
    source, target = {"path": f"{tmp_path}/part*.csv"}, {"path": f"{tmp_path}/b.txt"}
    found = my_files(source, target, 0.25)
    assert found.source == "source"
    assert len({record.id for record in (*found.source_train, *found.source_dev)}) == 4
    cfg = compose("train", ["data=my_files", f"source.path={source['path']}", f"target.path={target['path']}"])
    before = cell_key(cfg)
    (tmp_path / "part2.csv").write_text("text,label\nGood.,good\nBad.,bad\n", encoding="utf-8")
    assert cell_key(cfg) != before
    with pytest.raises(ValueError, match=r"data.source.path=.*none\*.csv: no such file"):
        my_files({"path": f"{tmp_path}/none*.csv"}, target, 0.25)


def test_target_columns_are_the_sources_where_it_has_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("review,mood\nGood.,good\nBad.,bad\nFine day.,good\n", encoding="utf-8")
    for name, header in (("same", "review,when"), ("ours", "text,when"), ("other", "body,when")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\n{TEXT},now\n", encoding="utf-8")
    source = {"path": f"{tmp_path}/a.csv", "text": "review", "label": "mood"}
    for name, text in (("same", None), ("ours", None), ("other", "body")):
        found = my_files(source, {"path": f"{tmp_path}/{name}.csv", "text": text}, 0.3)
        assert [unlabelled.text for unlabelled in found.unlabelled.texts] == [TEXT]
    with pytest.raises(DataError, match="expected a column 'review'"):
        my_files(source, {"path": f"{tmp_path}/other.csv"}, 0.3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("it is n't sharp , sadly .", "it isn't sharp, sadly."),
        ("a `` large '' one ( 5 kg ) ?", 'a "large" one (5 kg)?'),
        ("-LRB- so -RRB- it 's ... fine", "(so) it's... fine"),
        ("It isn't tokenised, at all: 5 - 3 :)", "It isn't tokenised, at all: 5 - 3 :)"),
    ],
)
def test_tokenisation_is_undone(given: str, told: str) -> None:
    assert detokenised(Record("1", "camera", given)).text == told


def test_spans_and_tokens_move_along() -> None:
    text = "The `` large '' lens is n't sharp ."
    words = tuple((text.index(w), text.index(w) + len(w)) for w in ("The", "large", "lens", "sharp"))
    record = Record("1", "camera", text, words, None, (Span(4, 20, "aspect"), Span(28, 33, "opinion")))
    assert [text[s.start : s.end] for s in record.spans or ()] == ["`` large '' lens", "sharp"]
    found = detokenised(record)
    assert found.text == 'The "large" lens isn\'t sharp.'
    assert [found.text[s.start : s.end] for s in found.spans or ()] == ['"large" lens', "sharp"]
    assert [found.text[start:end] for start, end in found.words or ()] == ["The", "large", "lens", "sharp"]


def test_own_files_can_be_lower_cased_and_detokenised(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nGood one .,good\nBad one .,bad\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("A Text .\n", encoding="utf-8")
    paths = {"path": f"{tmp_path}/a.csv"}, {"path": f"{tmp_path}/b.txt"}
    found = my_files(*paths, 0.5, lowercase=True, detokenise=True)
    texts = {r.text for r in (*found.source_train, *found.source_dev)} | {t.text for t in found.unlabelled.texts}
    assert texts == {"good one.", "bad one.", "a text."}
    with pytest.raises(ValueError, match="data.lowercase='yes': expected true or false"):
        my_files(*paths, 0.5, lowercase="yes")  # type: ignore[arg-type]


class Frame:
    """A table that looks like one of pandas."""

    columns = ("text", "label")

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return [{"text": TEXT, "label": "negative"}]


class Dataset(list[dict[str, Any]]):
    """A table that looks like one of `datasets`."""

    features = {"text": SimpleNamespace(), "label": SimpleNamespace(names=["positive", "negative"])}  # noqa: RUF012


HELD: dict[str, Any] = {
    "pairs": [(TEXT, "negative")],
    "dicts": [{"text": TEXT, "label": "negative"}],
    "columns": {"text": [TEXT], "label": ["negative"]},
    "pandas": Frame(),
    "polars": SimpleNamespace(to_dicts=lambda: [{"text": TEXT, "label": "negative"}]),
    "datasets": Dataset([{"text": TEXT, "label": 1}]),
    "generator": ((text, "negative") for text in [TEXT]),
}


@pytest.mark.parametrize("kind", HELD)
def test_what_a_program_holds_becomes_a_file(tmp_path: Path, kind: str) -> None:
    path = saved(HELD[kind], tmp_path)
    assert [(r.text, r.label) for r in read(path, domain="laptop").records] == [(TEXT, "negative")]


def test_real_frames_and_spans_and_what_is_none(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"review": [TEXT, "Fine."], "stars": [2, None]})
    found = read(saved(frame, tmp_path), domain="a", columns={"text": ("review",), "label": ("stars",)}).records
    assert [(r.text, r.label) for r in found] == [(TEXT, "2"), ("Fine.", None)]
    (record,) = read(saved([(TEXT, [(4, 7, "aspect")])], tmp_path), domain="a").records
    assert record.spans == SPAN
    assert saved([TEXT], tmp_path) == saved([TEXT], tmp_path)
    for wrong, why in (([], "the data is empty"), (TEXT, "expected a list of texts"), ([1], "item 0 is 1; expected")):
        with pytest.raises(ValueError, match=why):
            saved(wrong, tmp_path)
