"""Corpora: the shipped ones, research corpora in their folders, a user's own files."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from domadapt.config.resolvers import side_name
from domadapt.data.domains import Ceiling, Domains, SealedTest, TargetUnlabeled
from domadapt.data.files import OURS, as_lines
from domadapt.data.readers import read
from domadapt.data.records import Record
from domadapt.data.texts import detokenised, groups, identity, lowercased
from domadapt.utils.files import matching, write_atomic

Parts = tuple[tuple[Record, ...], tuple[Record, ...]]
COUNTED = "held-out texts that a split by record would leave copies of in train; kept on one side with them"


def hold_out(
    records: tuple[Record, ...], share: float, seed: int, by: str = "text", warnings: Counter[str] | None = None
) -> Parts:
    """Split off a random share, the same for the same seed; both parts keep their order.

    Copies of a text, near copies included (:mod:`~domadapt.data.texts`), are on one side, all of them: groups
    of them are drawn at random, each with the same chance, until the share is reached. Groups that are larger than what
    is missing are passed over, so the share is met wherever there are enough small ones. Without any copies, the split
    is that by record.

    Args:
        share: of records to hold out, between 0 and 1.
        by: ``text``, or ``record``: each by itself, whoever has its copies.
        warnings: counts, by domain, the records that ``record`` would hold out and leave copies of.

    Returns:
        The rest, and the held-out part.

    Raises:
        ValueError: share or ``by`` are out of range, or all texts are copies of one.

    >>> records = tuple(Record(str(i), "camera", "Good." if i % 2 else f"Text {i}.") for i in range(10))
    >>> [[record.id for record in part] for part in hold_out(records, 0.5, seed=0)]
    [['1', '3', '5', '7', '9'], ['0', '2', '4', '6', '8']]
    """
    if not 0 < share < 1 or len(records) < 2:
        raise ValueError(
            f"dev_share={share} of {len(records)} records: expected a share between 0 and 1, of at least 2 records"
        )
    if by not in ("text", "record"):
        raise ValueError(f"data.dev_by={by!r}: expected text or record")
    wanted = min(max(1, round(share * len(records))), len(records) - 1)
    one_by_one = [[i] for i in range(len(records))]
    chosen = drawn(one_by_one, wanted, seed)
    if by == "text":
        together = groups([record.text for record in records])
        if len(together) == 1:
            raise ValueError(
                f"data.dev_by={by}: all {len(records)} labelled texts are copies or near copies of one; give dev data "
                f"of its own (data.source.dev_path), or data.dev_by=record to hold out copies"
            )
        if warnings is not None and (parted := sum(len(chosen & {*g}) for g in together if not {*g} <= chosen)):
            warnings[f"{records[0].domain}: {COUNTED}"] += parted
        chosen = drawn(together, wanted, seed)
    rest = tuple(r for i, r in enumerate(records) if i not in chosen)
    return rest, tuple(r for i, r in enumerate(records) if i in chosen)


def drawn(together: list[list[int]], wanted: int, seed: int) -> set[int]:
    """Members of whole groups, drawn at random so that there are as nearly as possible as many as wanted.

    Args:
        wanted: members in all; at least one group is drawn, at least one is not.
        seed: of the order in which they are drawn.

    >>> drawn([[0, 1, 2], [3], [4], [5, 6]], wanted=2, seed=0) in ({3, 4}, {5, 6})
    True
    """
    chosen: set[int] = set()
    left = []
    for position in np.random.default_rng(seed).permutation(len(together)).tolist():
        group = together[position]
        if len(chosen) + len(group) <= wanted:
            chosen.update(group)
        else:
            left.append(group)
    smallest = min(left, key=len)  # there is one: fewer are wanted than there are
    missing = wanted - len(chosen)
    if not chosen or (len(left) > 1 and len(smallest) - missing < missing):
        chosen.update(smallest)
    return chosen


def kept(data: Any, folder: Path) -> Path:
    """A file with the data, named by its content, so that a run on it is found again and can be resumed.

    Args:
        data: see :func:`rows`.

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


Records = tuple[Record, ...]
IN_TEST = "source text that is in the target's test too, kept"
IN_TRAIN = "dev text of one source that another source trains on, kept"


def several(problems: dict[str, Domains]) -> Domains:
    """The first problem, with the source records of all.

    Each record keeps its domain. The other problems' target text, test and ceiling are not used.

    Args:
        problems: with the same target, by names that only tell them apart.

    Returns:
        Sources' names joined by ``+``. Its warnings count dev texts that another source trains on, and, once the final
        evaluation has opened the test, source texts that are in it.

    Raises:
        ValueError: there are none, or one has another target.
    """
    if not problems:
        raise ValueError("data.problems is empty: give problems with the same target, as conf/data/several.yaml shows")
    first, *others = problems.values()
    for name, problem in problems.items():
        if problem.target != first.target:
            raise ValueError(
                f"data.problems.{name}: its target is {problem.target!r}, the first problem's is {first.target!r}; "
                f"expected one target, whose text and test are the first problem's"
            )
    parts = [(p.source_train, p.source_dev, p.source_test) for p in problems.values()]
    prefixes = marks([(*train, *dev, *test) for train, dev, test in parts])
    train, dev, test = (joined(same, prefixes) for same in zip(*parts, strict=True))
    warnings = first.warnings  # the same counter: what the first problem reads later is counted in it
    for problem in others:
        warnings.update(problem.warnings)
    if twice := sum(_in_others(parts, place) for place in range(len(parts))):
        warnings[IN_TRAIN] += twice

    def opened(sealed: SealedTest) -> Records:
        records = sealed.open()
        tested = {identity(record.text) for record in records}
        if found := sum(identity(record.text) in tested for record in train):
            warnings[IN_TEST] += found
        return records

    def ceiling(load: Callable[[], Ceiling]) -> Ceiling:
        labelled = load()  # trains on no source, so its test need not be compared with any
        return labelled if labelled.test else labelled._replace(test=first.test)

    sealed, load = first.test, first.ceiling
    return replace(
        first,
        source="+".join(problem.source for problem in problems.values()),
        source_train=train,
        source_dev=dev,
        source_test=test,
        test=SealedTest(first.target, lambda: opened(sealed)) if sealed else None,
        ceiling=(lambda: ceiling(load)) if load else None,
    )


def marks(parts: Sequence[Records]) -> list[str]:
    """What to put before the ids of each part, so that no two parts share one: nothing if they don't anyway.

    >>> a, b = (Record("1", "camera", "Sharp."),), (Record("1", "laptop", "Fast."),)
    >>> marks([a, b]), marks([a, ()])
    (['1/', '2/'], ['', ''])
    """
    ids = Counter(name for part in parts for name in {record.id for record in part})
    shared = max(ids.values(), default=1) > 1
    return [f"{number}/" if shared else "" for number in range(1, len(parts) + 1)]


def joined(parts: Sequence[Records], prefixes: Sequence[str]) -> Records:
    """The parts' records one after the other, their ids with the part's prefix."""
    return tuple(
        replace(record, id=prefix + record.id) if prefix else record
        for part, prefix in zip(parts, prefixes, strict=True)
        for record in part
    )


def _in_others(parts: Sequence[tuple[Records, Records, Records]], place: int) -> int:
    trained = {identity(r.text) for i, (train, *_) in enumerate(parts) if i != place for r in train}
    return sum(identity(record.text) in trained for record in parts[place][1])


PATHS = ("path", "dev_path", "test_path", "train_path")


def shipped(source: str, target: str, root: str | None = None) -> Domains:
    """The corpora that travel with the package: folders of train, dev, test and unlabeled JSONL.

    Args:
        target: folder of the domain without labels.
        root: where the folders are; None for the package's own.
    """
    base = Path(root) if root else Path(str(files("domadapt.shipped")))
    warnings: Counter[str] = Counter()

    def part(domain: str, name: str, labelled: bool) -> tuple[Record, ...]:
        corpus = read(base / domain / f"{name}.jsonl", domain=domain, labelled=labelled)
        warnings.update(corpus.warnings)
        return corpus.records

    return Domains(
        source,
        target,
        part(source, "train", True),
        part(source, "dev", True),
        part(source, "test", True),
        TargetUnlabeled.from_records(target, part(target, "unlabeled", False)),
        SealedTest(target, lambda: part(target, "test", True)),
        lambda: Ceiling(part(target, "train", True), part(target, "dev", True)),
        warnings,
    )


def aspect_opinion(
    root: str | None,
    pair: str,
    split: int,
    dev_share: float,
    repeated: str,
    empty: str = "keep",
    lowercase: bool = False,
    folder: str = "aspect_opinion",
    dev_by: str = "text",
    source_texts: int | None = None,
) -> Domains:
    """Aspect and opinion terms over devices, laptops and restaurants (Pereg et al. 2020), without its leak.

    The published dev set is the first third of the target's labelled file; here dev is held out from the source.

    Args:
        pair: ``SOURCE_to_TARGET`` of device, laptops, restaurants.
        split: 1, 2 or 3.
        dev_share: share of the source's training sentences held out as dev.
        repeated: ``keep`` or ``drop`` unlabelled target sentences that also stand in the test set.
        empty: ``keep`` or ``drop`` labelled source sentences with neither aspect nor opinion. The target is left
            whole: to drop from it would take its labels.
        folder: the corpus's, in ``root``.
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.corpora.hold_out`; of the ceiling's dev, too.
        source_texts: how many of the source's sentences are labelled, dev included, drawn at random; None for all.

    Raises:
        ValueError: the folder is missing, or there is no such pair, split or choice, or too few sentences.
    """
    home = benchmark_folder(root, folder)
    splits = json.loads((home / "splits.json").read_text(encoding="utf-8"))
    name = f"{pair}_{split}"
    if name not in splits:
        known = sorted({key.rsplit("_", 1)[0] for key in splits})
        raise ValueError(f"data.pair={pair!r} data.split={split}: expected a pair of {known} and a split of 1, 2, 3")
    for setting, choice in (("repeated", repeated), ("empty", empty)):
        if choice not in ("keep", "drop"):
            raise ValueError(f"data.{setting}={choice!r}: expected keep or drop")
    check_switches(lowercase=lowercase)
    source, target = pair.split("_to_")
    ids = splits[name]
    warnings: Counter[str] = Counter()

    records = part_reader(home, warnings)

    def part(domain: str, wanted: Iterable[str], labelled: bool) -> tuple[Record, ...]:
        chosen = set(wanted)
        found = tuple(r for r in records(f"{domain}.jsonl", domain, labelled) if r.id in chosen)
        if absent := chosen - {r.id for r in found}:
            raise ValueError(
                f"{home / domain}.jsonl: lacks {len(absent)} of the {len(chosen)} records that splits.json names "
                f"for {name}, such as {min(absent)!r}; get the whole file again"
            )
        return tuple(map(lowercased, found)) if lowercase else found

    labelled = part(source, ids["source_train"], True)
    if empty == "drop":
        annotated = tuple(r for r in labelled if r.spans)
        warnings["source sentence with neither aspect nor opinion, dropped"] += len(labelled) - len(annotated)
        labelled = annotated
    if source_texts is not None:
        labelled = sources_drawn(labelled, source_texts, split)
    train, dev = hold_out(labelled, dev_share, split, dev_by, warnings)
    unlabeled = set(ids["target_unlabeled"])
    if repeated == "drop":
        unlabeled -= set(ids["target_unlabeled_text_also_in_test"])
    return Domains(
        source,
        target,
        train,
        dev,
        (),
        TargetUnlabeled.from_records(target, part(target, unlabeled, False)),
        SealedTest(target, lambda: part(target, ids["target_test"], True)),
        lambda: Ceiling(*hold_out(part(target, unlabeled, True), dev_share, split, dev_by, warnings)),
        warnings,
    )


def sentences(
    root: str | None,
    source: str,
    target: str,
    dev_share: float,
    folder: str = "camera_laptop_sentences",
    dev_by: str = "text",
) -> Domains:
    """Sentence polarity, cameras to laptops (`camera_laptop_sentences` of the benchmark folder)."""
    warnings: Counter[str] = Counter()
    part = part_reader(benchmark_folder(root, folder), warnings)
    train, dev = hold_out(part("camera.labeled.jsonl", source, True), dev_share, 1, dev_by, warnings)
    return Domains(
        source,
        target,
        train,
        dev,
        (),
        TargetUnlabeled.from_records(target, part("laptop.unlabeled.jsonl", target, False)),
        SealedTest(target, lambda: part("laptop.test_se14.jsonl", target, True)),
        lambda: Ceiling(*hold_out(part("laptop.labeled_train.jsonl", target, True), dev_share, 1, dev_by, warnings)),
        warnings,
    )


def my_files(
    source: dict[str, Any],
    target: dict[str, Any],
    dev_share: float,
    dev_by: str = "text",
    lowercase: bool = False,
    detokenise: bool = False,
) -> Domains:
    """A user's own files in any format that a reader knows.

    Args:
        source: ``name``, ``path`` (labelled), and where they exist ``dev_path`` and ``test_path``. ``path`` may be a
            list of files: each is a domain called as the file is, unless there is a name for them all; and a pattern,
            whose files are one domain. ``text``, ``label`` and ``id`` name the columns of tables and of JSON,
            ``format`` the reader of its files; None looks at each.
        target: ``name``, ``path`` (text; labels in it are not read), and where they exist ``test_path`` (labelled,
            for the final score) and ``train_path`` (labelled, for the in-domain ceiling). Its columns are called as the
            source's, unless it names its own.
        dev_share: share of the source held out as dev where there is no ``dev_path``.
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.corpora.hold_out`; of the ceiling's dev, too.
        detokenise: take away the spaces beside punctuation that tokenisers leave, in both domains.

    Raises:
        ValueError: a path that is needed is not given, or two source files would be one domain by their names.
    """
    check_switches(lowercase=lowercase, detokenise=detokenise)
    for name, group in (("source", source), ("target", target)):
        if not group.get("path"):
            raise ValueError(
                f"data.{name}.path is not set: give the {name}'s file, for example data.{name}.path=reviews.jsonl"
            )
        for key in PATHS:
            for path in _paths(group, key):
                if path.exists() and not path.is_file():
                    raise ValueError(
                        f"data.{name}.{key}={path}: is a folder or a pipe; expected a file, to read it again"
                    )
                if not path.is_file():  # before training, not after it
                    raise ValueError(f"data.{name}.{key}={path}: no such file")
    several = isinstance(source["path"], list) and len(_paths(source, "path")) > 1 and source.get("name") is None
    if several and (twice := [n for n, count in Counter(p.stem for p in _paths(source, "path")).items() if count > 1]):
        raise ValueError(
            f"data.source.path: two files are called {twice[0]}, and so would be their domains; rename one, or give "
            f"data.source.name for all of them"
        )
    warnings: Counter[str] = Counter()

    name, domain = side_name(source, "source"), side_name(target, "target")

    def part(group: dict[str, Any], key: str, labelled: bool) -> tuple[Record, ...]:
        known = name if group is source else domain
        parts = []
        for path in _paths(group, key):
            own = path.stem if several and key == "path" else known
            columns = _columns(source, target, group, key)
            corpus = read(path, domain=own, labelled=labelled, format=group.get("format"), columns=columns)
            warnings.update(corpus.warnings)
            records = tuple(map(detokenised, corpus.records)) if detokenise else corpus.records
            parts.append(tuple(map(lowercased, records)) if lowercase else records)
        return joined(parts, marks(parts))

    train, dev = part(source, "path", True), part(source, "dev_path", True)
    if not dev:
        train, dev = hold_out(train, dev_share, 1, dev_by, warnings)
    return Domains(
        name,
        domain,
        train,
        dev,
        part(source, "test_path", True),
        TargetUnlabeled.from_records(domain, part(target, "path", False)),
        SealedTest(domain, lambda: part(target, "test_path", True)) if target.get("test_path") else None,
        (lambda: Ceiling(*hold_out(part(target, "train_path", True), dev_share, 1, dev_by, warnings)))
        if target.get("train_path")
        else None,
        warnings,
    )


def _paths(group: dict[str, Any], key: str) -> list[Path]:
    value = group.get(key) or []
    given = value if isinstance(value, list) else [value]
    return [path for pattern in given for path in matching(str(pattern))]


def _columns(
    source: dict[str, Any], target: dict[str, Any], group: dict[str, Any], key: str
) -> dict[str, tuple[str, ...]]:
    """What a file's columns are called: as its side says, else as the source's, where it has such a column."""
    found: dict[str, tuple[str, ...]] = {}
    for name in OURS:
        own, others = group.get(name), source.get(name) if group is target else None
        if own:
            found[name] = (str(own),)
        elif others:
            found[name] = (str(others), name)
    return found


def benchmark_folder(root: str | None, name: str) -> Path:
    """Where the research corpora are; they can't be shipped.

    Raises:
        ValueError: the setting is missing or wrong; says how to get the corpora.
    """
    if not root:
        raise ValueError(
            f"data={name} needs research corpora that can't be shipped. Put them in a folder and set "
            f"DOMADAPT_BENCHMARK_DATA or data.root to it; the README says where their owners publish them"
        )
    folder = Path(root) / name
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; DOMADAPT_BENCHMARK_DATA (or data.root) must hold {name}/")
    return folder


def part_reader(folder: Path, warnings: Counter[str]) -> Callable[[str, str, bool], tuple[Record, ...]]:
    """A function that reads ``(file, domain, labelled)`` from a folder, once, and counts what is mended."""

    @cache
    def part(file: str, domain: str, labelled: bool) -> tuple[Record, ...]:
        corpus = read(folder / file, domain=domain, labelled=labelled)
        warnings.update(corpus.warnings)
        return corpus.records

    return part


def sources_drawn(records: tuple[Record, ...], count: int, seed: int) -> tuple[Record, ...]:
    """Some of the records, in their order; the same seed draws the same ones and more.

    Raises:
        ValueError: there are not so many.
    """
    if type(count) is not int or not 2 <= count <= len(records):
        raise ValueError(
            f"data.source_texts={count!r}: expected a whole number from 2 to {len(records)}, or null for all"
        )
    return tuple(records[i] for i in sorted(np.random.default_rng(seed).permutation(len(records))[:count]))


def check_switches(**settings: object) -> None:
    """Refuse what is neither true nor false: the text "no" would count as true.

    >>> check_switches(lowercase="no")
    Traceback (most recent call last):
    ValueError: data.lowercase='no': expected true or false
    """
    for name, value in settings.items():
        if not isinstance(value, bool):
            raise ValueError(f"data.{name}={value!r}: expected true or false")


def two_of(pair: str, domains: Sequence[str]) -> tuple[str, str]:
    """Source and target of ``SOURCE_to_TARGET``.

    Raises:
        ValueError: not two different ones of the domains.

    >>> two_of("books_to_dvd", ["books", "dvd", "kitchen"])
    ('books', 'dvd')
    """
    known = {f"{source}_to_{target}": (source, target) for source in domains for target in domains if source != target}
    if pair not in known:
        raise ValueError(f"data.pair={pair!r}: expected SOURCE_to_TARGET of two of {', '.join(domains)}")
    return known[pair]


MEMD = ("books", "clothing", "hotel", "laptop", "restaurant")
CROSS_NER = ("conll2003", "politics", "science")


def memd(root: str | None, pair: str, folder: str = "memd") -> Domains:
    """Aspect and opinion terms over five domains, annotated by one team (Cai et al. 2023, MEMD-ABSA).

    Train, dev and test of each domain are as published. The target's train sentences, without their tags, are the
    unlabelled text; the in-domain ceiling trains on them and chooses by the target's dev.

    Args:
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
        pair: ``SOURCE_to_TARGET`` of conll2003, politics, science.
        dev_share: share of the target's train and dev that the ceiling holds out as its dev.
        folder: the corpus's, in ``root``.
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.corpora.hold_out`; of the ceiling's dev.

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
