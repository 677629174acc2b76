"""Parses and word ranges on disk: made once, verified on every load, shared by processes.

One SQLite file a pipeline. Each entry is one blob with a checksum over key and content; SQLite's write-ahead log makes
writes atomic and lets several processes read and write at once. A damaged file is moved aside, and made anew.
"""

import hashlib
import logging
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

import numpy as np

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import Parse, Parser, Text, foreign_warning
from domadapt.utils.files import identity, one_at_a_time

log = logging.getLogger(__name__)
CHUNK = 512  # texts looked up, parsed and written together: bounds memory whatever the stream's length
LOCKS = 16  # that processes at other texts share
FORMAT = 3  # of entries, part of the file's name
HEADER = 8  # bytes of an entry: checksum, words
# What SQLite says of a sound file in trouble, and what then helps. Whatever else it says, the file is damaged.
TROUBLES = {
    code: way_out
    for way_out, names in {
        "free space": "FULL",
        "free space, or see what is wrong with the disk": "IOERR",
        "see whether you may write there, or set paths.cache to another folder": "READONLY CANTOPEN PERM",
        "another process holds it; wait for that one": "BUSY LOCKED PROTOCOL",
        "free memory": "NOMEM",
    }.items()
    for code in (getattr(sqlite3, f"SQLITE_{name}") for name in names.split())
}


class Damaged(sqlite3.DatabaseError):
    """An entry that is not what was written."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


class ParseCache:
    """A parser whose parses and word ranges are kept in a folder. What is there never reaches the parser."""

    def __init__(self, parser: Parser, folder: str | Path) -> None:
        self.parser = parser
        self.name = parser.name
        self.parsed = 0  # texts, since this object was made
        self.damaged = 0  # files that were moved aside
        self._warned = False
        Path(folder).mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(f"{FORMAT} {parser.name}".encode()).hexdigest()[:12]
        self.path = Path(folder) / f"parses-{digest}.sqlite"
        self._open()

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Parses in order; only texts without a sound entry reach the parser. Memory stays flat on any stream."""
        stream = iter(texts)
        first = list(islice(stream, CHUNK))
        if not self._warned and (message := foreign_warning([text.text for text in first], self.name)):
            self._warned = True
            log.warning("%s: %s", self.name, message)
        stream = chain(first, stream)
        # Several processes are given as much at a time as is worth their start.
        while chunk := list(islice(stream, CHUNK * (32 if processes > 1 else 1))):
            keys = [text_key(text) for text in chunk]
            entries = self._read(keys)
            if missing := _missing(keys, chunk, entries):
                entries |= self._parse(missing, processes)
            yield from map(entries.__getitem__, keys)

    def _parse(self, missing: Mapping[bytes, Text], processes: int) -> dict[bytes, Parse]:
        # Of several processes at the same texts, one parses them; others are seldom held up.
        with one_at_a_time(self.path.with_suffix(f".{next(iter(missing))[0] % LOCKS}")):
            entries = self._read([*missing])
            if rest := {key: text for key, text in missing.items() if key not in entries}:
                parses, keys = iter(self.parser.parse(rest.values(), processes)), iter(rest)
                while part := list(islice(keys, CHUNK)):  # what is interrupted has kept what it has done
                    fresh = dict(zip(part, islice(parses, len(part)), strict=True))
                    self.parsed += len(fresh)
                    self._write(fresh)
                    entries |= fresh
        return entries

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Word ranges in order: of a kept parse, else kept by themselves, else from the parser."""
        stream = iter(texts)
        while chunk := list(islice(stream, CHUNK)):
            keys = [text_key(text) for text in chunk]
            entries = {key: parse.words for key, parse in self._read(keys).items()}
            alone = {key: text_key(text, b"words") for key, text in _missing(keys, chunk, entries).items()}
            stored = self._read([*alone.values()])
            entries |= {key: stored[words_key].words for key, words_key in alone.items() if words_key in stored}
            if missing := _missing(keys, chunk, entries):
                fresh = dict(zip(missing, self.parser.tokenize(missing.values()), strict=True))
                blank = {n: (np.zeros(n, np.int64), ("",) * n, ("",) * n) for n in {len(w) for w in fresh.values()}}
                self._write({alone[key]: Parse(words, *blank[len(words)]) for key, words in fresh.items()})
                entries |= fresh
            yield from map(entries.__getitem__, keys)

    def __reduce__(self) -> tuple[object, ...]:
        """For another process, which opens the file itself."""
        return ParseCache, (self.parser, self.path.parent)

    def close(self) -> None:
        """Close the file; the object can't be used afterwards."""
        self._database.close()

    def __del__(self) -> None:
        """From Python 3.13 on, a connection that nobody has closed is warned of."""
        with suppress(AttributeError, sqlite3.Error):  # never opened
            self._database.close()

    def _open(self) -> None:
        """Connect; a damaged file is set aside first."""
        for attempt in range(3):
            try:
                with one_at_a_time(self.path):  # of two that make a new file's log, SQLite refuses one without waiting
                    self._connect()
                return
            except sqlite3.Error as error:
                self._set_aside(error, last=attempt == 2)

    def _connect(self) -> None:
        self._file = identity(self.path)
        database = sqlite3.connect(self.path, timeout=120, check_same_thread=False)  # whichever drops it closes it
        database.text_factory = bytes  # a damaged blob may come as text
        try:
            database.execute("PRAGMA journal_mode=WAL")
            self._file = identity(self.path)  # it may be a new one
            database.execute("PRAGMA synchronous=NORMAL")
            columns = "key BLOB PRIMARY KEY, parse BLOB NOT NULL"
            database.execute(f"CREATE TABLE IF NOT EXISTS parses ({columns}) WITHOUT ROWID")
            database.execute("SELECT key, parse FROM parses LIMIT 1").fetchone()
        except BaseException:
            database.close()
            raise
        self._database = database

    def _set_aside(self, error: sqlite3.Error, last: bool = False) -> None:
        """Move a damaged file out of the way, unless another process has already replaced it."""
        if not hasattr(error, "sqlite_errorcode"):
            raise error  # none of SQLite's, but of how it is used
        kind = error.sqlite_errorcode & 0xFF
        short = error.sqlite_errorcode == sqlite3.SQLITE_IOERR_SHORT_READ  # the file ends too early
        if last or (kind in TROUBLES and not short):
            fix = f"{TROUBLES.get(kind, 'move it away')}; then run the same command again"
            raise OSError(f"{self.path}: could not be used ({error}); {fix}") from error
        with one_at_a_time(self.path):
            if identity(self.path) != self._file:
                return
            aside = self.path.with_suffix(".damaged")
            log.warning("%s is damaged (%s): moved to %s, its texts are parsed again", self.path, error, aside.name)
            self.path.replace(aside)
            for suffix in ("-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def _start_over(self, error: sqlite3.Error) -> None:
        self._database.close()
        self._set_aside(error)
        self.damaged += 1
        self._open()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Parse]:
        entries: dict[bytes, Parse] = {}
        try:
            for start in range(0, len(keys), CHUNK):
                part = keys[start : start + CHUNK]
                marks = ",".join("?" * len(part))
                for key, blob in self._database.execute(f"SELECT * FROM parses WHERE key IN ({marks})", part):
                    entry = unpack(key, blob) if type(key) is type(blob) is bytes else None
                    if entry is None:
                        raise Damaged("an entry fails its checksum")
                    entries[key] = entry
        except sqlite3.Error as error:
            self._start_over(error)
        return entries

    def _write(self, parses: Mapping[bytes, Parse]) -> None:
        rows = [(key, pack(key, parse)) for key, parse in parses.items()]
        for _ in range(2):  # once more in a new file; entries that are not kept are parsed again
            try:
                with self._database:  # one transaction: all or nothing
                    self._database.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)
                return
            except sqlite3.Error as error:
                self._start_over(error)


def _missing(keys: Sequence[bytes], texts: Sequence[Text], entries: Mapping[bytes, object]) -> dict[bytes, Text]:
    """Texts without an entry, each once however often it is repeated."""
    return {key: text for key, text in zip(keys, texts, strict=True) if key not in entries}


def _checksum(key: bytes, body: bytes) -> bytes:
    """4 bytes over all that an entry is: damage may also put it, whole, under another key."""
    return struct.pack("<I", zlib.crc32(body, zlib.crc32(key)))


def text_key(text: Text, kind: bytes = b"") -> bytes:
    """16 bytes that name a text and its owner's tokens; the pipeline is in the file's name."""
    content = text.text.encode("utf-8")
    if text.words is not None:
        kind, content = kind + b"tokens", content + b"\x00" + np.asarray(text.words, dtype=np.int64).tobytes()
    return hashlib.blake2b(content, digest_size=16, person=kind).digest()


def pack(key: bytes, parse: Parse) -> bytes:
    """A parse as bytes: checksum, count, (words, 3) int32 of start, end, head, then names."""
    numbers = np.column_stack([parse.words.reshape(-1, 2), parse.heads]).astype("<i4").tobytes()
    names = "\x1f".join([*parse.relations, *parse.tags]).encode()
    body = struct.pack("<I", len(parse.heads)) + numbers + names
    return _checksum(key, body) + body


def unpack(key: bytes, blob: bytes) -> Parse | None:
    """The parse in a blob; None if any byte of it, or of its key, has changed."""
    if len(blob) < HEADER or _checksum(key, blob[4:]) != blob[:4]:  # of all behind it, the count included
        return None
    (words,) = struct.unpack_from("<I", blob, 4)
    if not words:
        return Parse(np.empty((0, 2), np.int64), np.empty(0, np.int64), (), ())
    numbers = np.frombuffer(blob, "<i4", 3 * words, HEADER).astype(np.int64).reshape(-1, 3)
    names = tuple(blob[HEADER + 12 * words :].decode().split("\x1f"))
    return Parse(numbers[:, :2], numbers[:, 2], names[:words], names[words:])
