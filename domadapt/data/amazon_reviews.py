"""Sentiment of whole reviews, over Amazon's product groups."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from domadapt.data.corpora import benchmark_folder, check_switches, hold_out, part_reader, two_of
from domadapt.data.domains import Ceiling, Domains, SealedTest, TargetUnlabeled
from domadapt.data.files import open_file
from domadapt.data.readers import read
from domadapt.data.records import MISSING, DataError, Location, Record, encodable
from domadapt.data.texts import lowercased

DOMAINS = ("books", "dvd", "electronics", "kitchen")
FDU_DOMAINS = ("camera_photo", "electronics", "software")


def amazon_reviews(
    root: str | None,
    pair: str,
    dev_share: float,
    ceiling_share: float,
    test: str,
    folder: str = "amazon_reviews",
    dev_by: str = "text",
) -> Domains:
    """Multi-domain sentiment (Blitzer, Dredze and Pereira 2007): 1000 positive and 1000 negative reviews a domain.

    The published test is all of the target's labelled reviews, which leaves the in-domain ceiling none to learn from.
    So the ceiling, and no other run, is tested on a random share and trained on the rest. It is printed beside runs
    that are tested on all; ``test=ceiling`` tests every run on that share, for a gap between like and like.

    Args:
        pair: ``SOURCE_to_TARGET`` of books, dvd, electronics, kitchen.
        dev_share: share of labelled reviews held out as dev: 400 of the source's 2000; the ceiling's of what it has.
        ceiling_share: share of the target's labelled reviews that the ceiling is tested on.
        test: ``all``, or ``ceiling``: the share that the ceiling is tested on.
        folder: the corpus's, in ``root``.
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.corpora.hold_out`; of the ceiling's dev, too.

    Raises:
        ValueError: the folder is missing, or there is no such pair or choice.
    """
    source, target = two_of(pair, DOMAINS)
    if test not in ("all", "ceiling"):
        raise ValueError(f"data.test={test!r}: expected all or ceiling")
    warnings: Counter[str] = Counter()
    part = part_reader(benchmark_folder(root, folder), warnings)

    def labelled() -> tuple[Record, ...]:
        return part(f"{target}.labeled.jsonl", target, True)

    def ceilings_test() -> tuple[Record, ...]:
        return hold_out(labelled(), ceiling_share, 1, "record")[1]

    def ceiling() -> Ceiling:
        rest, _ = hold_out(labelled(), ceiling_share, 1, "record")
        return Ceiling(*hold_out(rest, dev_share, 1, dev_by, warnings), SealedTest(target, ceilings_test))

    train, dev = hold_out(part(f"{source}.labeled.jsonl", source, True), dev_share, 1, dev_by, warnings)
    return Domains(
        source,
        target,
        train,
        dev,
        (),
        TargetUnlabeled.from_records(target, part(f"{target}.unlabeled_substitute.jsonl", target, False)),
        SealedTest(target, labelled if test == "all" else ceilings_test),
        ceiling,
        warnings,
    )


def amazon_reviews_fdu(
    root: str | None,
    pair: str,
    dev_share: float,
    lowercase: bool,
    folder: str = "amazon_reviews_fdu",
    dev_by: str = "text",
) -> Domains:
    """Multi-domain sentiment (Liu, Qiu and Huang 2017): three product groups with a test each.

    Its labelled text was published tokenised and lower-cased, its unlabelled text as written: a model could tell the
    two by their spaces and capitals. So ``text_detok`` is read, and the unlabelled text is lower-cased, too.

    Args:
        pair: ``SOURCE_to_TARGET`` of camera_photo, electronics, software.
        dev_share: share of labelled training reviews held out as dev.
        lowercase: whether the unlabelled text is lower-cased as the labelled text is.
        folder: the corpus's, in ``root``.
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.corpora.hold_out`; of the ceiling's dev, too.

    Raises:
        ValueError: the folder is missing, or there is no such pair.
    """
    check_switches(lowercase=lowercase)
    source, target = two_of(pair, FDU_DOMAINS)
    home = benchmark_folder(root, folder)
    warnings: Counter[str] = Counter()

    def part(domain: str, name: str) -> tuple[Record, ...]:
        return detokenised(home / f"{domain}.{name}.jsonl", domain, warnings)

    train, dev = hold_out(part(source, "train"), dev_share, 1, dev_by, warnings)
    texts = part_reader(home, warnings)(f"{target}.unlabeled.jsonl", target, False)
    return Domains(
        source,
        target,
        train,
        dev,
        part(source, "test"),
        TargetUnlabeled.from_records(target, tuple(map(lowercased, texts)) if lowercase else texts),
        SealedTest(target, lambda: part(target, "test")),
        lambda: Ceiling(*hold_out(part(target, "train"), dev_share, 1, dev_by, warnings)),
        warnings,
    )


def detokenised(path: Path, domain: str, warnings: Counter[str]) -> tuple[Record, ...]:
    """Labelled records with ``text_detok``, where tokenisation is undone, for their text.

    Raises:
        DataError: a record has no such field.
    """
    corpus = read(path, domain=domain)
    warnings.update(corpus.warnings)
    lines = dict(open_file(path, domain, labelled=False).lines())
    records = []
    for record, line in zip(corpus.records, corpus.lines, strict=True):
        text = json.loads(lines[line]).get("text_detok", MISSING)
        if not isinstance(text, str) or not text.strip():
            raise DataError(Location(path, line), "text_detok", text, "a text", "add it, or use data=my_files")
        encodable(text, "text_detok", Location(path, line))
        records.append(replace(record, text=text))
    return tuple(records)
