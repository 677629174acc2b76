"""Columns of a file by their names, and what a reader gives."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from domadapt.data.records import DataError, Location, Record


@dataclass(frozen=True, slots=True)
class Corpus:
    """The records of one file.

    ``warnings`` says how often each oddity was met and what was done about it; ``lines`` holds each record's
    first line in the file, so that whatever is found wrong later can still be located.
    """

    records: tuple[Record, ...]
    warnings: Counter[str]
    path: Path
    lines: tuple[int, ...]


Columns = Mapping[str, tuple[str, ...]]
OURS: Final = ("id", "text", "label")
# Where spaCy, doccano and Prodigy write spans: lists of [start, end, type], or objects.
SPANS: Final = ("spans", "entities", "ents", "label", "labels")
ENDS: Final = (("start", "start_offset"), ("end", "end_offset"), ("type", "label"))


def renamed(fields: Mapping[str, Any], columns: Columns, where: Location) -> dict[str, Any]:
    """Fields under our names; of columns that the user names, nothing but these and our own is kept.

    Args:
        columns: for each name of ours the columns that may hold it, the likeliest first; empty keeps the fields.

    Raises:
        DataError: there is none of the columns asked for.

    >>> renamed({"review": "Sharp.", "stars": 5, "id": 7}, {"text": ("review",)}, Location("a.csv", 2))
    {'id': 7, 'text': 'Sharp.'}
    """
    if not columns:
        return dict(fields)
    taken = {}
    for name, wanted in columns.items():
        found = next((column for column in wanted if column in fields), None)
        if found is None:
            if name != "text" and len(wanted) > 1:
                continue  # called so elsewhere, and not asked for here
            close = get_close_matches(wanted[0], fields, n=1)
            fix = f"did you mean {close[0]!r}?" if close else f"name another column with {name}="
            raise DataError(where, "columns", ", ".join(map(str, fields)), f"a column {wanted[0]!r}", fix)
        taken[name] = found
    own = [name for name in (*OURS, "tokens", "tags", *SPANS, "domain") if name in fields and name not in taken]
    used = {*taken.values()}
    return {name: fields[name] for name in dict.fromkeys(own) if name not in used} | {
        name: fields[column] for name, column in taken.items()
    }


def canonical(fields: Mapping[str, Any], generated_id: str) -> dict[str, Any]:
    """A record's fields as :func:`~domadapt.data.records.parse_record` wants them, whichever tool wrote them.

    Args:
        generated_id: for a record without an id.

    >>> canonical({"id": 3, "text": "The fan whines.", "label": [[4, 7, "aspect"]]}, "")
    {'id': '3', 'text': 'The fan whines.', 'spans': [{'start': 4, 'end': 7, 'type': 'aspect'}]}
    >>> canonical({"text": "Sharp.", "label": ["positive"]}, "a:1")
    {'text': 'Sharp.', 'label': 'positive', 'id': 'a:1'}
    """
    found = dict(fields)
    found["id"] = generated_id if found.get("id") in (None, "") else _name(found["id"])
    if "text" in found and _objects(found.get("tokens")):  # spaCy's and Prodigy's places of tokens
        del found["tokens"]
    for name in SPANS:
        value = found.get(name)
        if isinstance(value, list) and (name in ("spans", "entities", "ents") or all(map(_is_span, value))):
            del found[name]
            if value or "spans" not in found:
                found["spans"] = [_span(item) for item in value]
    labels = found.get("label")
    if isinstance(labels, list) and len(labels) == 1 and isinstance(labels[0], str | int):
        found["label"] = labels = labels[0]
    if labels is not None:
        found["label"] = _name(labels)
    return found


def _name(value: Any) -> Any:
    """Whole numbers as text: labels and ids often are."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) else None if value != value else value


def _objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _is_span(item: Any) -> bool:
    return isinstance(item, dict) or (isinstance(item, list) and len(item) == 3)


def _span(item: Any) -> Any:
    """``{"start", "end", "type"}`` of a list of these, or of an object that calls them otherwise; else as it is."""
    if isinstance(item, list) and len(item) == 3:
        return dict(zip(("start", "end", "type"), item, strict=True))
    if isinstance(item, dict):
        given = [next((item[name] for name in names if name in item), None) for names in ENDS]
        if None not in given:
            own = {"text": item["text"]} if "text" in item else {}  # as predict writes it: compared with the offsets
            return {**dict(zip(("start", "end", "type"), given, strict=True)), **own}
    return item
