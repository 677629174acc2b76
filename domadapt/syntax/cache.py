"""Parses on disk: parsed once, verified on every load, shared by processes.

One SQLite file a pipeline. Each entry is one blob with a checksum over key and content; SQLite's write-ahead log makes
writes atomic and lets several processes read and write at once. An entry that fails its checksum is parsed again.
"""

import hashlib
import logging
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import Parse, Parser, Text

log = logging.getLogger(__name__)
CHUNK = 512  # texts looked up, parsed and written together: bounds memory whatever the stream's length
HEADER = struct.Struct("<II")  # of an entry: checksum, words


class ParseCache:
    """A parser whose parses are kept in a folder.

    Args:
        parser: where missing parses come from.
        folder: where the cache file lives; made if absent.

    Attributes:
        name: the parser's name.
        parsed: texts that had to be parsed since this object was made.
        damaged: entries whose checksum failed and that were parsed again.
    """

    def __init__(self, parser: Parser, folder: str | Path) -> None:
        self.parser = parser
        self.name = parser.name
        self.parsed = 0
        self.damaged = 0
        Path(folder).mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(parser.name.encode()).hexdigest()[:12]
        self.path = Path(folder) / f"parses-{digest}.sqlite"
        self._database = self._open()

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Parses in order; only texts without a sound entry reach the parser. Memory stays flat on any stream."""
        stream = iter(texts)
        # Worker processes cost a second to start, so a stream's chunks are wide enough to feed them.
        while chunk := list(islice(stream, CHUNK * (8 if processes > 1 else 1))):
            keys = [text_key(text) for text in chunk]
            found = self._read(keys)
            if len(found) < len(keys):
                missing = {key: text for key, text in zip(keys, chunk, strict=True) if key not in found}
                # A repeated text makes fewer entries than keys without any being missing.
                fresh = dict(
                    zip(missing, self.parser.parse(missing.values(), processes) if missing else (), strict=True)
                )
                self.parsed += len(fresh)
                self._write(fresh)
                found.update(fresh)
            for key in keys:
                yield found[key]

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Word ranges, which need no parse and no cache."""
        return self.parser.tokenize(texts)

    def close(self) -> None:
        """Close the file; the object can't be used afterwards."""
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self.path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
                raise  # locked, read-only, disk full: not damage
            return self._start_over(error)

    def _start_over(self, error: Exception) -> sqlite3.Connection:
        aside = self.path.with_suffix(".damaged")
        log.warning("%s is damaged (%s): moved to %s, its texts are parsed again", self.path, error, aside.name)
        self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        return _connect(self.path)

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Parse]:
        found: dict[bytes, Parse] = {}
        try:
            for start in range(0, len(keys), CHUNK):
                part = keys[start : start + CHUNK]
                marks = ",".join("?" * len(part))
                for key, blob in self._database.execute(f"SELECT key, parse FROM parses WHERE key IN ({marks})", part):
                    parse = unpack(key, blob)
                    if parse is None:
                        self.damaged += 1
                        log.warning("%s: an entry fails its checksum and is parsed again", self.path)
                    else:
                        found[key] = parse
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            self.damaged += 1
            self._database.close()
            self._database = self._start_over(error)
        return found

    def _write(self, parses: dict[bytes, Parse]) -> None:
        rows = [(key, pack(key, parse)) for key, parse in parses.items()]
        with self._database:  # one transaction: all or nothing
            self._database.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=120)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("CREATE TABLE IF NOT EXISTS parses (key BLOB PRIMARY KEY, parse BLOB NOT NULL) WITHOUT ROWID")
    return database


def text_key(text: Text) -> bytes:
    """16 bytes that name a text and its owner's tokens; the pipeline is in the file's name."""
    content = text.text.encode("utf-8")
    if text.words is None:
        return hashlib.blake2b(content, digest_size=16).digest()
    tokens = np.asarray(text.words, dtype=np.int64).tobytes()
    return hashlib.blake2b(content + b"\x00" + tokens, digest_size=16, person=b"tokens").digest()


def pack(key: bytes, parse: Parse) -> bytes:
    """A parse as bytes: checksum, count, (words, 3) int32 of start, end, head, then names.

    >>> key = bytes(16)
    >>> parse = Parse(np.array([[0, 2]]), np.array([0]), ("ROOT",), ("VB",))
    >>> unpack(key, pack(key, parse)).relations
    ('ROOT',)
    >>> unpack(key, pack(key, parse)[:-1] + b"?") is None
    True
    """
    numbers = np.column_stack([parse.words.reshape(-1, 2), parse.heads]).astype("<i4").tobytes()
    names = "\x1f".join([*parse.relations, *parse.tags]).encode()
    body = struct.pack("<I", len(parse.heads)) + numbers + names
    return struct.pack("<I", zlib.crc32(body, zlib.crc32(key))) + body


def unpack(key: bytes, blob: bytes) -> Parse | None:
    """The parse in a blob; None if any byte of it, or of its key, has changed."""
    if len(blob) < HEADER.size:
        return None
    checksum, words = HEADER.unpack_from(blob)
    if zlib.crc32(blob[4:], zlib.crc32(key)) != checksum:  # everything behind the checksum, the count included
        return None
    if not words:
        return Parse(np.empty((0, 2), np.int64), np.empty(0, np.int64), (), ())
    numbers = np.frombuffer(blob, "<i4", 3 * words, HEADER.size).astype(np.int64).reshape(-1, 3)
    names = tuple(blob[HEADER.size + 12 * words :].decode().split("\x1f"))
    return Parse(numbers[:, :2], numbers[:, 2], names[:words], names[words:])
