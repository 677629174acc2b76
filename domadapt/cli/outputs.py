"""What predict and parse write, told by the name of the file: nothing is called .csv that is none."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Rows = Iterable[Mapping[str, Any]]
SPAN = ("start", "end", "type", "span", "confidence")  # columns of a span; ``span`` holds its words


def json_lines(rows: Rows) -> Iterator[str]:
    """One JSON object a line."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def delimited(rows: Rows, delimiter: str) -> Iterator[str]:
    r"""A table with a header: a text a line; where spans were found, a span a line, and an empty one for none.

    Args:
        rows: of predictions, all of one task.
        delimiter: comma or tab.

    >>> list(delimited([{"id": "1", "text": "So, so.", "label": "negative", "confidence": 0.9}], ","))
    ['id,text,label,confidence\n', '1,"So, so.",negative,0.9\n']
    >>> span = {"start": 4, "end": 8, "type": "aspect", "text": "lens", "confidence": 0.8}
    >>> rows = [{"id": "1", "text": "The lens", "spans": [span]}, {"id": "2", "text": "Yes", "spans": []}]
    >>> list(delimited(rows, "\t"))
    ['id\ttext\tstart\tend\ttype\tspan\tconfidence\n', '1\tThe lens\t4\t8\taspect\tlens\t0.8\n', '2\tYes\t\t\t\t\t\n']
    """
    header: list[str] = []
    for row in rows:
        for flat in _flat(row):
            if not header:
                header = [*flat]
                yield _line(header, delimiter)
            yield _line([flat.get(name, "") for name in header], delimiter)


def predictions(output: str | None) -> Callable[[Rows], Iterator[str]]:
    """How predictions are written into a file of this name.

    Args:
        output: as given; None is standard output.

    Raises:
        ValueError: it is the name of a format that predict does not write.

    >>> predictions("out.xlsx")
    Traceback (most recent call last):
    ValueError: output=out.xlsx: predict does not write .xlsx; expected .jsonl (a JSON object a line), .csv or .tsv
    """
    ending = _ending(output)
    if ending in (".csv", ".tsv"):
        return lambda rows: delimited(rows, "," if ending == ".csv" else "\t")
    if ending not in ("", ".jsonl", ".ndjson", ".txt"):
        raise ValueError(
            f"output={output}: predict does not write {ending}; expected .jsonl (a JSON object a line), .csv or .tsv"
        )
    return json_lines


def check_trees(output: str | None) -> None:
    """Refuse a name that promises another format than the CoNLL-U that parse writes.

    Raises:
        ValueError: with a name that does.
    """
    ending = _ending(output)
    if ending not in ("", ".conllu", ".conll", ".txt"):
        raise ValueError(f"output={output}: parse does not write {ending}; expected .conllu")


def _ending(output: str | None) -> str:
    """Of the name, if it looks like a format: ``out.v2`` does, ``run.2026-11`` does not."""
    ending = Path(output or "").suffix.lower()
    return ending if ending[1:2].isalpha() else ""


def _flat(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if "spans" not in row:
        yield dict(row)
        return
    text = {name: value for name, value in row.items() if name != "spans"}
    for span in row["spans"] or [{}]:
        own = {**span, "span": span.get("text", "")}
        yield {**text, **{name: own.get(name, "") for name in SPAN}}


def _line(values: Iterable[Any], delimiter: str) -> str:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(values)
    return line.getvalue()
