"""Functions that make :class:`~domadapt.data.domains.Domains` from files: one for each `conf/data/*.yaml`."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from domadapt.config.resolvers import side_name
from domadapt.data.columns import OURS
from domadapt.data.detokenise import detokenised
from domadapt.data.domains import Ceiling, Domains, SealedTest, TargetUnlabeled
from domadapt.data.hold_out import hold_out
from domadapt.data.lowercase import lowercased
from domadapt.data.readers import read
from domadapt.data.records import Record
from domadapt.data.several import joined, marks
from domadapt.utils.files import matching

PATHS = ("path", "dev_path", "test_path", "train_path")


def shipped(source: str, target: str, root: str | None = None) -> Domains:
    """The corpora that travel with the package: folders of train, dev, test and unlabeled JSONL.

    Args:
        source: folder of the labelled domain.
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
        root: the benchmark folder.
        pair: ``SOURCE_to_TARGET`` of device, laptops, restaurants.
        split: 1, 2 or 3.
        dev_share: share of the source's training sentences held out as dev.
        repeated: ``keep`` or ``drop`` unlabelled target sentences that also stand in the test set.
        empty: ``keep`` or ``drop`` labelled source sentences with neither aspect nor opinion. The target is left
            whole: to drop from it would take its labels.
        lowercase: lower-case all text of both domains.
        folder: the corpus's, in ``root``.
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.hold_out.hold_out`; of the ceiling's dev, too.
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
        labelled = drawn(labelled, source_texts, split)
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
        dev_by: ``text`` or ``record``, see :func:`~domadapt.data.hold_out.hold_out`; of the ceiling's dev, too.
        lowercase: lower-case all text of both domains.
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


def drawn(records: tuple[Record, ...], count: int, seed: int) -> tuple[Record, ...]:
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
