"""A folder that `domadapt export` wrote, asked as a saved model is. ONNX needs no torch."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from domadapt.data.domains import UnlabelledText
from domadapt.data.records import Span
from domadapt.data.texts import lower_in_place
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import Prediction, Task
from domadapt.utils.pairs import apart

KINDS = {"ForTokenClassification": "token", "ForSequenceClassification": "sequence"}  # ends of names of classes


class Exported:
    """For onnxruntime, or transformers' folder, which labels as its pipeline does.

    Args:
        folder: with ``config.json``, and ``model.onnx`` or ``model.safetensors``.

    Attributes:
        labels: of the logits, in their order.
        task: with these labels, or types.
        longest: subwords that are read of a text.
        truncated: texts of the last call that were longer than the model reads.
        warnings: none.

    A ValueError names the file of a folder that is damaged, or of a model of another task.
    """

    lowercase = False  # of a folder of ours: whether it reads all text so

    def __init__(self, folder: Path) -> None:
        self.folder, self.truncated, path = folder, 0, folder / "config.json"
        self.warnings = Counter[str]()
        self.onnx = (folder / "model.onnx").is_file()
        try:
            config = _read(path)
            limits = config if self.onnx else _read(path := folder / "tokenizer_config.json")
            most = config.get("max_position_embeddings") or math.inf  # tokenizers that know none say 1e30
            self.longest = int(min(limits["max_length" if self.onnx else "model_max_length"], most))
            self.labels = labels_in(config)
            self.task = task_of(config)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            what = f"expected a model that labels texts or finds spans ({type(error).__name__}: {error})"
            raise ValueError(f"{path}: {what}; export it again") from error

    def predict_texts(self, texts: Sequence[UnlabelledText], batch_size: int = 64) -> list[Prediction]:
        """One prediction a text, in order; pairs are texts with a sign between."""
        self.task.check_texts((text.text for text in texts), "prediction")  # it tells of them as they were given
        both = [tuple(apart(lower_in_place(text.text) if self.lowercase else text.text).values()) for text in texts]
        given: list[Any] = [pair if len(pair) == 2 else pair[0] for pair in both]
        cut = [bool(one.overflowing) for one in self._tokenizer.encode_batch(given)]
        self.truncated = sum(cut)
        predict = partial(self._predict, batch_size=batch_size) if self.onnx else self._predict
        return [replace(prediction(answer), truncated=end) for answer, end in zip(predict(given), cut, strict=True)]

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.enable_truncation(self.longest)
        return tokenizer

    @cached_property
    def _predict(self) -> Any:  # a function of texts: of lists of answers
        if self.onnx:
            try:
                from domadapt.inference.onnx_model import OnnxModel

                return OnnxModel(self.folder)
            except ImportError:
                raise ValueError(f"{self.folder}: needs onnxruntime: pip install 'domadapt[onnx]'") from None
        from domadapt.inference.export import pipeline_like, quietly
        from domadapt.models.pretrained import load_model, load_tokenizer

        kind, name = self.task.kind, str(self.folder)
        with quietly():  # it may be a stranger's: no code of it is run, and no pickle read
            network = load_model(name, kind, self.labels)[0].eval()
            tokenizer = load_tokenizer(name)
            tokenizer.model_max_length = self.longest
            return pipeline_like(kind, model=network, tokenizer=tokenizer)


def is_exported(folder: Path) -> bool:
    """Whether a folder is an exported model's, or a stock one's that came otherwise."""
    files = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    return {"config.json", "tokenizer.json"} <= files and bool({"model.onnx", "model.safetensors"} & files)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def labels_in(config: Mapping[str, Any]) -> list[str]:
    return [config["id2label"][str(place)] for place in range(len(config["id2label"]))]


def task_of(config: Mapping[str, Any]) -> Task:
    """The task of a model with such a ``config.json``; its scores are averaged as the model's were that was exported,
    where the folder says how.

    >>> task_of({"kind": "token", "id2label": {"0": "O", "1": "B-aspect", "2": "I-aspect"}}).names
    ['aspect']
    """
    of_class = (config.get("architectures") or [""])[0]
    kind = config.get("kind") or next(kind for end, kind in KINDS.items() if of_class.endswith(end))
    labels, how = labels_in(config), config.get("average")
    if kind == "sequence":
        return Classification(labels, how or "macro_f1", pairs=bool(config.get("pairs")))
    return Extraction([label[2:] for label in labels if label.startswith("B-")], how or "macro")


def prediction(answer: dict[str, Any]) -> Prediction:
    """What an exported model says of a text, as our own say it.

    >>> prediction({"spans": [{"start": 0, "end": 4, "type": "opinion"}]}).spans
    (Span(start=0, end=4, type='opinion'),)
    """
    spans = answer.get("spans", ())
    found = tuple(Span(one["start"], one["end"], one["type"], one.get("confidence")) for one in spans)
    return Prediction(answer.get("label"), answer.get("confidence", 0.0), found)
