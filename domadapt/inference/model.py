"""A saved model: loaded, asked, written."""

import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from domadapt.config.compose import SEARCHED, make
from domadapt.config.overrides import in_range, one_of
from domadapt.config.resolvers import role
from domadapt.data.batches import Collator, Example
from domadapt.data.domains import Domains, TargetUnlabelled, TextOrPair, UnlabelledText, unlabelled
from domadapt.data.texts import lower_in_place
from domadapt.inference import thresholds
from domadapt.inference.description import (
    LABELS,
    LISTED,
    NAME,
    Description,
    LabelsRead,
    checked_description,
    labels_read,
    model_folder,
    refuse_foreign,
    short_hash,
)
from domadapt.methods.method import Method
from domadapt.methods.session import ReadText, Session
from domadapt.models.pretrained import refuse_non_finite
from domadapt.runs.key import files_named, hash_of
from domadapt.syntax.controls import controlled, one_parser
from domadapt.syntax.parser import Parser, SpacyParser
from domadapt.tasks.rows import FloatArray
from domadapt.tasks.task import Prediction, Task, tempered
from domadapt.utils import checkpoint
from domadapt.utils.files import AGAIN, replace_folder, write_atomic, write_checksums
from domadapt.utils.runtime import pick_device, pick_precision

log = logging.getLogger(__name__)
METHODS = "methods.safetensors"
LEARNT = {"source": ("path", "dev_path"), "target": ("train_path",)}  # settings that name files whose labels are learnt
TURN = Lock()  # of threads: hooks in a network keep what they see until it is read
GUIDELINES = "domadapt.methods.adaptation.guidelines.Guidelines"


def write_model(session: Session, config: dict[str, Any], dev: dict[str, Any], folder: Path) -> None:
    """Fill a model folder: a stock encoder, the few parameters that prediction needs on top, a description, checksums.

    ``dev`` is what :func:`thresholds.count_confidences` gives of source dev. ``encoder/`` alone is a stock model.
    """
    session.encoder.save(folder / "encoder")
    read = [asdict(entry) for entry in _labels_of(session, config)]
    write_atomic(folder / "encoder" / LABELS, json.dumps(read, indent=1))
    configs = {**(config["injection"] or {}), **(config["adaptation"] or {})}
    used = {name: method for name, method in session.methods.items() if method.used_at_prediction}
    # What did nothing is not told of: one of the recipe's methods for whole texts, what too few epochs never reached.
    acted = {name for name, m in session.methods.items() if session.task.kind in m.tasks and not m.idle(session.epochs)}
    trained = [name for name in configs if name in acted - used.keys()]
    if used:
        saved = {name: {"weights": m.state_dict(), "memory": m.memory()} for name, m in used.items()}
        checkpoint.save(saved, folder / METHODS)
    Description(
        task={**config["task"], **session.task.learnt()},
        backbone=config["backbone"],
        methods={name: configs[name] for name in used},
        left_behind={name: configs[name] for name in trained},
        relations=session.relations,
        parser=one_parser(config["parser"]),
        control={**config["control"]},
        parser_name=session.parser.name,
        parses_at_prediction=session.parses_at_prediction,
        max_length=session.max_length,
        source=session.domains.source,
        target=session.domains.target,
        lowercase=is_lowercased(config["data"]),
    ).write(folder)
    source = session.domains.target if config["train_on"] == "target" else session.domains.source
    about = {"source": source, "texts": len(session.dev), "kinds": dev}
    if dev:
        write_atomic(folder / thresholds.FILE, json.dumps(about))
    write_checksums(folder)


def write_guided(folder: Path, to: Path, config: dict[str, Any], types: Sequence[str]) -> None:
    """Write a copy of a model folder that decodes by guidelines, a method's ``config``; ``types`` are terms."""
    description, method = checked_description(folder), make(config)
    method.refuse()
    method.set_terms(make(description.task).labels, types)
    saved = checkpoint.load(folder / METHODS) if (folder / METHODS).is_file() else {}
    if "guidelines" in saved:
        log.warning("%s: has guidelines; these take their place, so give again what is to stay", folder)
    saved["guidelines"] = {"weights": {}, "memory": method.memory()}

    def write(part: Path) -> None:
        shutil.copytree(folder, part, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        (part / thresholds.FILE).unlink(missing_ok=True)  # rates on the source, without guidelines
        checkpoint.save(saved, part / METHODS)
        replace(description, methods={**description.methods, "guidelines": config}).write(part)
        write_checksums(part)

    replace_folder(to, write)


def is_lowercased(data: Mapping[str, Any]) -> bool:
    """Whether target text was lower-cased: of several problems the first one's.

    >>> several = {"problems": {"bars": {"lowercase": True}}}
    >>> is_lowercased({"lowercase": True}), is_lowercased(several), is_lowercased({})
    (True, True, False)
    """
    problems = list((data.get("problems") or {}).values())
    return bool((problems[0] if problems else data).get("lowercase", False))


@dataclass(frozen=True, slots=True)
class Model:
    """A trained model. Made by :func:`load`."""

    session: Session
    lowercase: bool = False

    def predict(self, texts: Iterable[TextOrPair], batch_size: int = 64, threshold: Any = 0) -> list[Prediction]:
        """One prediction a text, or a pair of texts, in order; spans are in characters of the text as given.

        What lies below ``threshold``, the least confidence, or one for each label or span type, is left out.
        """
        limits = thresholds.read_limits(threshold, self.session.task.names)
        answers = self.predict_texts(list(unlabelled(texts)), batch_size)
        return [thresholds.apply_limits(answer, limits) for answer in answers]

    def predict_texts(self, texts: Sequence[UnlabelledText], batch_size: int = 64) -> list[Prediction]:
        """Label texts that may carry their owner's tokens."""
        in_range("batch_size", batch_size, 1)
        with TURN:
            return self.session.evaluate(self.examples(texts), batch_size, "predict").predictions

    def examples(self, texts: Sequence[UnlabelledText]) -> list[Example]:
        """Texts as the model reads them: lower-cased if it was trained so, in place, and spans stay where they are."""
        for number, text in enumerate(texts, 1):
            if not text.text.strip():
                raise ValueError(f"text {number} is blank; expected a text to label")
        self.session.task.check_texts((text.text for text in texts), "prediction")
        if self.lowercase:
            texts = [replace(text, text=lower_in_place(text.text)) for text in texts]
        return self.session.examples(texts, "prediction", self.session.parses_at_prediction, labelled=False)

    def probabilities(self, texts: Iterable[TextOrPair]) -> FloatArray:
        """(texts, classes) of classification, the classes in the order of ``session.task.labels``."""
        if self.session.task.kind != "sequence":
            raise ValueError("this model finds spans: each has its own confidence; probabilities are of whole texts")
        with TURN:
            rows = self.session.evaluate(self.examples(list(unlabelled(texts))), 64, "predict").rows
        logs = torch.from_numpy(rows.probabilities[rows.texts.argsort()]).clamp(min=1e-12).log()
        return tempered(logs, self.session.task.temperature).numpy()

    @property
    def task(self) -> Task:
        return self.session.task

    @property
    def warnings(self) -> Counter[str]:
        """What was mended in the texts of all calls."""
        return self.session.domains.warnings

    @property
    def longest(self) -> int:
        """Subwords that are read of a text."""
        return self.session.max_length

    @property
    def truncated(self) -> int:
        """Texts of the last call that were longer than the model reads."""
        cut = self.session.truncation.get("prediction")
        return cut.texts if cut else 0


def load(folder: str | Path, device: str = "auto", precision: str = "auto", trust_code: bool = False) -> Model:
    """Load a model that :func:`domadapt.train` wrote, from the run's folder or the ``model/`` in it.

    ``trust_code`` lets it name classes outside domadapt: only for folders of your own.
    A ValueError names the file of what is no model folder, from another version, damaged, or names foreign classes.
    """
    one_of("trust_code", trust_code, True, False)  # "no" is a word, and any word would be a yes
    folder = model_folder(folder)
    path, place = folder / NAME, folder / "encoder"
    description = checked_description(folder)
    if not trust_code:
        refuse_foreign(description, path)
    with blame(path, "task"):
        task = make(description.task)
        kind, labels = task.kind, task.labels
    with blame(path, "backbone", place):
        encoder = make({**description.backbone, "name": str(place)}, kind=kind, labels=labels)
        if hasattr(encoder, "load"):
            encoder.load(place)
        longest = encoder.longest
    if description.max_length > longest:
        raise ValueError(f"{path}: max_length={description.max_length}: the encoder reads {longest}; {AGAIN}")
    methods: dict[str, Method] = {}
    for name, config in description.methods.items():
        with blame(path, f"methods.{name}"):
            methods[name] = make(config)
    target_device = pick_device(device)
    encoder.to(target_device).eval()
    with blame(path, "parser"):
        parser = parser_of(description, kind)
    if description.parses_at_prediction and parser.name != description.parser_name:
        fix = "install that version, or train a model that reads no parses when it predicts"
        mismatch = f"this model reads the parses of {description.parser_name}, here is {parser.name}"
        raise ValueError(f"{path}: {mismatch}; {fix}")
    session = Session(
        domains=Domains(description.source, description.target, (), (), (), TargetUnlabelled("", ()), None),
        task=task,
        encoder=encoder,
        methods=methods,
        parser=parser,
        uncached=parser,
        collator=Collator(int(encoder.tokenizer.pad_token_id or 0), description.relations),
        max_length=description.max_length,
        seed=0,
        device=target_device,
        precision=pick_precision(precision, target_device),
        cache=folder,
        relations=description.relations,
    )
    with blame(path, "methods"):
        session.attach()
    restore(methods, folder / METHODS)
    if session.parses_at_prediction != description.parses_at_prediction:
        stored = description.parses_at_prediction
        raise ValueError(f"{path}: damaged: parses_at_prediction={stored}, but its methods say otherwise; {AGAIN}")
    for method in methods.values():
        method.to(target_device).eval()
    return Model(session, description.lowercase)


def restore(methods: Mapping[str, Method], stored: Path) -> None:
    """Give attached methods back their weights, and what they remember."""
    with blame(stored):
        saved = checkpoint.load(stored) if stored.is_file() else {}
        if saved.keys() != methods.keys():
            raise ValueError(f"damaged: holds weights of {[*saved]}, expected of {[*methods]}; {AGAIN}")
        for name, method in methods.items():
            refuse_non_finite(saved[name]["weights"], name)
            method.load_state_dict(saved[name]["weights"])
            method.recall(saved[name]["memory"])


def parser_of(description: Description, kind: str) -> Parser:
    """What makes trees, or words alone, of new text.

    Where words are all that is asked for, and those of training were read from a file of parses, which need not lie
    here any more and knows no other text, they are made as the shipped parser makes them. Whole texts need no parser.
    """
    if not description.parses_at_prediction and (kind == "sequence" or description.parser.get("_target_") == LISTED):
        return SpacyParser()
    return controlled(make(description.parser), description.control)


@contextmanager
def blame(path: Path, place: str = "", own: Path | None = None) -> Iterator[None]:
    """Whatever fails inside of it is told as the file's fault, in one line with the way out: what it asks for was never
    tried before. Errors that name ``own``, a file or folder, are told as they are."""
    try:
        yield
    except Exception as error:
        if own is not None and isinstance(error, ValueError) and str(own) in str(error):
            raise
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, ValueError | OSError):
            cause = cause.__cause__  # what a constructor said, not who called it
        reason = next((line for line in str(cause).splitlines() if line.strip()), "")
        reason = reason if isinstance(cause, ValueError | OSError) else f"{type(cause).__name__}: {reason}"
        reason = reason.removeprefix(f"{path}: ").removesuffix("; delete it")  # as is said of a checkpoint
        complete = place == "parser" or "again" in reason  # it may be a parser that is not installed
        fix = SEARCHED if isinstance(cause, ImportError) else AGAIN  # of a method whose file is elsewhere now
        fix = "" if complete else f"; {fix}"
        raise ValueError(f"{path}: {f'{place}: ' if place else ''}{reason}{fix}") from error


class SavedRuns:
    """Loads models of finished runs: no function, since from the session no target label may be reached."""

    def read(self, run: Path, texts: Sequence[UnlabelledText], device: str, precision: str) -> list[ReadText]:
        """What a run's model says of texts, in the asking run's precision."""
        model = load(run, device, "32")
        model.session.precision = precision
        return model.session.read(model.examples(texts), f"{run.name} reads target")


def _labels_of(session: Session, config: dict[str, Any]) -> list[LabelsRead]:
    domains, count = session.domains, session.domains.target_labels
    checksum = domains.labels_checksum(count) if count else None
    oracle = make(config["selection"]).uses_target_labels
    texts = " ".join(sorted({short_hash(record.text) for record in (*domains.source_train, *domains.source_dev)}))
    files = _files(config, count > 0, oracle)
    this_run = LabelsRead(role(config), domains.source, count, checksum, oracle, files, texts)
    return [this_run, *dict.fromkeys(labels_read(Path(str(config["backbone"].get("name")))))]


def _files(config: Mapping[str, Any], target: bool, oracle: bool) -> tuple[str, ...]:
    """Checksums of the files whose labels a run learns from, or is chosen by: of the ``target``'s, too, or not."""
    named: list[Any] = [(config["adaptation"] or {}).get("external_labels")]
    for data in (config["data"].get("problems") or {"": config["data"]}).values():
        sides = {side: part for side, part in data.items() if isinstance(part, dict)}  # a name in published corpora
        learnt = {config["train_on"], *(["target"] if target else [])}
        named += [{name: sides.get(side, {}).get(name) for name in LEARNT[side]} for side in learnt]
        named += [{"path": sides.get("target", {}).get("test_path")}] if oracle else []
    return tuple(sorted({hash_of(path) for path in files_named(named) if path.is_file()}))


def label_leak(encoder: Path, domains: Domains) -> str:
    """Which labels the weights in a folder have read that these domains keep apart; empty if none."""
    target = domains.target
    for run in labels_read(encoder):
        given = run.target_labels
        # The same draw, or its beginning: of another split they may be among the texts that this run is tested on.
        among = given <= domains.target_labels and run.checksum == domains.labels_checksum(given)
        reasons = {
            "it was trained on target labels": run.role == "in_domain",
            "its epoch was chosen by target labels (selection=oracle)": run.oracle,
            f"it was given {given} target labels that this run is not": given and not among,
            f"its labelled source is this run's target, {target}": target in run.source.split("+"),
        }
        if leak := next((reason for reason, holds in reasons.items() if holds), ""):
            return leak
    return ""
