"""Aspect terms with their polarity in one tag, over devices, laptops and restaurants."""

from collections import Counter
from dataclasses import replace

from domadapt.data.corpora import benchmark_folder, check_switches, hold_out, part_reader, two_of
from domadapt.data.domains import Ceiling, Domains, SealedTest, TargetUnlabeled
from domadapt.data.records import Record
from domadapt.data.texts import lowercased

DOMAINS = ("device", "laptop", "rest")


def joint_absa(
    root: str | None,
    pair: str,
    dev_share: float,
    terms_only: bool,
    lowercase: bool = False,
    folder: str = "joint_absa",
    dev_by: str = "text",
) -> Domains:
    """Cross-domain aspect-based sentiment analysis (Gong, Yu and Xia 2020, BERT-UDA).

    Train and test are as published. The target's train sentences, without their tags, are the unlabelled text; dev is
    held out from the source's. Spans are POS, NEG and NEU; devices have no NEU.

    Args:
        pair: ``SOURCE_to_TARGET`` of device, laptop, rest.
        dev_share: share of the source's training sentences held out as dev.
        terms_only: every span is an ``aspect``, whatever its polarity: aspect extraction (AE).
        folder: the corpus's, in ``root``.
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.corpora.hold_out`; of the ceiling's dev, too.

    Raises:
        ValueError: the folder is missing, or there is no such pair.
    """
    check_switches(terms_only=terms_only, lowercase=lowercase)
    source, target = two_of(pair, DOMAINS)
    warnings: Counter[str] = Counter()
    read = part_reader(benchmark_folder(root, folder), warnings)

    def part(domain: str, name: str, labelled: bool) -> tuple[Record, ...]:
        records = read(f"{domain}.{name}.jsonl", domain, labelled)
        records = tuple(map(without_polarity, records)) if terms_only else records
        return tuple(map(lowercased, records)) if lowercase else records

    train, dev = hold_out(part(source, "train", True), dev_share, 1, dev_by, warnings)
    return Domains(
        source,
        target,
        train,
        dev,
        part(source, "test", True),
        TargetUnlabeled.from_records(target, part(target, "train", False)),
        SealedTest(target, lambda: part(target, "test", True)),
        lambda: Ceiling(*hold_out(part(target, "train", True), dev_share, 1, dev_by, warnings)),
        warnings,
    )


def without_polarity(record: Record) -> Record:
    """The same record with ``aspect`` as the only span type.

    >>> from domadapt.data.records import Span
    >>> without_polarity(Record("1", "rest", "good bread", spans=(Span(5, 10, "POS"),))).spans
    (Span(start=5, end=10, type='aspect'),)
    """
    if record.spans is None:
        return record
    return replace(record, spans=tuple(replace(span, type="aspect") for span in record.spans))
