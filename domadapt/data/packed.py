"""Bytes of a file as readers want them: gzip unpacked, a parquet table as JSON Lines."""

import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any, Final

from domadapt.data.errors import DataError, Location

GZIP: Final = b"\x1f\x8b"
PARQUET: Final = b"PAR1"
INSTALL: Final = "pip install 'domadapt[report]'"


def unpacked(path: Path, raw: bytes) -> bytes:
    r"""The text in a file's bytes, which are returned as they are where they are text.

    Args:
        path: The file, for messages.
        raw: Its content.

    Raises:
        DataError: It is damaged, or parquet, and pyarrow is not installed.

    Example:
        >>> unpacked(Path("a.txt.gz"), gzip.compress(b"sharp\n"))
        b'sharp\n'
    """
    if raw.startswith(GZIP):
        try:
            return gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            problem = f"damaged gzip ({error})"
            raise DataError(Location(path), "file", problem, "a whole gzip file", "copy it again") from None
    return _table(path, raw) if raw.startswith(PARQUET) else raw


def inner(path: Path) -> Path:
    """The path by which a file's format is told.

    >>> inner(Path("a/reviews.csv.gz")).name
    'reviews.csv'
    """
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _table(path: Path, raw: bytes) -> bytes:
    """A row a line; whole numbers that `datasets` has names for, as labels often are, by their names."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(Location(path), "file", "parquet", "pyarrow to read it with", INSTALL) from None
    try:
        table: Any = parquet.read_table(io.BytesIO(raw))
        rows, metadata = table.to_pylist(), (table.schema.metadata or {}).get(b"huggingface", b"{}")
        features = json.loads(metadata).get("info", {}).get("features", {})
    except Exception as error:  # pyarrow has its own, of several kinds
        problem = f"damaged parquet ({str(error).splitlines()[0][:80]})"
        raise DataError(Location(path), "file", problem, "a whole parquet file", "copy it again") from None
    names = {name: about["names"] for name, about in features.items() if isinstance(about, dict) and "names" in about}
    return as_lines(rows, names)


def as_lines(rows: Any, names: dict[str, list[str]]) -> bytes:
    r"""Rows as JSON Lines.

    Args:
        rows: mappings.
        names: of the values of columns that hold numbers in their place.

    >>> as_lines([{"text": "sharp", "label": 1}], {"label": ["bad", "good"]})
    b'{"text": "sharp", "label": "good"}\n'
    """
    lines = []
    for row in rows:
        told = dict(row)
        for name, known in names.items():
            if isinstance(value := told.get(name), int) and 0 <= value < len(known):
                told[name] = known[value]
        lines.append(json.dumps(told, ensure_ascii=False, default=_plain) + "\n")
    return "".join(lines).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    """Numbers and lists of numpy as Python's; anything else, such as a date, as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
