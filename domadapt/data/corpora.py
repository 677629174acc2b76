"""Research corpora whose owners publish train, dev and test for every domain; they can't be shipped."""

from collections import Counter
from itertools import chain

from domadapt.data.domains import Ceiling, Domains, SealedTest, TargetUnlabeled
from domadapt.data.hold_out import hold_out
from domadapt.data.records import Record
from domadapt.data.sources import benchmark_folder, part_reader, two_of

MEMD = ("books", "clothing", "hotel", "laptop", "restaurant")
CROSS_NER = ("conll2003", "politics", "science")


def memd(root: str | None, pair: str, folder: str = "memd") -> Domains:
    """Aspect and opinion terms over five domains, annotated by one team (Cai et al. 2023, MEMD-ABSA).

    Train, dev and test of each domain are as published. The target's train sentences, without their tags, are the
    unlabelled text; the in-domain ceiling trains on them and chooses by the target's dev.

    Args:
        root: the benchmark folder.
        pair: ``SOURCE_to_TARGET`` of books, clothing, hotel, laptop, restaurant.
        folder: the corpus's, in ``root``.

    Raises:
        ValueError: the folder is missing, or there is no such pair.
    """
    source, target = two_of(pair, MEMD)
    warnings: Counter[str] = Counter()
    read = part_reader(benchmark_folder(root, folder), warnings)

    def part(domain: str, name: str, labelled: bool = True) -> tuple[Record, ...]:
        return read(f"{domain}.{name}.jsonl", domain, labelled)

    return Domains(
        source,
        target,
        part(source, "train"),
        part(source, "dev"),
        part(source, "test"),
        TargetUnlabeled.from_records(target, part(target, "train", False)),
        SealedTest(target, lambda: part(target, "test")),
        lambda: Ceiling(part(target, "train"), part(target, "dev")),
        warnings,
    )


def cross_ner(
    root: str | None, pair: str, dev_share: float, folder: str = "cross_ner", dev_by: str = "text"
) -> Domains:
    """Names of persons, organisations and places: news, politics, science (Liu et al. 2021, CrossNER).

    Politics and science have 200 training sentences and more in dev: of the target both together are the unlabelled
    text, and what the in-domain ceiling learns from. The source's dev is its own.

    Args:
        root: the benchmark folder.
        pair: ``SOURCE_to_TARGET`` of conll2003, politics, science.
        dev_share: share of the target's train and dev that the ceiling holds out as its dev.
        folder: the corpus's, in ``root``.
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.hold_out.hold_out`; of the ceiling's dev.

    Raises:
        ValueError: the folder is missing, or there is no such pair.
    """
    source, target = two_of(pair, CROSS_NER)
    warnings: Counter[str] = Counter()
    read = part_reader(benchmark_folder(root, folder), warnings)

    def part(domain: str, *names: str, labelled: bool = True) -> tuple[Record, ...]:
        return tuple(chain.from_iterable(read(f"{domain}.{name}.jsonl", domain, labelled) for name in names))

    return Domains(
        source,
        target,
        part(source, "train"),
        part(source, "dev"),
        part(source, "test"),
        TargetUnlabeled.from_records(target, part(target, "train", "dev", labelled=False)),
        SealedTest(target, lambda: part(target, "test")),
        lambda: Ceiling(*hold_out(part(target, "train", "dev"), dev_share, 1, dev_by, warnings)),
        warnings,
    )
