"""A model's folder asked without our network: an exported one, or, for a few texts, our own with NumPy.

Loading torch and transformers takes ten times as long as labelling a few texts, and ONNX needs neither. What NumPy
labels it labels as :class:`domadapt.inference.model.Model` does in float32; tests hold the two together.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from domadapt.config.compose import make
from domadapt.data.domains import UnlabelledText
from domadapt.data.records import Span
from domadapt.data.texts import lower_in_place
from domadapt.inference.description import LISTED, Description, checked_description
from domadapt.inference.onnx_model import OnnxModel, softmax
from domadapt.runs.key import SPACY
from domadapt.syntax.alignment import UNREAD, align, unread_words
from domadapt.syntax.parser import SHIPPED, doc_words, make_doc, tokenizing_pipeline
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import Prediction, Task
from domadapt.utils.pairs import text_fields
from domadapt.utils.text import nested_values

KINDS = {"ForTokenClassification": "token", "ForSequenceClassification": "sequence"}  # ends of names of classes
MANY_TEXTS, MANY_LETTERS = 200, 10_000  # texts, and characters of all, from which on torch is worth loading
TASKS = tuple(f"{task.__module__}.{task.__qualname__}" for task in (Extraction, Classification))
LARGEST = 1000  # of a weight; from larger ones, of a training that diverged, sums may be no numbers


class Exported:
    """For onnxruntime, or transformers' folder, which labels as its pipeline does. It has what verbs ask of a Model.

    A ValueError names the file of a folder that is damaged, or of a model of another task.
    """

    lowercase = False  # of a folder of ours: whether it reads all text so

    def __init__(self, folder: Path) -> None:
        self.folder, self.truncated, path = folder, 0, folder / "config.json"
        self.warnings = Counter[str]()
        self.onnx = (folder / "model.onnx").is_file()
        try:
            config = _read(path)
            self.labels, self.task = labels_in(config), task_of(config)  # labels in the order of the logits
            limits = config if self.onnx else _read(path := folder / "tokenizer_config.json")
            most = config.get("max_position_embeddings") or sys.maxsize  # tokenizers that know none say 1e30
            self.longest = int(min(limits["max_length" if self.onnx else "model_max_length"], most))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"expected a model that labels texts or finds spans ({type(error).__name__}: {error})"
            raise ValueError(f"{path}: {what}; export it again") from error

    def predict_texts(self, texts: Sequence[UnlabelledText], batch_size: int = 64) -> list[Prediction]:
        """One prediction a text, in order; pairs are texts with a sign between."""
        self.task.check_texts((text.text for text in texts), "prediction")  # it tells of them as they were given
        if self.task.kind == "token" and (given_words := sum(text.words is not None for text in texts)):
            self.warnings["text with words of its own, which an exported model cuts by its own rules"] += given_words
        read = (lower_in_place(text.text) if self.lowercase else text.text for text in texts)
        sides = [tuple(text_fields(text).values()) for text in read]
        given: list[Any] = [pair if len(pair) == 2 else pair[0] for pair in sides]
        cut = [bool(encoding.overflowing) for encoding in self._tokenizer.encode_batch(given)]
        self.truncated = sum(cut)
        predict = partial(self._predict, batch_size=batch_size) if self.onnx else self._predict
        return [replace(prediction(answer), truncated=end) for answer, end in zip(predict(given), cut, strict=True)]

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            tokenizer = Tokenizer.from_file(path := str(self.folder / "tokenizer.json"))
        except Exception as error:  # tokenizers raises no other kind
            raise ValueError(f"{path}: damaged ({error}); export it again") from error
        tokenizer.enable_truncation(self.longest)
        return tokenizer

    @cached_property
    def _predict(self) -> Any:  # a function of texts: of lists of answers
        if self.onnx:
            try:
                return OnnxModel(self.folder)
            except ImportError:
                raise ValueError(f"{self.folder}: needs onnxruntime: pip install 'domadapt[onnx]'") from None
            except Exception as error:  # onnxruntime has kinds of its own
                raise ValueError(f"{self.folder}: damaged ({' '.join(str(error).split())}); export it again") from error
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
    kind = config.get("kind") or next((kind for end, kind in KINDS.items() if of_class.endswith(end)), None)
    if kind is None:
        raise ValueError(f"architectures: {of_class!r}, expected one that ends in {' or '.join(KINDS)}")
    labels, how = labels_in(config), config.get("average")
    if kind == "sequence":
        return Classification(labels, how or "macro_f1", pairs=bool(config.get("pairs")))
    return Extraction([label[2:] for label in labels if label.startswith("B-")], how or "macro")


def prediction(answer: dict[str, Any]) -> Prediction:
    """What an exported model says of a text, as our own say it.

    >>> prediction({"spans": [{"start": 0, "end": 4, "type": "opinion"}]}).spans
    (Span(start=0, end=4, type='opinion'),)
    """
    given = answer.get("spans", ())
    spans = tuple(Span(span["start"], span["end"], span["type"], span.get("confidence")) for span in given)
    return Prediction(answer.get("label"), answer.get("confidence", 0.0), spans)


class Bert(OnnxModel):
    """A stock BERT (Devlin et al. 2019) with transformers' head for words or texts, a text at a time.

    A ValueError, or a KeyError, where the folder's weights are no such model's.
    """

    def __init__(self, encoder: Path, task: Task, max_length: int, warnings: Counter[str]) -> None:
        from safetensors.numpy import load_file

        config = stock_config(encoder, task.labels)
        checked_description(encoder.parent)
        self.heads, self.epsilon = config["num_attention_heads"], config["layer_norm_eps"]
        self.depth, self.longest, self.warnings = config["num_hidden_layers"], max_length, warnings
        self.kind, self.labels, self.pairs, self.temperature = task.kind, task.labels, task.pairs, task.temperature
        if isinstance(task, Extraction):
            self.transitions = task.transition_weight * task.transitions.astype(float)
        self.tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length)
        weights = load_file(encoder / "model.safetensors")
        self.weights = {name.removeprefix("bert."): weight for name, weight in weights.items()}
        self.used_weights = set[str]()
        self._refuse_partial(config)

    def _refuse_partial(self, config: dict[str, Any]) -> None:
        """Refuse weights and a tokenizer that are not of one whole model of such a configuration."""
        width = config["hidden_size"]
        shapes = {
            "embeddings.word_embeddings": (config["vocab_size"], width),
            "embeddings.position_embeddings": (config["max_position_embeddings"], width),
            "embeddings.token_type_embeddings": (config["type_vocab_size"], width),
            "encoder.layer.0.intermediate.dense": (config["intermediate_size"], width),
        }
        if {name: self.weights[f"{name}.weight"].shape for name in shapes} != shapes:
            raise ValueError(f"expected weights of the shapes {shapes}")
        known = max(self.tokenizer.get_vocab().values()) < config["vocab_size"]
        if not known or self.longest > config["max_position_embeddings"]:
            raise ValueError("expected a tokenizer whose pieces the weights know, and texts no longer than they know")
        numbers = [*self.weights.values(), self.transitions] if self.kind == "token" else [*self.weights.values()]
        finite = all(array.min() > -LARGEST and array.max() < LARGEST for array in numbers)
        if not finite or any(weight.dtype != np.float32 for weight in self.weights.values()):
            raise ValueError(f"expected weights in float32 between -{LARGEST} and {LARGEST}")

    def _logits(self, batch: Sequence[Encoding]) -> list[Any]:
        """(pieces, classes), or (classes,), of each text."""
        rows = [self._linear(self._states(np.array(one.ids), np.array(one.type_ids)), "classifier") for one in batch]
        return rows if self.kind == "token" else [logits[0] for logits in rows]

    def _states(self, ids: Any, segments: Any) -> Any:
        """What the head reads: (pieces, width), or of texts (1, width)."""
        named = {"word": ids, "position": np.arange(len(ids)), "token_type": segments}
        parts = [self._weight(f"embeddings.{name}_embeddings.weight")[places] for name, places in named.items()]
        states = self._normed(sum(parts), "embeddings.LayerNorm")
        for layer in range(self.depth):
            states = self._layer(states, f"encoder.layer.{layer}")
        return states if self.kind == "token" else np.tanh(self._linear(states[:1], "pooler.dense"))

    def _layer(self, states: Any, name: str) -> Any:
        from scipy.special import erf

        query, key, value = (
            self._linear(states, f"{name}.attention.self.{part}").reshape(len(states), self.heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = softmax(query @ key.swapaxes(1, 2) / np.float32(np.sqrt(query.shape[-1])))
        context = (scores @ value).swapaxes(0, 1).reshape(states.shape)
        attended = self._linear(context, f"{name}.attention.output.dense") + states
        states = self._normed(attended, f"{name}.attention.output.LayerNorm")
        inner = self._linear(states, f"{name}.intermediate.dense")
        inner *= (1 + erf(inner / np.float32(np.sqrt(2)))) / 2  # GELU
        return self._normed(self._linear(inner, f"{name}.output.dense") + states, f"{name}.output.LayerNorm")

    def _weight(self, name: str) -> Any:
        self.used_weights.add(name)
        return self.weights[name]

    def _linear(self, states: Any, name: str) -> Any:
        return states @ self._weight(f"{name}.weight").T + self._weight(f"{name}.bias")

    def _normed(self, states: Any, name: str) -> Any:
        centred = states - states.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(self.epsilon))
        return centred / scale * self._weight(f"{name}.weight") + self._weight(f"{name}.bias")

    def _words(self, text: str, encoding: Encoding) -> list[list[int]]:
        """The parser's words, those that have a piece."""
        words = doc_words(make_doc(tokenizing_pipeline(), text))
        aligned = align(encoding.offsets, words)
        first = aligned.word_first_pieces()
        if len(encoding.ids) < self.longest and (bare := unread_words(text, words, aligned)):
            self.warnings[UNREAD] += bare
        return [[int(place), *map(int, word)] for place, word in zip(first, words, strict=True) if place >= 0]


def stock_config(encoder: Path, labels: Sequence[str]) -> dict[str, Any]:
    """``config.json`` of a stock BERT with these labels and its tokenizer; a ValueError where it is of another."""
    files = "config.json", "tokenizer_config.json"
    config, reads = (_read(encoder / name) for name in files)
    expected = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "id2label": {str(place): label for place, label in enumerate(labels)},
        "tokenizer_class": "BertTokenizer",
        "truncation_side": "right",
        "split_special_tokens": False,
    }
    stored = expected | {name: value for name, value in {**config, **reads}.items() if name in expected}
    if stored != expected or "token_type_ids" not in reads.get("model_input_names", ["token_type_ids"]):
        raise ValueError(f"expected a model and its tokenizer with {expected}")
    return dict(config)


class FewTexts(Exported):
    """A model's folder, for texts that :func:`light_model` allows."""

    def __init__(self, folder: Path, description: Description) -> None:
        self.folder, self.truncated, self.warnings = folder, 0, Counter[str]()
        self.longest, self.lowercase, self.onnx = description.max_length, description.lowercase, True
        self.task = make(description.task)
        self._predict = Bert(folder / "encoder", self.task, self.longest, self.warnings)
        self._tokenizer = self._predict.tokenizer


def light_model(folder: Path, description: Description, texts: Sequence[UnlabelledText]) -> FewTexts | None:
    """A folder's model for these texts; None where it takes torch: for many of them, words of their owner, methods that
    take part, another architecture, another parser. What is damaged is told by who loads it with torch."""
    if not _is_plain(description) or len(texts) >= MANY_TEXTS or sum(len(text.text) for text in texts) > MANY_LETTERS:
        return None
    if any(text.words is not None or not text.text.strip() for text in texts):
        return None
    try:
        model = FewTexts(folder, description)
        pair, network = ("A text.", "Another."), model._predict
        network([pair if model.task.pairs else pair[0]])
        if network.used_weights != network.weights.keys():
            return None
    except Exception:  # whatever is in its files: it is told by who reads them next
        return None
    model.warnings.clear()
    return model


def _is_plain(description: Description) -> bool:
    """Whether all that a model is made of is a stock encoder, one of our tasks, and the shipped parser's words."""
    task, parser = description.task, description.parser
    made_of = (task.get("_target_") in TASKS, description.backbone.get("_target_") == "domadapt.models.encoder.Encoder")
    words = parser.get("_target_") in (SPACY, LISTED)
    words &= "types" not in task or parser.get("_target_") == LISTED or parser.get("name") == SHIPPED
    adds = description.methods or description.parses_at_prediction or description.control
    values = [value for made in (task, description.backbone, parser) for value in [*nested_values(made)][1:]]
    no_code = not any(isinstance(value, dict) or "${" in str(value) for value in values)
    return all(made_of) and words and not adds and no_code
