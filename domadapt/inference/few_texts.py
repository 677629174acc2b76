"""A saved model that labels a few texts with NumPy: loading torch and transformers takes ten times as long as that.

What it labels it labels as :class:`domadapt.inference.model.Model` does in float32; tests hold the two together.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from domadapt.config.compose import make
from domadapt.data.domains import UnlabelledText
from domadapt.inference.description import LISTED, Description, checked
from domadapt.inference.exported import Exported
from domadapt.inference.onnx_model import OnnxModel, softmax
from domadapt.syntax.alignment import UNREAD, align
from domadapt.syntax.parser import SHIPPED, doc_words, make_doc, tokenizing_pipeline
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import Task
from domadapt.utils.text import inside

MANY, MOST = 200, 10_000  # texts, and characters of all, from which on torch is worth loading
TASKS = tuple(f"{task.__module__}.{task.__qualname__}" for task in (Extraction, Classification))
SPACY = "domadapt.syntax.parser.SpacyParser"
LARGEST = 1000  # of a weight; from larger ones, of a training that diverged, sums may be no numbers


class Bert(OnnxModel):
    """A stock BERT (Devlin et al. 2019) with transformers' head for words or texts, a text at a time.

    A ValueError, or a KeyError, where the folder's weights are no such model's.
    """

    def __init__(self, encoder: Path, task: Task, max_length: int, warnings: Counter[str]) -> None:
        from safetensors.numpy import load_file

        config = stock_config(encoder, task.labels)
        checked(encoder.parent)
        self.heads, self.epsilon = config["num_attention_heads"], config["layer_norm_eps"]
        self.depth, self.longest, self.warnings = config["num_hidden_layers"], max_length, warnings
        self.kind, self.labels, self.pairs, self.temperature = task.kind, task.labels, task.pairs, task.temperature
        if isinstance(task, Extraction):
            self.transitions = task.transition_weight * task.transitions.astype(float)
        self.tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length)
        weights = load_file(encoder / "model.safetensors")
        self.weights, self.used = {name.removeprefix("bert."): weight for name, weight in weights.items()}, set[str]()
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
        finite = all(one.min() > -LARGEST and one.max() < LARGEST for one in numbers)
        if not finite or any(weight.dtype != np.float32 for weight in self.weights.values()):
            raise ValueError(f"expected weights in float32 between -{LARGEST} and {LARGEST}")

    def _logits(self, batch: Sequence[Encoding]) -> list[Any]:
        """(pieces, classes), or (classes,), of each text."""
        found = [self._linear(self._states(np.array(one.ids), np.array(one.type_ids)), "classifier") for one in batch]
        return found if self.kind == "token" else [logits[0] for logits in found]

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
        self.used.add(name)
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
        first = align(encoding.offsets, words).word_first_pieces()
        if len(encoding.ids) < self.longest and (bare := int((first < 0).sum())):
            self.warnings[UNREAD] += bare
        return [[int(place), *map(int, word)] for place, word in zip(first, words, strict=True) if place >= 0]


def stock_config(encoder: Path, labels: Sequence[str]) -> dict[str, Any]:
    """``config.json`` of a stock BERT with these labels and its tokenizer; a ValueError where it is of another."""
    files = "config.json", "tokenizer_config.json"
    config, reads = (json.loads((encoder / name).read_text(encoding="utf-8")) for name in files)
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
    """A model's folder, for texts that :func:`few_texts` allows."""

    def __init__(self, folder: Path, description: Description) -> None:
        self.folder, self.truncated, self.warnings = folder, 0, Counter[str]()
        self.longest, self.lowercase, self.onnx = description.max_length, description.lowercase, True
        self.task = make(description.task)
        self.labels = self.task.labels
        self._predict = Bert(folder / "encoder", self.task, self.longest, self.warnings)
        self._tokenizer = self._predict.tokenizer


def few_texts(folder: Path, description: Description, texts: Sequence[UnlabelledText]) -> FewTexts | None:
    """A folder's model for these texts; None where it takes torch: for many of them, words of their owner, methods that
    take part, another architecture, another parser. What is damaged is told by who loads it with torch."""
    if not _is_plain(description) or len(texts) >= MANY or sum(len(text.text) for text in texts) > MOST:
        return None
    if any(text.words is not None or not text.text.strip() for text in texts):
        return None
    try:
        model = FewTexts(folder, description)
        pair, network = ("A text.", "Another."), model._predict
        network([pair if model.task.pairs else pair[0]])
        if network.used != network.weights.keys():
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
    values = [value for made in (task, description.backbone, parser) for value in [*inside(made)][1:]]
    no_code = not any(isinstance(value, dict) or "${" in str(value) for value in values)
    return all(made_of) and words and not adds and no_code
