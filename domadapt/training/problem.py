"""What a run is to solve: its corpora read, and its task told of them, before torch is loaded."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import combinations
from typing import Any

from hydra.utils import get_method
from omegaconf import OmegaConf

from domadapt.config.compose import make, to_builtin
from domadapt.config.resolvers import AUTO
from domadapt.data.domains import Domains, SealedTest
from domadapt.data.records import Record, labels_as_none, learnt, quoted
from domadapt.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be solved, before anybody says how."""

    domains: Domains  # without sealed test and ceiling
    task: Task  # with the classes of the source
    task_config: dict[str, Any]
    sealed: SealedTest | None  # the target test, for the final evaluation alone; None without target labels


def read_problem(cfg: Mapping[str, Any]) -> Problem:
    """Read the corpora of a composed ``train.yaml``, and tell the task of them."""
    values = to_builtin(cfg)
    domains: Domains = make(values["data"])
    if domains.target in {domains.source, *domains.source.split("+"), *(r.domain for r in domains.source_train)}:
        fix = "a source is another domain: leave it out, or name it anew; train_on=target trains on the target's labels"
        raise ValueError(f"data: the target, {domains.target!r}, is among the labelled sources; {fix}")
    if values["train_on"] == "target":
        domains = domains.in_domain()
    task_config = values["task"]
    if task_config.get("_target_") == AUTO:  # by its name, so that keys of other runs do not reach both tasks' code
        name = get_method(AUTO)([*domains.source_train, *domains.source_dev])
        task_config = dict(OmegaConf.load(str(files("domadapt.conf") / "task" / f"{name}.yaml")))
    task: Task = make(task_config)
    if target_labels := values["target_labels"]:
        if values["train_on"] == "target":
            raise ValueError(f"target_labels={target_labels}: train_on=target trains on all of them; leave one out")
        how = values["target_label_share"], values["seed"], task.field
        domains = domains.with_target_labels(target_labels, *how)
    elif unread := unread_labels(values):
        domains.warnings[unread] += 1
    sealed = domains.test
    names = ("source_train", "source_dev", "source_test")
    usable: dict[str, Any] = {name: task.usable(getattr(domains, name), domains.warnings) for name in names}
    domains = replace(domains, **usable, test=None, ceiling=None)
    try:
        task.learn_labels([*domains.source_train, *domains.source_dev])
    except ValueError as error:
        raise ValueError(f"{error}{labels_as_none(domains.warnings)}") from None
    records = [learnt(record, task.kind) for record in domains.source_train]
    domains.warnings.update([*unlike_sources(records), *rare_labels(records)])
    task.check([*domains.source_train, *domains.source_dev, *domains.source_test])
    texts, in_python = (t.text for t in domains.unlabelled.texts), ", in Python as ((text, other), None)"
    task.check_texts(texts, f"the target, {domains.target}", in_python)
    if sealed is not None:  # what is wrong with it is told before training, not after it
        judge = deepcopy(task)  # which is thrown away with all that it has seen
        sealed.check(lambda records: judge.check(judge.usable(records, Counter())))
    elif values["selection"].get("name") == "oracle":
        raise ValueError("selection=oracle: there are no target labels to choose by; take another validator")
    return Problem(domains, task, task_config, sealed)


def unread_labels(values: Mapping[str, Any]) -> str:
    """What to tell of a target's training file that this run does not learn from; nothing in a benchmark, whose
    ceiling does.

    >>> files = {"target": {"train_path": "labelled.csv"}}
    >>> unread_labels({"data": files, "train_on": "source"})
    'data.target.train_path is not read without target_labels=all, or train_on=target'
    """
    target = values["data"].get("target")  # a name, of the shipped corpora
    given = target.get("train_path") if isinstance(target, Mapping) else None
    if not given or values["train_on"] == "target" or values.get("benchmark"):
        return ""
    return "data.target.train_path is not read without target_labels=all, or train_on=target"


def unlike_sources(records: Iterable[Record]) -> Iterator[str]:
    """What to tell of two sources that have no label, or type of spans, in common.

    >>> list(unlike_sources([Record("1", "bikes", "Fast.", label="pos"), Record("2", "pans", "Hot.", label="good")]))
    ['bikes (pos) and pans (good) have no label in common: give the same name to what is the same']
    """
    names = defaultdict[str, set[str]](set)
    for record in records:
        labels = [record.label] if record.label is not None else [span.type for span in record.spans or ()]
        names[record.domain].update(labels)
    for two in combinations(sorted(name for name in names if names[name]), 2):
        if names[two[0]].isdisjoint(names[two[1]]):
            sources = " and ".join(f"{source} ({', '.join(sorted(names[source]))})" for source in two)
            yield f"{sources} have no label in common: give the same name to what is the same"


def rare_labels(records: Iterable[Record]) -> Iterator[str]:
    """What to tell of labels that hardly any text has.

    >>> texts = [Record(str(i), "bikes", "Fast.", label="neg" if i else "pos") for i in range(30)]
    >>> list(rare_labels(texts))
    ["one text alone is labelled 'pos': that can't be learnt; label more, or leave it out"]
    >>> list(rare_labels(replace(text, label=text.id) for text in texts))
    ['30 texts have 30 labels: if these are no classes, name the column that holds them: source.label=COLUMN']
    """
    counts = Counter(record.label for record in records if record.label is not None)
    alone = [label for label, count in counts.items() if count == 1]
    if len(counts) > max(10, sum(counts.values()) / 5):
        column = "if these are no classes, name the column that holds them: source.label=COLUMN"
        yield f"{sum(counts.values())} texts have {len(counts)} labels: {column}"
    elif alone:
        which = f"{', '.join(map(quoted, alone[:3]))}{' and others' * (len(alone) > 3)}"
        yield f"one text alone is labelled {which}: that can't be learnt; label more, or leave it out"
