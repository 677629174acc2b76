"""Which task it is, told by how the source is annotated."""

from collections.abc import Sequence
from typing import Final

from domadapt.data.records import Record
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction

TASKS: Final = {"extraction": Extraction, "classification": Classification}  # by the names of their yaml


def auto(records: Sequence[Record]) -> str:
    """Name of the task that labelled records are of: spans first, for there are corpora with both.

    Args:
        records: of the source.

    Raises:
        ValueError: they are not annotated at all.

    >>> auto([Record("1", "camera", "Sharp.", label="positive")])
    'classification'
    """
    if any(record.spans is not None for record in records):
        return "extraction"
    if any(record.label is not None for record in records):
        return "classification"
    where = records[0].where.path if records and records[0].where else "the source"
    raise ValueError(
        f"{where}: no record has a label or spans; expected either on each; name the column that holds it, for example "
        f"source.label=sentiment"
    )
