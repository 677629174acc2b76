"""Files, pipes and standard input: every byte that goes in is a record, counted, or one clear error."""

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
from typing import Any

import pytest

from domadapt.cli.main import pipe_to_file
from domadapt.data.domains import UnlabelledText
from domadapt.data.readers import open_texts, read
from domadapt.data.records import DataError

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
    assert warnings == corpus.warnings
    assert total is not None and total <= content.count(b"\n") + 1
    total, piped, counted = streamed(pipe(content))
    assert total is None
    assert [(t.id.rpartition(":")[2], t.text) for t in piped] == [(t.id.rpartition(":")[2], t.text) for t in texts]
    assert counted == warnings


def test_a_pipe_in_another_format_is_read_whole(pipe: Pipe) -> None:
    rows = "".join(f'{{"id": "{i}", "domain": "d", "text": "{line}"}}\n' for i, line in enumerate(LINES))
    total, texts, _ = streamed(pipe(rows.encode()), None)
    assert total == len(LINES)
    assert [text.text for text in texts] == LINES


NOTHING = [  # content, and what is said of it, at once or when the stream is used up
    (b"", "file is 'empty'; expected records"),
    (b"\n \n\t\r\n", "file is 'blank'; expected records"),
    (b"\xef\xbb\xbf\n", "file is 'blank'; expected records"),
    ("sharp\n".encode("utf-16"), "file is 'UTF-16, or no text'; .*re-encode it: iconv -f utf-16 -t utf-8"),
    ("sharp lens\n".encode("utf-16-be"), "file is 'UTF-16, or no text'; .*utf-16le or -16be if it has no mark"),
    (b"\x1f\x8b\x08\0\0\0", "expected a whole gzip file; copy it again"),
    (b"\xfd7zXZ\0\0\0", "expected UTF-8 text"),
    (b"\xfd7zXZ\n", r":1: byte 0 of the (line|file) is b'\\xfd'; expected UTF-8; unpack it, or re-encode it"),
    (b"fine\nsch\xf6n\n", r":2: byte 3 of the line is b'\\xf6'; expected UTF-8; .*iconv -f latin1"),
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
    for name, content in (("a.csv", "id,review\n1,Fast.\n"), ("a.jsonl", '{"id": "1", "review": "Fast."}\n')):
        (tmp_path / name).write_text(content)
        _, texts = open_texts(tmp_path / name, None, Counter(), ["review"])
        assert [(text.id, text.text) for text in texts] == [("1", "Fast.")]
    with pytest.raises(ValueError, match="compare or parse, column=COLUMN"):
        open_texts(tmp_path / "a.csv", None, Counter())


STDIN = "from domadapt.data.readers import open_texts; import collections; c = collections.Counter()\n" + (
    "for text in open_texts('-', FORMAT, c)[1]: print(text.id, text.text)"
)


@pytest.mark.parametrize(("format", "content"), [("plain_text", LONG), (None, b'{"id": "a", "text": "x"}\n')])
@pytest.mark.parametrize("through", ["pipe", "file"])
def test_standard_input(tmp_path: Path, format: str | None, content: bytes, through: str) -> None:
    """Beside a file that is called as standard input is."""
    (tmp_path / "stdin").write_text("another\n")
    (tmp_path / "a").write_bytes(content)
    program = [sys.executable, "-c", STDIN.replace("FORMAT", repr(format))]
    if through == "pipe":
        done = subprocess.run(program, input=content, capture_output=True, cwd=tmp_path, check=True)
    else:
        with (tmp_path / "a").open("rb") as file:
            done = subprocess.run(program, stdin=file, capture_output=True, cwd=tmp_path, check=True)
    lines = done.stdout.decode().splitlines()
    assert lines == (["a x"] if format is None else [f"input/stdin:{i} {x}" for i, x in enumerate(LINES, 1)])


def test_train_reads_a_pipe_and_its_command_works_without(tmp_path: Path) -> None:
    rows = [
        json.dumps({"text": f"The {noun}.", "label": label}) + "\n" for noun, label in (("lens", "a"), ("fan", "b"))
    ]
    (tmp_path / "a.jsonl").write_text("".join(rows), encoding="utf-8")
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
    ],
    ids=["lines", "jsonl", "gzip", "table"],  # gzip holds the time, by which workers would differ
)
def test_every_format_is_piped(columns: Any, content: bytes, texts: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    given = pipe_to_file(["target.path=-", *columns, f"paths.cache={tmp_path}"])
    path = Path(given[0].removeprefix("target.path="))
    found = read(path, domain="camera", labelled=False, columns={"text": ("review",)} if columns else None)
    assert [record.text for record in found.records] == texts
