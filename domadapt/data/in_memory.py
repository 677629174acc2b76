"""Data that a program holds: lists, DataFrames, `datasets`; none of these libraries is imported."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from domadapt.data.packed import as_lines
from domadapt.utils.files import write_atomic


def kept(data: Any, folder: Path) -> Path:
    """A file with the data, named by its content, so that a run on it is found again and can be resumed.

    Args:
        data: see :func:`rows`.
        folder: for such files.

    Raises:
        ValueError: it is nothing of the kind, or empty.
    """
    lines = as_lines(rows(data), _names(data))
    if not lines:
        raise ValueError("the data is empty; expected at least one text")
    path = folder / f"{hashlib.sha256(lines).hexdigest()[:16]}.jsonl"
    if not path.is_file():
        write_atomic(path, lines.decode("utf-8", "surrogatepass"))
    return path


def rows(data: Any) -> Iterator[Mapping[str, Any]]:
    """Records as mappings.

    Args:
        data: texts; (text, label) or (text, spans) pairs, spans being (start, end, type); mappings; a pandas or polars
            DataFrame; a dataset of `datasets`; a mapping of columns.

    Raises:
        ValueError: an item is none of these; says which.

    >>> list(rows(["Sharp."])), list(rows([("Sharp.", "positive")]))
    ([{'text': 'Sharp.'}], [{'text': 'Sharp.', 'label': 'positive'}])
    >>> list(rows({"review": ["Sharp.", "Dull."], "stars": [5, 1]}))[1]
    {'review': 'Dull.', 'stars': 1}
    """
    if hasattr(data, "to_dicts"):  # polars
        data = data.to_dicts()
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        data = data.to_dict("records")
    elif isinstance(data, Mapping):
        columns = {str(name): list(values) for name, values in data.items()}
        sizes = {name: len(values) for name, values in columns.items()}
        if len({*sizes.values()}) > 1:
            raise ValueError(f"columns of {sizes} values: expected as many in each")
        data = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise ValueError(
            f"data of type {type(data).__name__}: expected a list of texts, pairs or dicts, or a DataFrame"
        )
    for number, item in enumerate(data):
        if isinstance(item, Mapping):
            yield {str(name): None if _missing(value) else value for name, value in item.items()}
        elif isinstance(item, str):
            yield {"text": item}
        elif isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str):
            text, label = item
            yield {"text": text, "label": label.tolist() if hasattr(label, "tolist") else label}
        else:
            raise ValueError(
                f"item {number} is {repr(item)[:60]}; expected a text, a (text, label) pair, or a dict with a text"
            )


def _missing(value: Any) -> bool:
    """None, NaN, and pandas' own marks, which are equal to nothing."""
    return value is None or (not hasattr(value, "__len__") and repr(value) in ("nan", "<NA>", "NaT"))


def _names(data: Any) -> dict[str, list[str]]:
    """Names of classes, where a dataset of `datasets` knows them."""
    features = getattr(data, "features", None)
    items = features.items() if isinstance(features, Mapping) else ()
    return {name: list(about.names) for name, about in items if getattr(about, "names", None)}
