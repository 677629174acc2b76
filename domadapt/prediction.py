"""A trained model on anybody's text: save, load, predict."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from safetensors.torch import load_file, save_file
from torch import Tensor

from domadapt.data.batches import Collator
from domadapt.data.domains import Domains, TargetUnlabeled, UnlabelledText, unlabelled
from domadapt.evaluate import predict_examples
from domadapt.files import write_atomic
from domadapt.setup import Setting, make, pick_device, pick_precision, plain
from domadapt.tasks.task import Prediction

FORMAT = 1  # of model folders


def save_model(setting: Setting, cfg: DictConfig, folder: Path) -> None:
    """Write a model folder: a stock encoder, the few parameters that prediction needs on top, and a description.

    Nothing in it is pickled. ``encoder/`` alone is a stock Hugging Face model that any pipeline loads.
    """
    setting.encoder.save(folder / "encoder")
    config = plain(cfg)
    kept: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for group in ("injection", "adaptation"):
        for name, method_config in (config[group] or {}).items():
            method = _find(setting, method_config["_target_"])
            if method.used_at_prediction:
                kept[name] = method_config
                tensors |= {f"{name}.{k}": v.contiguous().cpu() for k, v in method.state_dict().items()}
    if tensors:
        save_file(tensors, folder / "methods.safetensors")
    description = {
        "format": FORMAT,
        "task": {**config["task"], **_labels(setting)},
        "backbone": config["backbone"],
        "methods": kept,
        "relations": setting.relations,
        "parser": {**config["parser"]},
        "parser_name": setting.parser.name,
        "parses_at_prediction": any(m.parses_at_prediction for m in setting.methods),
        "max_pieces": setting.max_pieces,
        "source": setting.domains.source,
        "target": setting.domains.target,
    }
    write_atomic(folder / "domadapt.json", json.dumps(description, indent=1))


def _find(setting: Setting, target: str) -> Any:
    return next(m for m in setting.methods if f"{type(m).__module__}.{type(m).__qualname__}" == target)


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
        words = list(self.setting.parser.tokenize(texts)) if self.setting.task.kind == "token" else [None] * len(texts)
        return predict_examples(self.setting.encoder, examples, words, self.setting, batch_size, "predict")  # type: ignore[arg-type]

    @property
    def truncated(self) -> int:
        """Texts of the last call that were longer than the model reads."""
        cut = self.setting.truncation.get("prediction")
        return cut.texts if cut else 0


def load(folder: str | Path, device: str = "auto", precision: str = "auto", trust_code: bool = False) -> Model:
    """Load a model folder that :func:`domadapt.train` wrote.

    Args:
        folder: the run's ``model/`` folder.
        device: ``auto``, ``cpu`` or ``cuda``.
        precision: ``auto``, ``32`` or ``bf16-mixed``.
        trust_code: let the folder name classes outside domadapt; only for folders of your own.

    Raises:
        ValueError: not a model folder, from another version, or naming foreign classes.
    """
    folder = Path(folder)
    path = folder / "domadapt.json"
    if not path.is_file():
        raise ValueError(f"{folder}: not a model folder (no domadapt.json in it); give a run's model/ folder")
    description = json.loads(path.read_text(encoding="utf-8"))
    if description.get("format") != FORMAT:
        raise ValueError(f"{path}: format {description.get('format')!r}, this version reads {FORMAT}; train it again")
    for config in (
        description["task"],
        description["backbone"],
        description["parser"],
        *description["methods"].values(),
    ):
        if not trust_code and not str(config.get("_target_", "")).startswith("domadapt."):
            raise ValueError(
                f"{path}: names the class {config.get('_target_')!r} outside domadapt; a model folder can name any "
                f"code. If it is your own, load it with trust_code=True"
            )
    task = make(description["task"])
    backbone = {**description["backbone"], "name": str(folder / "encoder")}
    encoder = make(backbone, kind=task.kind, labels=task.labels)
    methods = [make(config) for config in description["methods"].values()]
    tensors = load_file(folder / "methods.safetensors") if description["methods"] else {}
    target_device = pick_device(device)
    for name, method in zip(description["methods"], methods, strict=True):
        method.attach(encoder, len(description["relations"]))
        prefix = f"{name}."
        method.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
        method.to(target_device).eval()
    if hasattr(encoder, "load"):
        encoder.load(folder / "encoder")
    encoder.to(target_device).eval()
    domains = Domains(description["source"], description["target"], (), (), (), TargetUnlabeled("", ()), None)
    setting = Setting(
        domains=domains,
        task=task,
        encoder=encoder,
        methods=methods,
        parser=make(description["parser"]),
        collator=Collator(int(encoder.tokenizer.pad_token_id or 0), description["relations"]),
        max_pieces=description["max_pieces"],
        seed=0,
        device=target_device,
        precision=pick_precision(precision, target_device),
        cache=folder,
    )
    return Model(setting, description["parses_at_prediction"])
