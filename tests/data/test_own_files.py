"""A user's own files, pipes and standard input: every byte is a record, counted, or one clear error."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import domadapt
from domadapt.cli.main import pipe_to_file
from domadapt.config.compose import compose
from domadapt.data.corpora import my_files
from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.data.files import as_lines, rows, save_data
from domadapt.data.readers import read
from domadapt.data.records import DataError, Record, Span
from domadapt.data.streams import open_texts
from domadapt.data.texts import detokenised
from domadapt.runs.key import cell_key
from tests.support import write_jsonl

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
    "prodigy": {"spans": [{**AT, "label": "aspect"}], "answer": "accept", "_input_hash": 5},
    "Label Studio, JSON-MIN": {"label": [{**AT, "text": "fan", "labels": ["aspect"]}], "annotator": 1},
    "Argilla": {"label": [{"value": [{**AT, "label": "aspect"}], "status": "submitted", "user_id": "a"}]},
    "a row a span": {"start": 4.0, "end": 7.0, "type": "aspect", "span": "fan"},
}


@pytest.mark.parametrize("tool", OF_TOOLS)
def test_spans_are_read_as_tools_write_them(tmp_path: Path, tool: str) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": TEXT, **OF_TOOLS[tool]}])
    (record,) = read(path, domain="laptop").records
    assert (record.text, record.spans) == (TEXT, SPAN)
    assert record.id == ("1" if "id" in OF_TOOLS[tool] else "laptop/a:1")
    assert read(path, domain="laptop", labelled=False).records[0].spans is None


def test_two_lists_of_spans_are_refused_for_one_would_be_lost(tmp_path: Path) -> None:
    row = {"text": TEXT, "spans": [{**AT, "type": "aspect"}], "ents": [[8, 14, "opinion"]]}
    path = write_jsonl(tmp_path / "a.jsonl", [row])
    with pytest.raises(DataError, match="a.jsonl:1: list of spans is 'spans and ents'; expected one of them; join the"):
        read(path, domain="laptop")
    assert read(path, domain="laptop", labelled=False).records[0].text == TEXT


def test_rows_of_spans_are_one_record_a_text(tmp_path: Path) -> None:
    ends = ((4, 7, "aspect"), (8, 14, "opinion"), (None, None, None))
    texts = [TEXT, TEXT, "No term."]
    rows = [{"id": t[:2], "text": t, "start": s, "end": e, "type": k} for t, (s, e, k) in zip(texts, ends, strict=True)]
    (tmp_path / "b.json").write_text(json.dumps(rows))
    for path in (write_jsonl(tmp_path / "a.jsonl", rows), tmp_path / "b.json", save_data(rows, tmp_path)):
        two, none = read(path, domain="laptop").records
        assert two.spans == (*SPAN, Span(8, 14, "opinion")) and none.spans == ()
    (tmp_path / "d.csv").write_text("start,end,type,text\n0:01,0:02,speech,Yes.\n0:03,0:04,speech,Yes.\n")
    for name in ("a.jsonl", "d.csv"):  # a transcript, say, whose texts are to be labelled
        corpus = read(tmp_path / name, domain="laptop", labelled=False)
        told = "row with start, end and type whose text another row has: read as its span, no text"
        assert corpus.warnings[told] == 1
    labelled = write_jsonl(tmp_path / "c.jsonl", [{**row, "id": i, "mood": "good"} for i, row in enumerate(rows)])
    assert [r.spans for r in read(labelled, domain="laptop", columns={"label": ("mood",)}).records] == [None] * 3


@pytest.mark.parametrize("answer", ["reject", "ignore"])
def test_what_an_annotator_did_not_accept_is_unlabelled(tmp_path: Path, answer: str) -> None:
    told = {"answer": answer, "_input_hash": 5}
    rows = [{"text": TEXT, "label": "good", **told}, {"text": TEXT, "spans": [{**AT, "label": "aspect"}], **told}]
    corpus = read(write_jsonl(tmp_path / "a.jsonl", rows), domain="laptop")
    assert [(r.text, r.label, r.spans) for r in corpus.records] == [(TEXT, None, None)] * 2
    assert corpus.warnings["Prodigy's answer is reject or ignore: read without labels"] == 2
    assert "unknown field 'answer', ignored" not in corpus.warnings


def argilla(*values: object, status: str = "submitted") -> list[Any]:
    return [{"status": status, "value": value, "user_id": str(user)} for user, value in enumerate(values)]


LABELS = [(["good"], "good"), (1, "1"), (2.0, "2"), ([], None), (None, None)]
LABELS += [(argilla("good", "good") + argilla("bad", status="draft"), "good"), (argilla("bad", status="draft"), None)]


@pytest.mark.parametrize(("label", "known"), LABELS)
def test_labels_are_read_as_tools_write_them(tmp_path: Path, label: object, known: str | None) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": TEXT, "label": label}])
    assert read(path, domain="laptop").records[0].label == known


def csv(path: Path) -> None:
    path.write_text(f"Review,sentiment,text,stars\n{TEXT},negative,other,2\n", encoding="utf-8")


def jsonl(path: Path) -> None:
    write_jsonl(path, [{"Review": TEXT, "sentiment": "negative", "text": "other", "stars": 2}])


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
    with pytest.raises(DataError, match="column of label is '[Rr]eview'; expected another than the text's"):
        read(tmp_path / name, domain="laptop", columns={**columns, "label": columns["text"]})
    with pytest.raises(DataError, match="column of label is '[Ss]entiment'; expected another than the text's"):
        read(tmp_path / name, domain="laptop", columns={**columns, "text_pair": columns["label"]})  # it would be read


@pytest.mark.parametrize("raw", ["raw.csv", "raw.txt"])
def test_raw_text_need_not_have_the_column_that_holds_the_test_s_labels(tmp_path: Path, raw: str) -> None:
    (tmp_path / "source.csv").write_text("text,label\nGood.,good\nBad.,bad\nWorse.,bad\n", encoding="utf-8")
    (tmp_path / raw).write_text("text,date\nFine.,May\n" if raw == "raw.csv" else "Fine.\n", encoding="utf-8")
    (tmp_path / "test.csv").write_text("text,gold\nSound.,good\n", encoding="utf-8")
    target = {"path": str(tmp_path / raw), "test_path": str(tmp_path / "test.csv"), "name": "t", "label": "gold"}
    domains = my_files({"path": str(tmp_path / "source.csv")}, target, 0.3, "record")
    assert [text.text for text in domains.unlabelled.texts] == ["Fine."]


def test_a_format_that_the_user_names_is_the_one_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "source.csv").write_text("text,label\nGood.,good\nBad.,bad\nWorse.,bad\n", encoding="utf-8")
    (tmp_path / "target.txt").write_text("[\n{\n", encoding="utf-8")  # lines of text, however odd
    source = {"path": str(tmp_path / "source.csv")}
    target = {"path": str(tmp_path / "target.txt"), "name": "target", "format": "plain_text"}
    assert [text.text for text in my_files(source, target, 0.3, "record").unlabelled.texts] == ["[", "{"]
    with pytest.raises(DataError, match="format is 'plain'; expected one of blitzer_review, conll"):
        my_files(source, {**target, "format": "plain"}, 0.3)


def test_a_pattern_is_one_domain_and_its_files_count_in_the_key(tmp_path: Path) -> None:
    for number in (1, 2):
        content = f"text,label\nGood {number}.,good\nBad day number {number}.,bad\n"
        (tmp_path / f"part{number}.csv").write_text(content, encoding="utf-8")
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


def test_a_dataset_s_split_is_asked_for_and_its_classes_may_be_unknown(tmp_path: Path) -> None:
    kind = SimpleNamespace(names=["bad", "good"])
    dataset = SimpleNamespace(column_names=["text"], features={"label": kind})
    with pytest.raises(ValueError, match=r"data of the splits train, test: give one of them, such as data\['train'\]"):
        [*rows({"train": dataset, "test": dataset})]
    lines = as_lines([{"text": "a", "label": -1, "n": -1}, {"text": "b", "label": 1}], {"label": kind.names})
    (tmp_path / "a.jsonl").write_bytes(lines.replace(b'"n": -1', b'"id": NaN'))  # no id, as parquet has it
    assert [record.label for record in read(tmp_path / "a.jsonl", domain="laptop").records] == [None, "good"]


def test_target_columns_are_the_sources_where_it_has_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("review,mood\nGood.,good\nBad.,bad\nFine day.,good\n", encoding="utf-8")
    for name, header in (("same", "review,when"), ("ours", "text,when"), ("other", "body,when")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\n{TEXT},now\n", encoding="utf-8")
    source = {"path": f"{tmp_path}/a.csv", "text": "review", "label": "mood"}
    for name, text in (("same", None), ("ours", None), ("other", "body")):
        found = my_files(source, {"path": f"{tmp_path}/{name}.csv", "text": text}, 0.3)
        assert [unlabelled.text for unlabelled in found.unlabelled.texts] == [TEXT]
    (tmp_path / "labelled.csv").write_text("id,text,label\n1,Dull.,bad\n2,Fun.,good\n", encoding="utf-8")  # our names
    other = {"path": f"{tmp_path}/other.csv", "text": "body", "train_path": f"{tmp_path}/labelled.csv"}
    ceiling = my_files(source, other, 0.5, "record").ceiling
    assert ceiling is not None and {(r.text, r.label) for r in ceiling().train} <= {("Dull.", "bad"), ("Fun.", "good")}
    with pytest.raises(DataError, match="expected a column 'review'"):
        my_files(source, {"path": f"{tmp_path}/other.csv"}, 0.3)
    (tmp_path / "spans.csv").write_text('text,spans\nGood.,"[[0, 4, ""x""]]"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="spans as JSON Lines, or as rows of a table with columns start, end, type"):
        my_files({"path": f"{tmp_path}/spans.csv"}, {"path": f"{tmp_path}/same.csv", "text": "review"}, 0.3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("a `` large '' one ( 5 kg ) ?", 'a "large" one (5 kg)?'),
        ("-LRB- so -RRB- it 's ... fine", "(so) it's... fine"),
        ("It isn't tokenised, at all: 5 - 3 :)", "It isn't tokenised, at all: 5 - 3 :)"),
        ("It costs 5 $  ␞ 's fine .", "It costs 5 $  ␞ 's fine."),  # a pair stays one
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


def test_a_token_that_changes_in_part_stays_whole_and_a_span_may_end_between_two_spaces() -> None:
    record = Record("1", "camera", "-LRB-sharp lens  , so", ((0, 10), (11, 15)), None, (Span(11, 16, "aspect"),))
    found = detokenised(record)
    assert (found.text, found.words, found.spans) == ("(sharp lens, so", ((0, 6), (7, 11)), (Span(7, 11, "aspect"),))


def test_own_files_can_be_lower_cased_and_detokenised(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nGood one .,Good\nBad one .,Bad\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("A Text .\n", encoding="utf-8")
    paths = {"path": f"{tmp_path}/a.csv"}, {"path": f"{tmp_path}/b.txt"}
    found = my_files(*paths, 0.5, lowercase=True, detokenise=True)
    texts = {r.text for r in (*found.source_train, *found.source_dev)} | {t.text for t in found.unlabelled.texts}
    assert texts == {"good one.", "bad one.", "a text."}
    assert {r.label for r in (*found.source_train, *found.source_dev)} == {"Good", "Bad"}
    with pytest.raises(ValueError, match="data.lowercase='yes': expected true or false"):
        my_files(*paths, 0.5, lowercase="yes")  # type: ignore[arg-type]


class Dataset(list[dict[str, Any]]):
    """A table that looks like one of `datasets`."""

    features = {"text": SimpleNamespace(), "label": SimpleNamespace(names=["positive", "negative"])}  # noqa: RUF012


ROW = {"text": TEXT, "label": "negative"}
HELD: dict[str, Any] = {
    "pairs": [(TEXT, "negative")],
    "dicts": [ROW],
    "columns": {"text": [TEXT], "label": ["negative"]},
    "pandas": SimpleNamespace(columns=(*ROW,), to_dict={"records": [ROW]}.__getitem__),
    "polars": SimpleNamespace(to_dicts=lambda: [ROW]),
    "datasets": Dataset([{"text": TEXT, "label": 1}]),
    "generator": ((text, "negative") for text in [TEXT]),
}


@pytest.mark.parametrize("kind", HELD)
def test_what_a_program_holds_becomes_a_file(tmp_path: Path, kind: str) -> None:
    path = save_data(HELD[kind], tmp_path)
    assert [(r.text, r.label) for r in read(path, domain="laptop").records] == [(TEXT, "negative")]


def test_a_frame_whose_columns_share_a_name_is_refused_for_one_would_be_lost(tmp_path: Path) -> None:
    frame = SimpleNamespace(columns=("text", "label", "label"), to_dict={"records": [ROW]}.__getitem__)
    with pytest.raises(ValueError, match="two columns are called 'label': rename one"):
        save_data(frame, tmp_path)


def test_a_set_is_refused_for_it_has_no_order(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="data of type set: expected a list of texts"):
        save_data({"The fan.", "The lens."}, tmp_path)
    with pytest.raises(ValueError, match="texts=.*: expected a list of texts"):
        [*unlabelled({"The fan.", "The lens."})]


def test_one_record_is_no_table_whose_columns_are_letters(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="column 'text' is a text: expected a list of values in each; of one record"):
        save_data({"text": "Fan"}, tmp_path)


def test_what_is_no_number_is_no_label_and_an_error_names_the_side(tmp_path: Path) -> None:
    for held in ({"text": [TEXT], "label": np.array([np.nan])}, [(TEXT, np.nan)]):
        assert [r.label for r in read(save_data(held, tmp_path), domain="a").records] == [None]
    with pytest.raises(ValueError, match="text is .*ud800'; expected whole characters; write both halves"):
        read(save_data(["a \ud800"], tmp_path), domain="a")
    with pytest.raises(ValueError, match="^target: item 2 is None; expected a text"):
        domadapt.train([f"paths.cache={tmp_path}"], source=[(TEXT, "a")], target=[TEXT, None])
    with pytest.raises(ValueError, match="^source=list: label is missing in every record"):
        domadapt.train([f"paths.cache={tmp_path}"], source=[TEXT], target=[TEXT])


def test_columns_without_names_are_numbers(tmp_path: Path) -> None:
    texts = [TEXT, "The hinge is flimsy.", "Typing on it is a joy."]
    path = save_data({0: texts, 1: ["a", "b", "a"]}, tmp_path)
    domains = my_files({"path": path, "text": 0, "label": 1}, {"path": path, "text": 0}, 0.3)
    assert sorted(text.text for text in domains.unlabelled.texts) == sorted(texts)


def test_real_frames_and_spans_and_what_is_none(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"review": [TEXT, "Fine."], "stars": [2, None]})
    found = read(save_data(frame, tmp_path), domain="a", columns={"text": ("review",), "label": ("stars",)}).records
    assert [(r.text, r.label) for r in found] == [(TEXT, "2"), ("Fine.", None)]
    (record,) = read(save_data([(TEXT, [(4, 7, "aspect")])], tmp_path), domain="a").records
    assert record.spans == SPAN
    assert save_data([TEXT], tmp_path) == save_data([TEXT], tmp_path)
    for wrong, why in (([], "the data is empty"), (TEXT, "expected a list of texts"), ([1], "item 1 is 1; expected")):
        with pytest.raises(ValueError, match=why):
            save_data(wrong, tmp_path)


def test_binary_columns_of_parquet_are_text_or_refused_and_a_damaged_file_is_told(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name, second in (("a", "café".encode()), ("b", b"\xff")):
        table = pyarrow.table({"text": [b"a fan", second], "label": ["x", "y"]})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    assert [r.text for r in read(tmp_path / "a.parquet", domain="x").records] == ["a fan", "café"]
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and no more")
    for name, told in (("b", r"b.parquet:2: text"), ("c", r"c.parquet: file is .damaged parquet ")):
        with pytest.raises(DataError, match=told):
            read(tmp_path / f"{name}.parquet", domain="x")


Pipe = Callable[[bytes], Path]
LINES = [f"Line {number} of a text that goes on for a while." for number in range(2000)]
LONG = "".join(line + "\n" for line in LINES).encode()
CONTENTS = {
    "one line": b"one",
    "short": b"one\n\ntwo\n",
    "longer than a pipe": LONG,
    "a character over byte 4096": b"x" * 4094 + "😀\nlast ü\n".encode(),
    "the head ends with its line": b"x" * 4095 + b"\nsecond\n",
    "a line longer than a pipe": b"y" * 100_000 + b"\r\nlast",
    "a mark, CRLF, a separator": b"\xef\xbb\xbfone\r\n\n  \ntwo\xe2\x80\xa8three\n last\r",
    "a carriage return within": b"one\rtwo\nthree\n",
    "damaged": "caf\ufffd\nbell\x07\n".encode(),
}


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe's name in the file system, as the shell's <(...) gives it, that somebody writes to meanwhile."""
    writers, readers = list[Thread](), list[int]()

    def opened(content: bytes) -> Path:
        reader, writer = os.pipe()
        readers.append(reader)

        def write() -> None:
            with os.fdopen(writer, "wb") as file:
                file.write(content)

        writers.append(Thread(target=write))
        writers[-1].start()
        return Path(f"/dev/fd/{reader}")

    yield opened
    for thread in writers:
        thread.join()
    for reader in readers:
        os.close(reader)


def streamed(path: Path, format: str | None = "plain_text") -> tuple[int | None, list[UnlabelledText], Counter[str]]:
    warnings = Counter[str]()
    total, texts = open_texts(path, format, warnings)
    return total, list(texts), warnings


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_and_a_pipe_give_what_the_reader_reads(tmp_path: Path, pipe: Pipe, content: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    corpus = read(path, domain="input", labelled=False, format="plain_text")
    total, texts, warnings = streamed(path)
    assert [(t.id, t.text) for t in texts] == [(r.id, r.text) for r in corpus.records]
    assert warnings == corpus.warnings and total is not None and total <= content.count(b"\n") + 1
    total, piped, counted = streamed(pipe(content))
    assert total is None
    assert [(t.id.rpartition(":")[2], t.text) for t in piped] == [(t.id.rpartition(":")[2], t.text) for t in texts]
    assert counted == warnings


def test_a_pipe_in_another_format_is_read_whole(pipe: Pipe) -> None:
    rows = "".join(f'{{"id": "{i}", "domain": "d", "text": "{line}"}}\n' for i, line in enumerate(LINES))
    total, texts, _ = streamed(pipe(rows.encode()), None)
    assert total == len(LINES) and [text.text for text in texts] == LINES


NOTHING = [  # content, and what is said of it, at once or when the stream is used up
    (b"", "file is 'empty'; expected records"),
    (b"\n \n\t\r\n", "file is 'blank'; expected records"),
    (b"\xef\xbb\xbf\n", "file is 'blank'; expected records"),
    ("sharp\n".encode("utf-16"), "file is 'UTF-16, or no text'; .*re-encode it: iconv -f utf-16 -t utf-8"),
    ("sharp lens\n".encode("utf-16-be"), "file is 'UTF-16, or no text'; .*utf-16le or -16be if it has no mark"),
    (b"text,label\rSharp.,yes\rDull.,no\r", "file is one line; expected lines that end in LF or CRLF, not CR alone"),
    (gzip.compress(b"sharp\n", mtime=0)[:-9], "file is 'damaged gzip .*expected a whole gzip file; copy it again"),
    (b"\xfd7zXZ\0\0\0", "expected UTF-8 text"),
    (b"\xfd7zXZ\n", r":1: byte 0 of the (line|file) is b'\\xfd'; expected UTF-8; unpack it, or re-encode it"),
    (b"fine\nsch\xf6n\n", r":2: byte 3 of the line is b'\\xf6'; expected UTF-8; .*iconv -f windows-1252"),
]


@pytest.mark.parametrize(("content", "told"), NOTHING)
def test_what_is_no_text_is_refused_with_the_way_out(tmp_path: Path, pipe: Pipe, content: bytes, told: str) -> None:
    path = tmp_path / "my corpus.txt"
    path.write_bytes(content)
    for place in (path, pipe(content)):
        with pytest.raises(DataError, match=told) as refused:
            streamed(place)
        assert str(refused.value).isprintable()
    with pytest.raises(DataError, match=told.replace("byte 3 of the line", "byte 8 of the file")):
        read(path, domain="input", format="plain_text")


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt"))
    path.write_text("fine\n")
    for use in (streamed, lambda path: read(path, domain="input")):
        with pytest.raises(DataError, match=r"path is '\\udcff'; expected UTF-8 in its name; rename the file"):
            use(path)


def test_the_column_of_the_text_can_be_named(tmp_path: Path) -> None:
    for name, content in (
        ("a.csv", "id,review,key\n1,Fast.,R7\n"),
        ("a.jsonl", '{"id": "1", "review": "Fast.", "key": "R7"}\n'),
    ):
        (tmp_path / name).write_text(content)
        _, texts = open_texts(tmp_path / name, None, Counter(), ["review"])
        assert [(text.id, text.text) for text in texts] == [("1", "Fast.")]
        assert [text.id for text in open_texts(tmp_path / name, None, Counter(), ["review"], "key")[1]] == ["R7"]
        with pytest.raises(DataError, match=r"expected a column 'number'; name another with .* to predict with id=$"):
            open_texts(tmp_path / name, None, Counter(), ["review"], "number")
    for given, told in (([], "parse or export, column=COLUMN"), (["text"], "column 'text'; .*; if this line is no h")):
        with pytest.raises(ValueError, match=told):
            open_texts(tmp_path / "a.csv", None, Counter(), given)
    path = write_jsonl(tmp_path / "b.jsonl", [{"review": {"body": "Fast."}, "by": {"mood": None}}])
    columns = {"text": ("review.body",), "label": ("by.mood",)}
    assert [record.text for record in read(path, domain="a", columns=columns).records] == ["Fast."]
    with pytest.raises(DataError, match="expected a column 'review.text'; did you mean 'review.body'?"):
        read(path, domain="a", columns={"text": ("review.text",)})
    (tmp_path / "a.txt").write_text("review\nFast.\n")
    with pytest.raises(DataError, match="column is 'review'; expected none, as plain text has no columns"):
        open_texts(tmp_path / "a.txt", None, Counter(), id="review")
    with pytest.raises(DataError, match="column is 'review'; expected none, as plain text has no columns"):
        read(tmp_path / "a.txt", domain="a", columns={"text": ("review",)})
    read(tmp_path / "a.txt", domain="a", columns={"text": ("review", "text")})  # as the other side's are called
    assert [text.text for text in open_texts(tmp_path / "a.txt", "delimited", Counter(), ["review"])[1]] == ["Fast."]


STDIN = "from domadapt.data.streams import open_texts; import collections; c = collections.Counter()\n" + (
    "for text in open_texts('-', FORMAT, c)[1]: print(text.id, text.text)"
)


@pytest.mark.parametrize(("format", "content"), [("plain_text", LONG), (None, b'{"id": "a", "text": "x"}\n')])
@pytest.mark.parametrize("through", ["pipe", "file"])
def test_standard_input(tmp_path: Path, format: str | None, content: bytes, through: str) -> None:
    """Beside a file that is called as standard input is."""
    (tmp_path / "stdin").write_text("another\n")
    (tmp_path / "a").write_bytes(content)
    program = [sys.executable, "-c", STDIN.replace("FORMAT", repr(format))]
    with (tmp_path / "a").open("rb") as file:
        given: dict[str, Any] = {"input": content} if through == "pipe" else {"stdin": file}
        done = subprocess.run(program, **given, capture_output=True, cwd=tmp_path, check=True)
    lines = done.stdout.decode().splitlines()
    assert lines == (["a x"] if format is None else [f"input/stdin:{i} {x}" for i, x in enumerate(LINES, 1)])


def test_train_reads_a_pipe_and_its_command_works_without(tmp_path: Path) -> None:
    rows = [{"text": f"The {noun}.", "label": label} for noun, label in (("lens", "a"), ("fan", "b"))]
    write_jsonl(tmp_path / "a.jsonl", rows)
    given = ["source.path=a.jsonl", f"paths.cache={tmp_path}/c", "--cfg", "job", "--package", "data.target"]
    command = [sys.executable, "-m", "domadapt", "train", "data=my_files", "target.path=-", *given]
    done = subprocess.run(command, input=b"One text.\nAnother.\n", capture_output=True, cwd=tmp_path, check=True)
    digest = hashlib.sha256(b"One text.\nAnother.\n").hexdigest()[:16]
    path = tmp_path / "c" / "stdin" / digest / "stdin.txt"
    assert f"path: {path}" in done.stdout.decode() and path.read_bytes() == b"One text.\nAnother.\n"


@pytest.mark.parametrize(
    ("arguments", "content", "told"),
    [
        (["source.path=-", "target.path=-"], b"x", r"^source.path=- and target.path=-: standard input can be read"),
        (["data.target.path=-"], b" \n", "^data.target.path=-: standard input holds nothing"),
        (
            ["target.path=-"],
            b"review;stars\r\nGood room.;5\r\n",
            "^stdin: start of the file is 'review;stars'; .* no table",
        ),
    ],
)
def test_what_cant_be_read(arguments: list[str], content: bytes, told: str, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(ValueError, match=told):
        pipe_to_file([*arguments, f"paths.cache={tmp_path}"])
    assert not [*tmp_path.iterdir()]


def test_a_file_that_was_damaged_is_written_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"One text.")))
        found.append(pipe_to_file(["seed=1", "source.path=-", f"paths.cache={tmp_path}"]))
        path = Path(found[-1][1].removeprefix("source.path="))
        assert path.read_bytes() == b"One text."
        path.write_bytes(b"One")
    assert found[0] == found[1] and found[0][0] == "seed=1"


@pytest.mark.parametrize(
    ("columns", "content", "texts"),
    [
        ([], b"One text.\nAnother, too.\n", ["One text.", "Another, too."]),
        ([], b'{"text": "One text."}\n', ["One text."]),
        ([], gzip.compress(b"One text.\nAnother.\n", mtime=0), ["One text.", "Another."]),
        (["target.text=review"], b"review,stars\nOne text.,5\n", ["One text."]),
        (["target.format=plain_text"], b"One;fan\nTwo;fans\n", ["One;fan", "Two;fans"]),
    ],
    ids=["lines", "jsonl", "gzip", "table", "text like a table"],  # gzip holds the time, by which workers would differ
)
def test_every_format_is_piped(columns: Any, content: bytes, texts: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    given = pipe_to_file(["target.path=-", *columns, f"paths.cache={tmp_path}"])
    path = Path(given[0].removeprefix("target.path="))
    found = read(
        path, domain="camera", labelled=False, columns={"text": ("review",)} if "review" in str(columns) else None
    )
    assert [record.text for record in found.records] == texts
