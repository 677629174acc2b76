"""The parse cache: warm runs parse nothing, damage is found, processes share, memory stays flat."""

import multiprocessing
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.data.domains import UnlabelledText
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.cache import CHUNK, ParseCache, pack, text_key, unpack
from domadapt.syntax.parser import Parse, SpacyParser, Text, load_pipeline, pipeline_name
from tests.support import corpora
from tests.trouble import DEADLINE


class ChainParser:
    """Each space-separated word depends on the one before it; counts what it parsed."""

    def __init__(self, name: str = "chain") -> None:
        self.name = name
        self.seen = 0

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        for text in texts:
            self.seen += 1
            ranges, start = [], 0
            for word in text.text.split(" "):
                ranges.append((start, start + len(word)))
                start += len(word) + 1
            heads = np.maximum(np.arange(len(ranges)) - 1, 0)
            yield Parse(np.array(ranges), heads, ("dep",) * len(ranges), ("X",) * len(ranges))

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        return (parse.words for parse in self.parse(texts))


def text(content: str, words: tuple[tuple[int, int], ...] | None = None) -> UnlabelledText:
    return UnlabelledText("", "", content, words)


def same(one: Parse, other: Parse) -> bool:
    return (
        np.array_equal(one.words, other.words)
        and np.array_equal(one.heads, other.heads)
        and (one.relations, one.tags) == (other.relations, other.tags)
    )


def test_a_warm_run_parses_nothing(tmp_path: Path) -> None:
    texts = [text(f"word {i}") for i in range(CHUNK + 10)]
    cold = list(ParseCache(ChainParser(), tmp_path).parse(texts))
    again = ChainParser()
    cache = ParseCache(again, tmp_path)
    warm = list(cache.parse(texts))
    assert again.seen == cache.parsed == 0
    assert all(same(a, b) for a, b in zip(cold, warm, strict=True))


def test_the_key_holds_text_tokens_and_pipeline(tmp_path: Path) -> None:
    assert text_key(text("a b")) != text_key(text("a b", ((0, 1), (2, 3))))
    assert text_key(text("a b", ())) != text_key(text("a b"))
    list(ParseCache(ChainParser("one"), tmp_path).parse([text("a b")]))
    other = ChainParser("two")
    list(ParseCache(other, tmp_path).parse([text("a b")]))
    assert other.seen == 1


words = st.lists(
    st.text(st.characters(exclude_characters="\x1e\x1f", exclude_categories=("Cs",)), min_size=1), max_size=5
)


@given(names=words, key=st.binary(min_size=16, max_size=16), data=st.data())
def test_any_flipped_bit_is_detected(names: list[str], key: bytes, data: st.DataObject) -> None:
    count = len(names)
    parse = Parse(np.arange(2 * count).reshape(-1, 2), np.zeros(count, int), tuple(names), tuple(names))
    blob = pack(key, parse)
    restored = unpack(key, blob)
    assert restored is not None
    assert same(parse, restored)
    bit = data.draw(st.integers(0, 8 * len(blob) - 1))
    damaged = bytearray(blob)
    damaged[bit // 8] ^= 1 << bit % 8
    assert unpack(key, bytes(damaged)) is None
    assert unpack(key, blob[: data.draw(st.integers(0, len(blob) - 1))]) is None


def test_a_flipped_byte_on_disk_is_parsed_again(tmp_path: Path) -> None:
    texts = [text("one two"), text("three four")]
    cache = ParseCache(ChainParser(), tmp_path)
    expected = list(cache.parse(texts))
    cache.close()
    with sqlite3.connect(cache.path) as database:
        blob = bytearray(database.execute("SELECT parse FROM parses WHERE key=?", [text_key(texts[0])]).fetchone()[0])
        blob[9] ^= 1
        database.execute("UPDATE parses SET parse=? WHERE key=?", [bytes(blob), text_key(texts[0])])
    database.close()
    parser = ChainParser()
    mended = ParseCache(parser, tmp_path)
    assert all(same(a, b) for a, b in zip(expected, mended.parse(texts), strict=True))
    assert (parser.seen, mended.damaged) == (1, 1)
    assert list(ParseCache(ChainParser(), tmp_path).parse(texts))


def test_a_ruined_file_is_set_aside(tmp_path: Path) -> None:
    cache = ParseCache(ChainParser(), tmp_path)
    list(cache.parse([text("one two")]))
    cache.close()
    cache.path.write_bytes(b"not a database " * 100)
    parser = ChainParser()
    list(ParseCache(parser, tmp_path).parse([text("one two")]))
    assert parser.seen == 1
    assert cache.path.with_suffix(".damaged").is_file()


def fill(folder: Path, first: int) -> None:
    cache = ParseCache(ChainParser(), folder)
    for start in range(first, first + 400, 20):
        list(cache.parse([text(f"word number {i}") for i in range(start, start + 20)]))


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=fill, args=(tmp_path, first)) for first in (0, 200)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE)
        assert process.exitcode == 0
    parser = ChainParser()
    cache = ParseCache(parser, tmp_path)
    assert len(list(cache.parse([text(f"word number {i}") for i in range(600)]))) == 600
    assert (parser.seen, cache.damaged) == (0, 0)


def test_a_stream_is_read_as_it_is_parsed(tmp_path: Path) -> None:
    drawn = 0

    def endless() -> Iterator[UnlabelledText]:
        nonlocal drawn
        while True:
            drawn += 1
            yield text(f"word {drawn}")

    parses = ParseCache(ChainParser(), tmp_path).parse(endless())
    for received in range(1, 3 * CHUNK):
        next(parses)
        assert drawn <= received + CHUNK


def test_several_workers_give_the_same_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domadapt.syntax.parser.WORTH", 100)
    texts = [text(f"The lens number {i} is sharp. It never fogs.") for i in range(30)]
    texts.append(text("two", ((0, 1), (1, 3))))
    alone = list(SpacyParser().parse(texts))
    shared = list(ParseCache(SpacyParser(), tmp_path).parse(texts, processes=2))
    assert all(same(a, b) for a, b in zip(alone, shared, strict=True))


@pytest.mark.parametrize("content", ["", " ", "a\x00b", "😀\u202e", "a  b\n\nc", "word " * 3000])
def test_odd_texts_go_through(tmp_path: Path, content: str) -> None:
    (parse,) = ParseCache(SpacyParser(), tmp_path).parse([text(content)])
    (warm,) = ParseCache(SpacyParser(), tmp_path).parse([text(content)])
    assert same(parse, warm)
    assert ((parse.heads >= 0) & (parse.heads < len(parse.words))).all()


def test_word_ranges_are_kept_too(tmp_path: Path) -> None:
    texts = [text("one two"), text("three"), text("one two"), text("two", ((0, 1), (1, 3)))]
    cold = list(ParseCache(SpacyParser(), tmp_path).tokenize(texts))
    again = ChainParser(SpacyParser().name)
    warm = list(ParseCache(again, tmp_path).tokenize(texts))
    assert again.seen == 0
    assert [w.tolist() for w in warm] == [w.tolist() for w in cold]
    assert warm[3].tolist() == [[0, 1], [1, 3]]


def test_word_ranges_of_kept_parses_need_no_parser(tmp_path: Path) -> None:
    [parse] = ParseCache(ChainParser(), tmp_path).parse([text("one two")])
    again = ChainParser()
    [words] = ParseCache(again, tmp_path).tokenize([text("one two")])
    assert (words.tolist(), again.seen) == (parse.words.tolist(), 0)


def test_the_shipped_pipeline_is_named_without_loading_it() -> None:
    assert SpacyParser().name == pipeline_name(load_pipeline("shipped"))


def test_a_warm_run_imports_no_spacy_and_no_wandb(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), "injection=gnn", f"paths.cache={tmp_path}/cache", "trainer.epochs=1"]
    domadapt.train([*overrides, f"paths.run={tmp_path}/cold"])
    code = f"import sys, domadapt; domadapt.train({[*overrides, f'paths.run={tmp_path}/warm']!r})\n"
    code += "print([name for name in ('spacy', 'wandb') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


class SlowParser(ChainParser):
    """Slow enough for another process to come to the same text meanwhile."""

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        time.sleep(0.1)
        return super().parse(texts)


def count(folder: Path, number: int, together: Any) -> None:
    parser = SlowParser()
    cache = ParseCache(parser, folder)
    for start in range(0, 100, 20):
        together.wait()
        list(cache.parse([text(f"word number {i}") for i in range(start, start + 20)]))
    (folder / f"seen{number}").write_text(str(parser.seen))


def test_two_processes_at_the_same_texts_parse_each_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    together = context.Barrier(2)
    processes = [context.Process(target=count, args=(tmp_path, number, together)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert sum(int(path.read_text()) for path in tmp_path.glob("seen*")) == 100


def test_a_ruined_file_that_another_process_has_replaced_is_left_alone(tmp_path: Path) -> None:
    cache = ParseCache(ChainParser(), tmp_path)
    list(cache.parse([text("one two")]))
    again = ParseCache(ChainParser(), tmp_path)
    again._database.close()
    again._database = again._start_over(sqlite3.DatabaseError("malformed, as it found it"))
    parser = again.parser = ChainParser()
    list(again.parse([text("one two")]))
    assert parser.seen == 0
    assert not cache.path.with_suffix(".damaged").exists()
