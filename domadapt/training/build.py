"""From a configuration, a composed ``train.yaml``, to a session; past this file travels no composed configuration."""

import filecmp
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf, open_dict

from domadapt.config.compose import make, not_set, to_builtin
from domadapt.data.batches import Collator
from domadapt.data.domains import Domains, SealedTest
from domadapt.data.readers import read
from domadapt.data.records import Record
from domadapt.inference.description import refuse_unlike
from domadapt.inference.model import SavedRuns, is_lowercased, label_leak
from domadapt.methods.adaptation.external_labels import shift_spans
from domadapt.methods.method import TREES, Method, make_methods
from domadapt.methods.rule_baseline import PathRules
from domadapt.methods.session import MOST_READ, Corpora, Session
from domadapt.models.pretrained import MINILM
from domadapt.runs.key import cell_key, files_named, folder_of, run_folder
from domadapt.runs.metrics import Truncation
from domadapt.selection.validators import NAMES, Validator
from domadapt.syntax.controls import controlled, make_parser
from domadapt.syntax.parser import Parser, foreign_warning, not_english
from domadapt.syntax.trees import relation_vocabulary
from domadapt.tasks.task import Task
from domadapt.training.distributed import check_devices
from domadapt.training.options import RunConfig, read_options
from domadapt.training.problem import Problem, read_problem
from domadapt.utils.runtime import kind_of_hardware, pick_device, pick_precision
from domadapt.utils.text import nested_values

log = logging.getLogger(__name__)
LABEL_FILES = ("test_path", "train_path", "dev_path")  # of a side: files of labels
ALL_RIGHT = {"token": 20, "sequence": 100}  # texts on which no estimate is right each time, by the task's kind
MUCH_CUT = 0.1  # share of texts that are cut off, from which on it is told at once; of fewer metrics.json tells


def run_config(cfg: Any) -> RunConfig:
    """A composed ``train.yaml`` as a run that is asked for."""
    config = RunConfig(to_builtin(cfg), read_options(cfg), cell_key(cfg), run_folder(cfg), cfg)
    parts = (part for part in nested_values(config.values) if isinstance(part, dict))
    for name, value in (item for part in parts for item in part.items()):
        if isinstance(value, float) and not isfinite(value):  # which would be told only when the model is saved
            raise ValueError(f"{name}={value}: the files of a run hold no such number; set a finite one, or null")
    return config


def source_only(cfg: DictConfig) -> RunConfig | None:
    """The run on the source alone that this one learns from; None where no method reads it."""
    methods = make_methods(cfg).values()
    if methods and str(cfg.backbone.get("_target_")).endswith("BiLSTM"):  # told before another network is trained
        raise ValueError("backbone=rnn_from_scratch takes no injection and no adaptation: it is a baseline")
    if not any("source_only" in method.reads for method in methods):
        return None
    made = cfg.copy()
    with open_dict(made):
        made.injection = made.adaptation = made.control = {}
        made.trainer.extra_epochs = 0
        made.method = "${method_name:${train_on},${backbone},${injection},${adaptation},${control},${target_labels}}"
        made.selection = OmegaConf.load(str(files("domadapt.conf") / "selection" / "source_dev.yaml"))
        if cfg.paths.run:
            made.paths.run = str(run_folder(cfg) / "source_only")
    return run_config(made)


def build(cfg: DictConfig) -> tuple[Session, SealedTest | None]:
    """Read corpora, parse, tokenise, make encoder and methods; what training works with, and apart the sealed test."""
    options = read_options(cfg)
    device = pick_device(options.device)
    kind = kind_of_hardware(options.device, options.precision)
    if options.hardware not in (None, kind):
        raise ValueError(f"trainer.hardware={options.hardware!r}: expected null or what this machine is, {kind!r}")
    check_devices(options, device)
    problem = read_problem(cfg)
    domains, task, sealed = problem.domains, problem.task, problem.sealed
    methods = make_methods(cfg)
    refuse_gold(cfg, problem)
    name = str(cfg.backbone.get("name"))
    refuse_unlike(name, task.kind, task.names, is_lowercased(cfg.data), cfg.max_length)
    if reason := label_leak(Path(name), domains):
        if sealed is not None:
            fix = "start from another, or leave out the target's test"
            raise ValueError(f"model={name}: {reason}; its score would not be of an unlabelled target: {fix}")
        domains.warnings[f"the model that it goes on from: {reason}"] += 1
    encoder: Any = make(cfg.backbone, kind=task.kind, labels=task.labels)
    _refuse_misfits(cfg, encoder, methods)
    source_run = source_only(cfg)
    cache = folder_of(cfg, "cache")
    cached, made = make_parser(cfg.parser, domains, cache), make_parser(cfg.parser, domains)
    refuse_foreign_trees(tree_readers(methods, task), domains, made.name)
    if cfg.backbone.get("name") == MINILM and (
        share := not_english(t.text for t in domains.unlabelled.texts[: MOST_READ["sequence"]])
    ):
        log.warning("%s: %s, and minilm reads English alone; take backbone=multilingual", domains.target, share)
    session = Session(
        domains=domains,
        task=task,
        task_config=problem.task_config,
        encoder=encoder,
        methods=methods,
        parser=controlled(cached, cfg.control),
        uncached=controlled(made, cfg.control),
        corpora=Corpora(domains, cached),
        collator=Collator(int(encoder.tokenizer.pad_token_id or 0)),
        max_length=cfg.max_length,
        seed=cfg.seed,
        device=device,
        precision=pick_precision(options.precision, device),
        cache=cache,
        saved_runs=SavedRuns(),
        source_only=source_run.folder if source_run else None,
        epochs=options.epochs,
    )
    _check_parser(session, made)
    _read_parts(session, options.validation_texts)
    _tell_truncation(session)
    pl.seed_everything(cfg.seed, verbose=False)  # a parser draws random numbers where a cache of parses does not
    session.attach()
    for module in (encoder, *methods.values()):
        module.to(device)
    return session, sealed


def _refuse_misfits(cfg: DictConfig, encoder: Any, methods: Mapping[str, Method]) -> None:
    """Refuse what the backbone can't do, and a control of nothing."""
    if cfg.max_length > encoder.longest:
        raise ValueError(f"max_length={cfg.max_length}: expected 3 to {encoder.longest}, as {cfg.backbone.name} reads")
    if methods and not encoder.takes_methods:  # a stranger's; of ours source_only has told
        raise ValueError(f"{cfg.backbone.get('_target_')}: takes no injection and no adaptation: it is a baseline")
    if cfg.control and not any(TREES & m.reads for m in methods.values()):
        why = "no method of this run reads parses, so there is nothing to control"
        fix = "add one (injection=lisa, injection=gnn) or leave the control out"
        raise ValueError(f"control={next(iter(cfg.control))}: {why}; {fix}")


def _check_parser(session: Session, parser: Any) -> None:
    """Refuse a file of parses where text is new every epoch; warn of one that predictions will need."""
    words_given = all(record.words is not None for record in session.domains.source_train)
    needed = session.reads("parses") or (session.task.kind == "token" and not words_given)
    if session.augments and needed and not getattr(parser, "takes_new_text", True):
        working = ((name, m) for name, m in session.methods.items() if session.task.kind in m.tasks)
        names = ", ".join(name for name, method in working if method.augments)
        why = f"writes new text every epoch, and {parser.name} knows only texts parsed before"
        raise ValueError(f"{names}: {why}; parser=shipped")
    if session.parses_at_prediction and getattr(parser, "file_alone", False):
        why = "this model reads parses when it predicts, and so labels no text that is not in that file"
        log.warning("%s: %s; take parser=shipped for one that is to be handed over", parser.path, why)


def refuse_early(cfg: DictConfig) -> None:
    """Refuse what :func:`build` would of a run's texts, before the source-only network it learns from is trained."""
    problem = read_problem(cfg)
    parser = make_parser(cfg.parser, problem.domains)
    methods = make_methods(cfg)
    refuse_gold(cfg, problem)
    refuse_foreign_trees(tree_readers(methods, problem.task), problem.domains, parser.name)
    for method in methods.values():
        method.refuse(problem.domains, problem.task)


def refuse_gold(cfg: DictConfig, problem: Problem) -> None:
    """Refuse methods' files that are the data's own labelled ones, or copies: they would be learnt as estimates."""
    values, fix = to_builtin(cfg), "target_labels=all learns from data.target.train_path, and marks the run"
    parts = [part for part in nested_values(values["data"]) if isinstance(part, dict)]
    gold = [*files_named([{name: part[name] for name in LABEL_FILES if name in part} for part in parts])]
    for part in parts:
        if part.get("root") and part.get("folder"):
            gold += [path for path in Path(part["root"], part["folder"]).rglob("*") if path.is_file()]
    for path in files_named(values["adaptation"]):
        if copied := [str(file) for file in gold if path.is_file() and filecmp.cmp(file, path, shallow=False)]:
            raise ValueError(f"adaptation: {path}: is {copied[0]}, labels that the run must not learn from; {fix}")
    kind = problem.task.kind

    def answer(record: Record) -> object:
        return {*(shift_spans(record, record.text.strip()).spans or ())} if kind == "token" else record.label

    def refuse(test: tuple[Record, ...]) -> None:
        right = {record.text.strip(): answer(record) for record in test}
        for path in files_named((values["adaptation"] or {}).get("external_labels")):
            records = read(path, domain=problem.domains.target).records if path.is_file() else ()
            same = [answer(record) == right[text] for record in records if (text := record.text.strip()) in right]
            if len(same) >= ALL_RIGHT[kind] and all(same):
                labels = f"its labels of {len(same)} texts of the target's test are the test's own, all of them"
                raise ValueError(f"adaptation: {path}: {labels}: the run must not learn from them; {fix}")

    if problem.sealed is not None:
        problem.sealed.check(refuse)


def tree_readers(methods: Mapping[str, Method], task: Task) -> list[str]:
    """Names of the methods that read trees of the target's texts."""
    return [n for n, m in methods.items() if task.kind in m.tasks and m.reads & {*TREES, "corpus_parses"}]


def refuse_foreign_trees(readers: Sequence[str], domains: Domains, parser: str) -> None:
    """Refuse what reads trees of target text which an English pipeline would make of another language."""
    most = MOST_READ["sequence"]
    if readers and (message := foreign_warning((text.text for text in domains.unlabelled.texts[:most]), parser)):
        fix = "or leave it out: backbone=multilingual adaptation=self_training"
        raise ValueError(f"{', '.join(readers)}: reads trees of {domains.target}, and {message}; {fix}")


def make_rules(cfg: DictConfig) -> PathRules | None:
    """The rule baseline of a run; None where it trains a network."""
    if not cfg.rule_baseline:
        return None
    if len(names := [str(name) for name in cfg.rule_baseline]) > 1:
        raise ValueError(f"rule_baseline={names}: expected one; run them one by one")
    groups = ("injection", "adaptation", "control")
    given = [f"{group}={'+'.join(map(str, cfg[group]))}" for group in groups if cfg[group]]
    given += [f"train_on={cfg.train_on}"] * (cfg.train_on != "source")
    if given:
        raise ValueError(f"rule_baseline={names[0]}: rules in place of a network; leave out {' and '.join(given)}")
    rules: PathRules = make(cfg.rule_baseline[names[0]])
    return rules


def read_for_rules(cfg: DictConfig) -> tuple[Problem, Parser]:
    """The problem that rules are to solve, and the parser whose trees they read."""
    problem = read_problem(cfg)
    parser: Parser = make_parser(cfg.parser, problem.domains, folder_of(cfg, "cache"))
    refuse_foreign_trees([f"rule_baseline={name}" for name in cfg.rule_baseline], problem.domains, parser.name)
    return problem, parser


def make_validators(cfg: DictConfig) -> Iterator[Validator]:
    """The chosen validator, a stranger's perhaps, then every other: the others' choices are recorded."""
    first = make(cfg.selection)
    if not isinstance(first, Validator) or not hasattr(first, "name"):
        raise ValueError(f"selection={cfg.selection}: expected a subclass of Validator, with a name, as _target_")
    yield first
    yield from (Validator(name) for name in NAMES if name != first.name)


def check_parts(values: Mapping[str, Any]) -> None:
    """Make what is made quickly, to see what is wrong: options, methods, validators, problem; not the backbone."""
    cfg = OmegaConf.create({**values})
    if missing := sorted(OmegaConf.missing_keys(cfg)):
        raise ValueError(not_set(missing[0], "train"))
    read_options(cfg)
    make_rules(cfg)
    make_methods(cfg)
    list(make_validators(cfg))
    read_problem(cfg)


def _read_parts(session: Session, validation_texts: int) -> None:
    domains, parses, at_prediction = session.domains, session.reads("parses"), session.parses_at_prediction
    session.source = session.examples(domains.source_train, "source train", parses, labelled=True)
    session.task.learn_transitions(session.source)
    session.dev = session.examples(domains.source_dev, "source dev", at_prediction, labelled=True)
    if session.reads("target"):
        parsed = parses or at_prediction  # for what labels it as the model predicts
        session.target = session.examples(domains.unlabelled.texts, "target unlabelled", parsed, labelled=False)
    texts = domains.unlabelled.texts
    if len(texts) > validation_texts:  # the same sample for every seed and method
        chosen = np.random.default_rng(0).choice(len(texts), validation_texts, replace=False)
        texts = tuple(texts[i] for i in sorted(chosen.tolist()))
    session.validation = session.examples(texts, "target validation", at_prediction, labelled=False)
    seen = {name for e in [*session.source, *session.target] if e.parse for name in e.parse.relations}
    if seen and session.corpora.parser is not session.parser:
        # A control's trees have few relations, one perhaps: others' names are kept, so that it is as large a network.
        real = session.real_relations()
        seen |= {*sorted(real - seen)[: max(0, len(real) - len(seen))]}
    session.relations = relation_vocabulary(seen)
    session.collator.relations = session.relations


def _tell_truncation(session: Session) -> None:
    for part, examples in (("source train", session.source), ("target unlabelled", session.target)):
        lost = session.truncation.get(part, Truncation())
        if lost.texts > MUCH_CUT * len(examples):
            words = f"{lost.words} words{' and their labels' if part == 'source train' else ''} are"
            rest = words if session.task.kind == "token" else "their ends are"
            what = f"{lost.texts} of {len(examples)} texts are longer than max_length={session.max_length}"
            log.warning("%s: %s: %s not read; raise it, or give shorter texts", part, what, rest)
