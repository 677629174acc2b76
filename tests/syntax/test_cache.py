"""The parse cache: warm runs parse nothing, damage is found, processes share, memory stays flat."""

import multiprocessing
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.data.domains import UnlabelledText
from domadapt.syntax.cache import CHUNK, ParseCache, pack, text_key, unpack
from domadapt.syntax.parser import Parse, SpacyParser, load_pipeline, pipeline_name
from tests.parsers import MadeParser, fill, text
from tests.support import corpora
from tests.trouble import DEADLINE, loads_none_of


def same(one: Parse, other: Parse) -> bool:
    return all(map(np.array_equal, one, other))


def test_a_warm_run_parses_nothing(tmp_path: Path) -> None:
    texts = [text(f"word {i}") for i in range(CHUNK + 10)]
    cold = list(ParseCache(MadeParser(), tmp_path).parse(texts))
    again = MadeParser()
    cache = ParseCache(again, tmp_path)
    warm = list(cache.parse(texts))
    words = list(cache.tokenize(texts))  # of kept parses
    assert again.seen == cache.parsed == 0
    assert all(same(a, b) for a, b in zip(cold, warm, strict=True))
    assert [w.tolist() for w in words] == [parse.words.tolist() for parse in cold]


def test_the_key_holds_text_tokens_and_pipeline(tmp_path: Path) -> None:
    assert text_key(text("a b")) != text_key(text("a b", ((0, 1), (2, 3))))
    assert text_key(text("a b", ())) != text_key(text("a b"))
    list(ParseCache(MadeParser(name="one"), tmp_path).parse([text("a b")]))
    other = MadeParser(name="two")
    list(ParseCache(other, tmp_path).parse([text("a b")]))
    assert other.seen == 1


words = st.lists(st.text(st.characters(exclude_characters="\x1f", exclude_categories=("Cs",)), min_size=1), max_size=5)


@given(names=words, key=st.binary(min_size=16, max_size=16), data=st.data())
def test_any_flipped_bit_is_detected(names: list[str], key: bytes, data: st.DataObject) -> None:
    count = len(names)
    parse = Parse(np.arange(2 * count).reshape(-1, 2), np.zeros(count, int), tuple(names), tuple(names))
    blob = pack(key, parse)
    assert same(parse, unpack(key, blob))
    bit = data.draw(st.integers(0, 8 * len(blob) - 1))
    damaged = bytearray(blob)
    damaged[bit // 8] ^= 1 << bit % 8
    assert unpack(key, bytes(damaged)) is None
    assert unpack(key, blob[: data.draw(st.integers(0, len(blob) - 1))]) is None


TEXTS = [text(f"word number {i} of many") for i in range(400)]
PAGE = 4096


def pages(content: bytes) -> list[bytes]:
    return [content[place : place + PAGE] for place in range(0, len(content), PAGE)]


def flipped(content: bytes, places: Iterable[int], mask: int) -> bytes:
    damaged = bytearray(content)
    for place in places:
        damaged[place] ^= mask
    return bytes(damaged)


def sql(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def swap_rows(path: Path) -> None:
    """Every entry under its neighbour's key."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT * FROM parses").fetchall()
        moved = [(key, blob) for (key, _), (_, blob) in zip(rows, rows[1:] + rows[:1], strict=True)]
        database.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", moved)
    database.close()


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "a bit in every page but the first": lambda raw: flipped(raw, range(PAGE + 2000, len(raw), PAGE), 4),
    "the kind of every page but the first": lambda raw: flipped(raw, range(PAGE, len(raw), PAGE), 0xFF),
    "the root": lambda raw: flipped(raw, range(100, PAGE), 0x55),
    "cut": lambda raw: raw[: len(raw) // 2 + 100],
    "the first page alone": lambda raw: raw[:PAGE],
    "shuffled pages": lambda raw: b"".join([raw[:PAGE], *reversed(pages(raw[PAGE:]))]),
    "no database": lambda raw: b"not a database " * 1000,
    "nothing": lambda raw: b"",
}
ROWS: dict[str, tuple[str, ...]] = {
    "other tables": ("DROP TABLE parses", "CREATE TABLE parses (something TEXT)"),
    "other kinds": ("UPDATE parses SET parse = 'text'",),
    "a number": ("UPDATE parses SET parse = 7",),
}
DAMAGES: dict[str, Callable[[Path], object]] = {
    **{name: lambda path, change=change: path.write_bytes(change(path.read_bytes())) for name, change in BYTES.items()},
    **{name: lambda path, rows=rows: sql(path, *rows) for name, rows in ROWS.items()},
    "swapped rows": swap_rows,
}


def test_a_cache_that_is_let_go_has_closed_its_file(tmp_path: Path) -> None:
    cache = ParseCache(MadeParser(), tmp_path)
    database = cache._database
    del cache
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("opened", ["before", "after"])
def test_damage_is_parsed_again_and_heals(tmp_path: Path, damage: Callable[[Path], object], opened: str) -> None:
    """Never another parse than the parser's; and once a run has met the damage, the next has all from the cache."""
    cache = ParseCache(MadeParser(), tmp_path)
    parses, words = list(cache.parse(TEXTS[:300])), list(cache.tokenize(TEXTS))
    cache.close()
    if opened == "before":  # some pages are in memory and still sound
        cache = ParseCache(MadeParser(), tmp_path)
    damage(cache.path)
    for run in range(3):
        cache = cache if opened == "before" and not run else ParseCache(MadeParser(), tmp_path)
        assert all(map(np.array_equal, cache.tokenize(TEXTS), words))
        assert all(map(same, cache.parse(TEXTS[:300]), parses))
        cache.close()
    assert (cache.parsed, cache.damaged) == (0, 0)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_READONLY, "see whether you may write there, or set paths.cache"),
        (sqlite3.SQLITE_CANTOPEN, "see whether you may write there, or set paths.cache"),
        (sqlite3.SQLITE_FULL, "free space"),
        (sqlite3.SQLITE_BUSY, "another process holds it"),
    ],
)
def test_a_sound_file_in_trouble_is_left_where_it_is(tmp_path: Path, code: int, expected: str) -> None:
    cache = ParseCache(MadeParser(), tmp_path)
    error = sqlite3.OperationalError("as SQLite tells it")
    error.sqlite_errorcode = code
    with pytest.raises(OSError, match=f"sqlite: could not be used .*{expected}"):
        cache._start_over(error)
    assert cache.path.is_file()


def test_several_open_a_new_file_at_once(tmp_path: Path) -> None:
    for attempt in range(40):
        together = Barrier(4)

        def opened(folder: Path = tmp_path / str(attempt), together: Barrier = together) -> int:
            together.wait()
            cache = ParseCache(MadeParser(), folder)
            cache.close()
            return cache.damaged

        with ThreadPoolExecutor(4) as pool:
            opening = [pool.submit(opened) for _ in range(4)]
        assert [one.result() for one in opening] == [0] * 4


def test_a_stream_is_read_as_it_is_parsed(tmp_path: Path) -> None:
    drawn = 0

    def endless() -> Iterator[UnlabelledText]:
        nonlocal drawn
        while True:
            drawn += 1
            yield text(f"word {drawn}")

    parses = ParseCache(MadeParser(), tmp_path).parse(endless())
    for received in range(1, 3 * CHUNK):
        next(parses)
        assert drawn <= received + CHUNK


def test_several_workers_give_the_same_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domadapt.syntax.parser.WORTH_WORKERS", 100)
    texts = [text(f"The lens number {i} is sharp. It never fogs.") for i in range(30)]
    texts.append(text("two", ((0, 1), (1, 3))))
    alone = list(SpacyParser().parse(texts))
    shared = list(ParseCache(SpacyParser(), tmp_path).parse(texts, processes=2))
    assert all(same(a, b) for a, b in zip(alone, shared, strict=True))


def test_word_ranges_are_kept_too(tmp_path: Path) -> None:
    texts = [text("one two"), text("three"), text("one two"), text("two", ((0, 1), (1, 3)))]
    cold = list(ParseCache(SpacyParser(), tmp_path).tokenize(texts))
    again = MadeParser(name=SpacyParser().name)
    warm = list(ParseCache(again, tmp_path).tokenize(texts))
    assert again.seen == 0
    assert [w.tolist() for w in warm] == [w.tolist() for w in cold]
    assert warm[3].tolist() == [[0, 1], [1, 3]]
    assert [len(parse.words) for parse in ParseCache(again, tmp_path).parse(texts)] == [2, 1, 2, 1]  # by the parser
    assert again.seen == 3


def test_the_shipped_pipeline_is_named_without_loading_it() -> None:
    nlp = load_pipeline("shipped")
    assert SpacyParser().name == pipeline_name(nlp.meta, nlp.path)


def test_a_warm_run_imports_no_spacy_and_no_wandb(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), "injection=gnn", f"paths.cache={tmp_path}/cache", "trainer.epochs=1"]
    domadapt.train([*overrides, f"paths.run={tmp_path}/cold"])
    assert loads_none_of(["spacy", "wandb"], [*overrides, f"paths.run={tmp_path}/warm"])


@pytest.mark.parametrize(("method", "apart"), [("spawn", 0), ("fork", 0), ("fork", 40)])
def test_two_processes_at_once_parse_each_text_once(tmp_path: Path, method: str, apart: int) -> None:
    """At the same texts, and one where the other will be."""
    context = multiprocessing.get_context(method)
    together = context.Barrier(2)
    processes = [context.Process(target=fill, args=(tmp_path, n, n * apart, together)) for n in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE)
        assert process.exitcode == 0
    assert sum(int(path.read_text()) for path in tmp_path.glob("seen*")) == 100 + apart
    parser = MadeParser()
    cache = ParseCache(parser, tmp_path)
    assert len(list(cache.parse([text(f"word number {i}") for i in range(100 + apart)]))) == 100 + apart
    assert (parser.seen, cache.damaged) == (0, 0)


def test_a_ruined_file_that_another_process_has_replaced_is_left_alone(tmp_path: Path) -> None:
    first, second = (ParseCache(MadeParser(), tmp_path) for _ in range(2))
    list(first.parse(TEXTS))
    error = sqlite3.DatabaseError("malformed, as both found it")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    first._start_over(error)
    list(first.parse(TEXTS))
    second._start_over(error)
    assert list(second.parse(TEXTS)) and second.parsed == 0
