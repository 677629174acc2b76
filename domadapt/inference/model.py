"""A trained model on anybody's text: save, load, predict."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from domadapt.config.instantiate import make
from domadapt.data.batches import Collator
from domadapt.data.domains import Domains, TargetUnlabeled, UnlabelledText, unlabelled
from domadapt.inference.evaluate import evaluate
from domadapt.inference.folder import AGAIN, FORMAT, describe, model_folder
from domadapt.methods.method import Method
from domadapt.methods.setting import Setting
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.controls.control import controlled
from domadapt.syntax.parser import Parse, Text
from domadapt.tasks.rows import FloatArray
from domadapt.tasks.task import Prediction
from domadapt.utils import checkpoint
from domadapt.utils.device import pick_device, pick_precision
from domadapt.utils.files import replace_folder, write_atomic


def save_model(setting: Setting, config: dict[str, Any], folder: Path) -> None:
    """Write a model folder: a stock encoder, the few parameters that prediction needs on top, and a description.

    Nothing in it is pickled. ``encoder/`` alone is a stock Hugging Face model that any pipeline loads.

    Args:
        setting: what the run worked with.
        config: of the run, resolved.
        folder: replaced as a whole.
    """
    replace_folder(folder, lambda part: _write(setting, config, part))


def _write(setting: Setting, config: dict[str, Any], folder: Path) -> None:
    setting.encoder.save(folder / "encoder")
    configs = {**(config["injection"] or {}), **(config["adaptation"] or {})}
    used = {name: method for name, method in setting.methods.items() if method.used_at_prediction}
    if used:
        kept = {name: {"weights": m.state_dict(), "memory": m.memory()} for name, m in used.items()}
        checkpoint.save(kept, folder / "methods.safetensors")
    description = {
        "format": FORMAT,
        "task": {**config["task"], **_labels(setting)},
        "backbone": config["backbone"],
        "methods": {name: configs[name] for name in used},
        "left_behind": {name: configs[name] for name in setting.methods if name not in used},
        "relations": setting.relations,
        "parser": {**config["parser"]},
        "control": {**config["control"]},
        "parser_name": setting.parser.name,
        "parses_at_prediction": setting.parses_at_prediction,
        "max_pieces": setting.max_pieces,
        "source": setting.domains.source,
        "target": setting.domains.target,
    }
    write_atomic(folder / "domadapt.json", json.dumps(description, indent=1))


def _labels(setting: Setting) -> dict[str, Any]:
    types = getattr(setting.task, "types", None)
    return {"types": types} if types is not None else {"labels": setting.task.labels}


@dataclass(frozen=True, slots=True)
class Model:
    """A trained model. Made by :func:`load`."""

    setting: Setting
    parses: bool

    def predict(self, texts: Iterable[str], batch_size: int = 64) -> list[Prediction]:
        """Label texts; spans are in characters of the text as given.

        Args:
            texts: one string each.
            batch_size: texts a batch.

        Returns:
            One prediction a text, in order.
        """
        return self.predict_texts(list(unlabelled(texts)), batch_size)

    def predict_texts(self, texts: Sequence[UnlabelledText], batch_size: int = 64) -> list[Prediction]:
        """Label texts that may carry their owner's tokens."""
        examples = self.setting.examples(texts, "prediction", self.parses, labelled=False)
        return evaluate(examples, self.setting, batch_size, "predict").predictions

    def probabilities(self, texts: Iterable[str], batch_size: int = 64) -> FloatArray:
        """(texts, classes) of classification, the classes in the order of ``setting.task.labels``.

        Raises:
            ValueError: the model labels words, not texts.
        """
        task = self.setting.task
        if task.kind != "sequence":
            raise ValueError("this model finds spans: each has its own confidence; probabilities are of whole texts")
        examples = self.setting.examples(list(unlabelled(texts)), "prediction", self.parses, labelled=False)
        rows = evaluate(examples, self.setting, batch_size, "predict").rows
        return rows.probabilities[rows.texts.argsort()]

    @property
    def truncated(self) -> int:
        """Texts of the last call that were longer than the model reads."""
        cut = self.setting.truncation.get("prediction")
        return cut.texts if cut else 0


def refuse_foreign(config: Any, path: Path) -> None:
    """Allow only classes defined in domadapt, however deep the description names them, and no ``${...}``.

    Raises:
        ValueError: at the first other name; nothing has been imported or called by then.
    """
    foreign = None
    if isinstance(config, dict):
        target = config.get("_target_")
        foreign = str(target) if target is not None and not _defined_here(str(target)) else None
    elif isinstance(config, str) and "${" in config:  # resolved before it is made: to a _target_, to the environment
        foreign = config
    if foreign is not None:
        raise ValueError(
            f"{path}: names {foreign[:80]!r} outside domadapt; a model folder can name any code. If it is your "
            f"own, load it with trust_code=True"
        )
    inside = [*config, *config.values()] if isinstance(config, dict) else config
    for value in inside if isinstance(inside, list) else ():
        refuse_foreign(value, path)


def _defined_here(target: str) -> bool:
    module, _, name = target.rpartition(".")
    if module.partition(".")[0] != "domadapt":
        return False
    try:  # the home of the class, not the path it is reached by: modules of ours import others' names
        found = getattr(import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module


class NoParser:
    """Stands for a parser where nothing needs one."""

    name = "none"

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Never called."""
        raise RuntimeError("this model was saved without a parser")

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Never called."""
        raise RuntimeError("this model was saved without a parser")


def load(folder: str | Path, device: str = "auto", precision: str = "auto", trust_code: bool = False) -> Model:
    """Load a model that :func:`domadapt.train` wrote.

    Args:
        folder: the run's folder, or the ``model/`` in it.
        device: ``auto``, ``cpu`` or ``cuda``.
        precision: ``auto``, ``32`` or ``bf16-mixed``.
        trust_code: let the folder name classes outside domadapt; only for folders of your own.

    Raises:
        ValueError: not a model folder, from another version, or naming foreign classes.
    """
    folder = model_folder(folder)
    path = folder / "domadapt.json"
    description = describe(folder)
    if not trust_code:
        refuse_foreign(description, path)
    task = make(description["task"])
    backbone = {**description["backbone"], "name": str(folder / "encoder")}
    encoder = make(backbone, kind=task.kind, labels=task.labels)
    methods: dict[str, Method] = {name: make(config) for name, config in description["methods"].items()}
    stored = folder / "methods.safetensors"
    try:
        kept = checkpoint.load(stored) if stored.is_file() else {}
    except ValueError as error:
        raise ValueError(f"{stored}: damaged ({error}); {AGAIN}") from error
    target_device = pick_device(device)
    if hasattr(encoder, "load"):
        encoder.load(folder / "encoder")
    encoder.to(target_device).eval()
    needed = description["parses_at_prediction"] or task.kind == "token"
    parser = controlled(make(description["parser"]), description["control"]) if needed else NoParser()
    if description["parses_at_prediction"] and parser.name != description["parser_name"]:
        raise ValueError(
            f"{path}: this model reads the parses of {description['parser_name']}, here is {parser.name}; install that "
            f"version, or train a model that reads no parses when it predicts"
        )
    domains = Domains(description["source"], description["target"], (), (), (), TargetUnlabeled("", ()), None)
    setting = Setting(
        domains=domains,
        task=task,
        encoder=encoder,
        methods=methods,
        parser=parser,
        uncached=parser,
        collator=Collator(int(encoder.tokenizer.pad_token_id or 0), description["relations"]),
        max_pieces=description["max_pieces"],
        seed=0,
        device=target_device,
        precision=pick_precision(precision, target_device),
        cache=folder,
        relations=description["relations"],
    )
    setting.attach()
    for name, method in methods.items():
        own = kept.get(name, {})
        if own.get("weights", {}).keys() != method.state_dict().keys() or "memory" not in own:
            raise ValueError(f"{stored}: damaged: not all weights of {name} are there; {AGAIN}")
        method.load_state_dict(own["weights"])
        method.recall(own["memory"])
        method.to(target_device).eval()
    return Model(setting, description["parses_at_prediction"])
