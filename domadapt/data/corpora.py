"""Corpora: the shipped ones, research corpora in their folders, a user's own files."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from domadapt.config.overrides import in_range, one_of
from domadapt.config.resolvers import side_name
from domadapt.data.domains import Ceiling, Domains, SealedTest, TargetUnlabelled
from domadapt.data.files import OURS, Columns
from domadapt.data.readers import read
from domadapt.data.records import DataError, Location, Record, Unquoted, labels_as_none
from domadapt.data.texts import copy_key, detokenised, hold_out, lowercased, sampled
from domadapt.utils import files

Records = tuple[Record, ...]
IN_TEST = "source text that is in the target's test too, kept"
IN_TRAIN = "dev text of one source that another source trains on, kept"
UNLABELLED_SOURCE = (
    "if the target has the labels, swap the two (source first); or name the column of labels, such as "
    "source.label=sentiment, or write spans as JSON Lines, or as rows of a table with columns start, end, type"
)
FILES = {"source": ("path", "dev_path", "test_path"), "target": ("path", "test_path", "train_path")}
TYPES = {"ASP": "aspect", "OP": "opinion"}  # in published corpora; a user's own files keep their names


class Layout(NamedTuple):
    """Which parts of a corpus are what; a part is a file, ``DOMAIN.PART.jsonl``. A dev of None is held out of train."""

    domains: tuple[str, ...] = ()  #: any two of them are a problem
    train: str = "train"
    dev: str | None = None
    test: str | None = "test"
    texts: tuple[str, ...] = ("train",)  #: the target's text, read without labels
    target_test: str = "test"  #: the target's test
    ceiling: tuple[str, ...] = ("train",)
    ceiling_dev: str | None = None


_PARTS, _AMAZON = ("train", "dev"), ("books", "dvd", "electronics", "kitchen")
LAYOUTS = {
    "shipped": Layout(dev="dev", texts=("unlabeled",), ceiling_dev="dev"),
    "memd": Layout(("books", "clothing", "hotel", "laptop", "restaurant"), dev="dev", ceiling_dev="dev"),
    "cross_ner": Layout(("conll2003", "politics", "science"), dev="dev", texts=_PARTS, ceiling=_PARTS),
    "xabsa": Layout(("en", "es", "fr", "nl", "ru", "tr"), dev="dev", ceiling_dev="dev"),
    "nli_genres": Layout(("fiction", "government", "slate", "telephone", "travel"), test=None),
    "joint_absa": Layout(("device", "laptop", "rest")),
    "sentences": Layout((), "labeled", None, None, ("unlabeled",), "test_se14", ("labeled_train",)),
    "amazon_reviews": Layout(_AMAZON, "labeled", None, None, ("unlabeled_substitute",), "labeled", ("labeled",)),
    "amazon_reviews_fdu": Layout(("camera_photo", "electronics", "software"), texts=("unlabeled",)),
}


@dataclass
class Folder:
    """A corpus in files, each read once; ``warnings`` counts what was mended.

    Dev is held out as by :func:`~domadapt.data.texts.hold_out`; ``columns`` are not called as usual (of text, in
    labelled files alone). ``name`` is a file's, by domain and part, without the ``prefix`` of domains' names.
    """

    home: Path
    dev_share: float = 0
    dev_by: str = "text"
    changes: Sequence[Callable[[Record], Record]] = ()
    columns: Columns = field(default_factory=dict)
    name: str = "{}.{}.jsonl"
    prefix: str = ""
    warnings: Counter[str] = field(default_factory=Counter, init=False)
    _read: dict[tuple[str, str, bool], Records] = field(default_factory=dict, init=False)

    def part(self, domain: str, *names: str, labelled: bool = True) -> Records:
        """Records of a domain's parts, one after the other."""
        for name in names:
            if (domain, name, labelled) not in self._read:
                path = self.home / self.name.format(domain.removeprefix(self.prefix), name)
                columns = self.columns if labelled or "text" not in self.columns else None
                corpus = read(path, domain=domain, labelled=labelled, columns=columns)
                self.warnings.update(corpus.warnings)
                self._read[domain, name, labelled] = changed(corpus.records, [rename_types, *self.changes])
        return tuple(record for name in names for record in self._read[domain, name, labelled])

    def held_out(self, records: Records, seed: int = 1) -> tuple[Records, Records]:
        """The rest, and the dev part."""
        return hold_out(records, self.dev_share, seed, self.dev_by, self.warnings)

    def problem(self, source: str, target: str, layout: Layout) -> Domains:
        part = self.part

        def split(domain: str, train: Sequence[str], dev: str | None) -> tuple[Records, Records]:
            records = part(domain, *train)
            return (records, part(domain, dev)) if dev else self.held_out(records)

        return Domains(
            source,
            target,
            *split(source, [layout.train], layout.dev),
            part(source, layout.test) if layout.test else (),
            TargetUnlabelled.from_records(target, part(target, *layout.texts, labelled=False)),
            SealedTest(target, lambda: part(target, layout.target_test)),
            lambda: Ceiling(*split(target, layout.ceiling, layout.ceiling_dev)),
            self.warnings,
        )


def changed(records: Records, changes: Iterable[Callable[[Record], Record]]) -> Records:
    for change in changes:
        records = tuple(map(change, records))
    return records


def rename_types(record: Record, types: Mapping[str, str] = TYPES, otherwise: str | None = None) -> Record:
    """The same record with other names of its spans' types; those that are not given become ``otherwise``, or stay."""
    if not record.spans:
        return record
    return replace(record, spans=tuple(replace(s, type=types.get(s.type, otherwise or s.type)) for s in record.spans))


def shipped(source: str, target: str, root: str | None = None) -> Domains:
    """The corpora that travel with the package, or lie in ``root``: folders of train, dev, test and unlabeled JSONL."""
    folder = Folder(Path(root) if root else files.shipped(), name="{}/{}.jsonl")
    return folder.problem(source, target, LAYOUTS["shipped"])


# Research corpora: `root` is the folder that holds them, `folder` the corpus's own in it, `pair` SOURCE_to_TARGET.
# `dev_share` is held out as dev, by text or by record (`dev_by`), of the ceiling's records, too. All raise ValueError
# where the folder is missing, or where there is no such pair or choice. `more` is of `research`.


def research(
    name: str, root: str | None, pair: str, dev_share: float = 0.1, dev_by: str = "text", folder: str = "", **more: Any
) -> Domains:
    """The problem of two domains of a corpus that :data:`LAYOUTS` names; ``more`` is of :class:`Folder`."""
    layout = LAYOUTS[name]
    source, target = split_pair(pair, layout.domains)
    corpus = Folder(benchmark_folder(root, folder or name), dev_share, dev_by, **more)
    return corpus.problem(corpus.prefix + source, corpus.prefix + target, layout)


# Aspect and opinion terms over five domains, annotated by one team (Cai et al. 2023, MEMD-ABSA). The target's train
# sentences, without their tags, are the unlabelled text; the in-domain ceiling trains on them.
memd = partial(research, "memd")
# Names of persons, organisations and places: news, politics, science (Liu et al. 2021, CrossNER). Politics and science
# have 200 training sentences and more in dev: both together are the target's text, and what the ceiling learns from.
cross_ner = partial(research, "cross_ner")
# Pairs of texts, premise and hypothesis, of five genres, with three labels (MultiNLI, Williams et al. 2018).
nli_genres = partial(research, "nli_genres")


def xabsa(root: str | None, pair: str, tags: str = "terms", folder: str = "xabsa") -> Domains:
    """Aspect terms of restaurant reviews in six languages, one guideline (SemEval-2016; Zhang et al. 2021, XABSA).

    Train, dev and test are as published; the target's dev chooses for the in-domain ceiling alone. With ``tags=terms``
    every span is an ``aspect``, with ``with_polarity`` POS, NEG or NEU.
    """
    one_of("data.tags", tags, "terms", "with_polarity")
    columns: Columns = {"tags": ("tags" if tags == "terms" else "tags_with_polarity",)}
    return research("xabsa", root, pair, folder=folder, columns=columns, prefix="restaurants_")


def joint_absa(root: str | None, pair: str, terms_only: bool, lowercase: bool = False, **more: Any) -> Domains:
    """Aspect terms with their polarity in one tag: devices, laptops, restaurants (Gong, Yu and Xia 2020, BERT-UDA).

    Train and test are as published. The target's train sentences, without their tags, are the unlabelled text; dev is
    held out from the source's. Spans are POS, NEG and NEU; devices have no NEU. With ``terms_only`` every span is an
    ``aspect``, whatever its polarity: aspect extraction (AE).
    """
    one_of("data.terms_only", terms_only, True, False)  # the text "no" would count as true
    one_of("data.lowercase", lowercase, True, False)
    changes = [*[partial(rename_types, types={}, otherwise="aspect")] * terms_only, *[lowercased] * lowercase]
    return research("joint_absa", root, pair, changes=changes, **more)


def sentences(
    root: str | None, source: str, target: str, folder: str = "camera_laptop_sentences", **more: Any
) -> Domains:
    """Sentence polarity, cameras to laptops (`camera_laptop_sentences` of the benchmark folder)."""
    return Folder(benchmark_folder(root, folder), **more).problem(source, target, LAYOUTS["sentences"])


def amazon_reviews(
    root: str | None, pair: str, ceiling_share: float, test: str, folder: str = "amazon_reviews", **more: Any
) -> Domains:
    """Multi-domain sentiment (Blitzer, Dredze and Pereira 2007): 1000 positive and 1000 negative reviews a domain.

    The published test is all of the target's labelled reviews, which leaves the in-domain ceiling none to learn from.
    So the ceiling, and no other run, is tested on a random ``ceiling_share`` and trained on the rest; ``test=ceiling``
    tests every run on that share, for a gap between like and like, in place of ``all``.
    """
    layout = LAYOUTS["amazon_reviews"]
    source, target = split_pair(pair, layout.domains)
    one_of("data.test", test, "all", "ceiling")
    if not 0 < ceiling_share < 1:
        raise ValueError(f"data.ceiling_share={ceiling_share}: expected a share between 0 and 1, both excluded")
    corpus = Folder(benchmark_folder(root, folder), **more)

    def parts() -> tuple[Records, Records]:
        return hold_out(corpus.part(target, "labeled"), ceiling_share, 1, "record")

    def sealed() -> SealedTest:
        return SealedTest(target, lambda: parts()[1])

    problem = corpus.problem(source, target, layout)
    domains = replace(problem, ceiling=lambda: Ceiling(*corpus.held_out(parts()[0]), sealed()))
    return domains if test == "all" else replace(domains, test=sealed())


def amazon_reviews_fdu(root: str | None, pair: str, lowercase: bool, **more: Any) -> Domains:
    """Multi-domain sentiment (Liu, Qiu and Huang 2017): three product groups with a test each.

    Its labelled text was published tokenised and lower-cased, its unlabelled text as written: a model could tell the
    two by their spaces and capitals. So ``text_detok`` is read, and the unlabelled text is lower-cased, too.
    """
    one_of("data.lowercase", lowercase, True, False)
    changes = [lambda record: lowercased(record) if lowercase and record.label is None else record]
    columns: Columns = {"text": ("text_detok",)}
    return research("amazon_reviews_fdu", root, pair, columns=columns, changes=changes, **more)


def aspect_opinion(
    root: str | None,
    pair: str,
    split: int,
    repeated: str,
    empty: str = "keep",
    lowercase: bool = False,
    folder: str = "aspect_opinion",
    source_texts: int | None = None,
    **more: Any,
) -> Domains:
    """Aspect and opinion terms over devices, laptops and restaurants (Pereg et al. 2020), without its leak.

    The published dev set is the first third of the target's labelled file; here dev is held out from the source.
    ``conf/data/aspect_opinion.yaml`` says what the settings are.
    """
    one_of("data.repeated", repeated, "keep", "drop")
    one_of("data.empty", empty, "keep", "drop")
    one_of("data.lowercase", lowercase, True, False)
    home, name = benchmark_folder(root, folder), f"{pair}_{split}"
    splits = json.loads((home / "splits.json").read_text(encoding="utf-8"))
    if (ids := splits.get(name)) is None:
        known = sorted({key.rsplit("_", 1)[0] for key in splits})
        raise ValueError(f"data.pair={pair!r} data.split={split}: expected a pair of {known} and a split of 1, 2, 3")
    source, target = pair.split("_to_")
    corpus = Folder(home, changes=[lowercased] * lowercase, name="{}{}.jsonl", **more)

    def part(domain: str, wanted: Iterable[str], labelled: bool = True) -> Records:
        chosen = set(wanted)
        records = tuple(r for r in corpus.part(domain, "", labelled=labelled) if r.id in chosen)
        if absent := chosen - {r.id for r in records}:
            which = f"{len(absent)} of the {len(chosen)} records that splits.json names for {name}"
            raise ValueError(f"{home / domain}.jsonl: lacks {which}, such as {min(absent)!r}; get the whole file again")
        return records

    labelled = part(source, ids["source_train"])
    if empty == "drop":
        annotated = tuple(r for r in labelled if r.spans)
        corpus.warnings["source sentence with neither aspect nor opinion, dropped"] += len(labelled) - len(annotated)
        labelled = annotated
    if source_texts is not None:
        in_range("data.source_texts", source_texts, 2, len(labelled), ", or null for all", whole=True)
        labelled = tuple(sampled(labelled, source_texts, split))
    unlabelled = set(ids["target_unlabeled"])
    if repeated == "drop":
        unlabelled -= set(ids["target_unlabeled_text_also_in_test"])
    return Domains(
        source,
        target,
        *corpus.held_out(labelled, split),
        (),
        TargetUnlabelled.from_records(target, part(target, unlabelled, False)),
        SealedTest(target, lambda: part(target, ids["target_test"])),
        lambda: Ceiling(*corpus.held_out(part(target, unlabelled), split)),
        corpus.warnings,
    )


def benchmark_folder(root: str | None, name: str) -> Path:
    """Where the research corpora are, which can't be shipped."""
    if not root:
        fix = "Put them in a folder and set DOMADAPT_BENCHMARK_DATA or data.root to it"
        where = "the README says where their owners publish them"
        raise ValueError(f"data={name} needs research corpora that can't be shipped. {fix}; {where}")
    folder = Path(root) / name
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; DOMADAPT_BENCHMARK_DATA (or data.root) must hold {name}/")
    return folder


def split_pair(pair: str, domains: Sequence[str]) -> tuple[str, str]:
    """Source and target of ``SOURCE_to_TARGET``, two of the domains."""
    known = {f"{source}_to_{target}": (source, target) for source in domains for target in domains if source != target}
    if pair not in known:
        raise ValueError(f"data.pair={pair!r}: expected SOURCE_to_TARGET of two of {', '.join(domains)}")
    return known[pair]


def my_files(
    source: dict[str, Any],
    target: dict[str, Any],
    dev_share: float,
    dev_by: str = "text",
    lowercase: bool = False,
    detokenise: bool = False,
) -> Domains:
    """A user's own files in any format that a reader knows; ``conf/data/my_files.yaml`` says what the settings are."""
    one_of("data.lowercase", lowercase, True, False)
    one_of("data.detokenise", detokenise, True, False)
    _check_paths("source", source)
    _check_paths("target", target)
    names = Counter(path.stem for path in _paths(source, "path"))
    several = isinstance(source["path"], list) and names.total() > 1 and source.get("name") is None
    if several and (twice := [name for name, count in names.items() if count > 1]):
        clash = f"two files are called {twice[0]}, and so would be their domains"
        raise ValueError(f"data.source.path: {clash}; rename one, or set data.source.name")
    warnings: Counter[str] = Counter()
    learnt = {path.resolve() for key in ("path", "dev_path") for path in _paths(source, key)}
    for path in learnt & {path.resolve() for path in _paths(target, "test_path")}:
        warnings[f"data.target.test_path: {path.name} is a file of the source, so that its texts were learnt from"] += 1
    name, domain = side_name(source, "source"), side_name(target, "target")
    changes = [*[detokenised] * detokenise, *[lowercased] * lowercase]

    def part(group: dict[str, Any], key: str, labelled: bool = True) -> Records:
        parts = []
        for path in _paths(group, key):
            domain_name = domain if group is target else path.stem if several and key == "path" else name
            columns = _columns(source, target, group)
            if group is target:  # raw text need not have the test's label, nor labelled files the raw text's columns
                columns = {k: (*named, k) if (k == "label") != labelled else named for k, named in columns.items()}
            corpus = read(path, domain=domain_name, labelled=labelled, format=group.get("format"), columns=columns)
            warnings.update(corpus.warnings)
            parts.append(changed(corpus.records, changes))
        return joined(parts, prefixes(parts))

    def held_out(records: Records) -> tuple[Records, Records]:
        return hold_out(records, dev_share, 1, dev_by, warnings)

    train, dev = part(source, "path"), part(source, "dev_path")
    if all(record.label is None and record.spans is None for record in train):
        missing = Unquoted(f"missing in every record{labels_as_none(warnings)}")
        where = Location(_paths(source, "path")[0])
        raise DataError(where, "label", missing, "a label, or spans, of each", UNLABELLED_SOURCE)
    if not dev:
        train, dev = held_out(train)
        labelled = [record.label is not None or record.spans is not None for record in (*dev, *train)]
        if not any(labelled[: len(dev)]):
            none = f"{sum(labelled)} of {len(labelled)} texts of {name} are labelled, and none of {len(dev)} that are"
            raise ValueError(f"{none} held out as dev; drop those without labels, or give data.source.dev_path")
    return Domains(
        name,
        domain,
        train,
        dev,
        part(source, "test_path"),
        TargetUnlabelled.from_records(domain, part(target, "path", False)),
        SealedTest(domain, lambda: part(target, "test_path")) if target.get("test_path") else None,
        (lambda: Ceiling(*held_out(part(target, "train_path")), None, True)) if target.get("train_path") else None,
        warnings,
    )


def _check_paths(side: str, group: dict[str, Any]) -> None:
    if not isinstance(group, dict) or not group.get("path"):
        raise ValueError(f"data.{side}.path is not set: give the {side}'s file, as data.{side}.path=reviews.jsonl")
    settings = ("name", *FILES[side], "format", *OURS)
    if unknown := sorted(group.keys() - {*settings}):  # misspelt in a yaml of the user's own
        raise ValueError(f"data.{side}.{unknown[0]}: there is no such setting; expected some of {', '.join(settings)}")
    for key, path in [(name, path) for name in FILES[side] for path in _paths(group, name)]:
        if not path.is_file():
            problem = "is a folder or a pipe; expected a file, to read it again" if path.exists() else "no such file"
            raise ValueError(f"data.{side}.{key}={path}: {problem}")
    labelled = FILES[side][side == "target" :]  # the target's raw text may be that of its test
    known: dict[Path, str] = {}
    for key, path in [(name, path.resolve()) for name in labelled for path in _paths(group, name)]:
        if known.setdefault(path, key) != key:
            both = f"is data.{side}.{known[path]}, too, so that a score would be of texts that were learnt from"
            raise ValueError(f"data.{side}.{key}={path.name} {both}; give another file, or none")


def _paths(group: dict[str, Any], key: str) -> list[Path]:
    value = group.get(key) or []
    given = value if isinstance(value, list) else [value]
    return [path for pattern in given for path in files.matching(str(pattern))]


def _columns(source: dict[str, Any], target: dict[str, Any], group: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """What a file's columns are called: as its side says, else as the source's, where it has such a column."""
    columns: dict[str, tuple[str, ...]] = {}
    for name in OURS:
        if isinstance(group.get(name), list):
            side = "target" if group is target else "source"
            fix = f"expected one column; the second of a pair is {side}.text_pair="
            raise ValueError(f"{side}.{name}={group[name]}: {fix}")
        if group.get(name) not in (None, ""):  # 0 is a column of a DataFrame without names
            columns[name] = (str(group[name]),)
        elif group is target and source.get(name) not in (None, ""):
            columns[name] = (str(source[name]), name)
    return columns


def several(problems: dict[str, Domains]) -> Domains:
    """The first problem, with the source records of all: of the others only these are used. All have one target.

    Sources' names are joined by ``+``. Warnings count dev texts that another source trains on and, once the final
    evaluation has opened the test, source texts that are in it.
    """
    if not problems:
        raise ValueError("data.problems is empty: give problems with the same target, as conf/data/several.yaml shows")
    first, *others = problems.values()
    for name, problem in problems.items():
        if problem.target != first.target:
            targets = f"its target is {problem.target!r}, the first problem's is {first.target!r}"
            expected = "expected one target, whose text and test are the first problem's"
            raise ValueError(f"data.problems.{name}: {targets}; {expected}")
    parts = [(p.source_train, p.source_dev, p.source_test) for p in problems.values()]
    id_prefixes = prefixes([(*train, *dev, *test) for train, dev, test in parts])
    train, dev, test = (joined(same, id_prefixes) for same in zip(*parts, strict=True))
    warnings = first.warnings  # the same counter: what the first problem reads later is counted in it
    for problem in others:
        warnings.update(problem.warnings)
    texts = [{copy_key(record.text) for record in train} for train, *_ in parts]
    for place, (_, held_out, _) in enumerate(parts):
        trained = set[str]().union(*texts[:place], *texts[place + 1 :])
        if twice := sum(copy_key(record.text) in trained for record in held_out):
            warnings[IN_TRAIN] += twice

    def open_test(sealed: SealedTest) -> Records:
        records = sealed.open()
        tested = {copy_key(record.text) for record in records}
        if twice := sum(copy_key(record.text) in tested for record in train):
            warnings[IN_TEST] += twice
        return records

    def ceiling(load: Callable[[], Ceiling]) -> Ceiling:
        labelled = load()
        return labelled._replace(test=labelled.test or first.test)  # trains on no source: not compared with any

    sealed, load = first.test, first.ceiling
    return replace(
        first,
        source="+".join(problem.source for problem in problems.values()),
        source_train=train,
        source_dev=dev,
        source_test=test,
        test=SealedTest(first.target, lambda: open_test(sealed)) if sealed else None,
        ceiling=(lambda: ceiling(load)) if load else None,
    )


def prefixes(parts: Sequence[Records]) -> list[str]:
    """What to put before the ids of each part, so that no two parts share one: nothing if they don't anyway."""
    ids = Counter(name for part in parts for name in {record.id for record in part})
    shared = max(ids.values(), default=1) > 1
    return [f"{number}/" if shared else "" for number in range(1, len(parts) + 1)]


def joined(parts: Sequence[Records], id_prefixes: Sequence[str]) -> Records:
    """The parts' records one after the other, their ids with the part's prefix."""
    prefixed = [(record, prefix) for part, prefix in zip(parts, id_prefixes, strict=True) for record in part]
    return tuple(replace(record, id=prefix + record.id) if prefix else record for record, prefix in prefixed)
