"""A backbone in half precision: half the bytes, and weights that differ from the original's by a rounding."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from domadapt.models.pretrained import TINY_RANDOM, model_folder, unreached

TEXT = (".json", ".txt", ".model")  # configuration and tokenizer


def bundled_backbone(name: str, folder: Path) -> str:
    """Copy a backbone's configuration and tokenizer, and its weights in float16.

    Args:
        name: as in the configuration.
        folder: where the bundle's content is put together.

    Returns:
        Its place in the bundle, relative to the folder; the name says the precision, so that a run's records do, too.

    Raises:
        ValueError: it has no safetensors, or a weight is too large for float16.
    """
    tiny = name == TINY_RANDOM
    place = Path("backbones", TINY_RANDOM if tiny else f"{Path(name).name}-float16")
    target, source = folder / place, _downloaded(name)
    if target.is_dir():
        return place.as_posix()
    target.mkdir(parents=True)
    for path in sorted(p for p in source.iterdir() if p.suffix in TEXT):
        shutil.copyfile(path, target / path.name)
    weights = [] if tiny else sorted(source.glob("*.safetensors"))
    if not weights and not tiny:
        raise ValueError(f"backbone.name={name!r}: {source} holds no .safetensors file; save it with save_pretrained")
    for path in weights:
        tensors = {k: v.half() if v.is_floating_point() else v for k, v in load_file(path).items()}
        large = [k for k, v in tensors.items() if v.is_floating_point() and not torch.isfinite(v).all()]
        if large:
            raise ValueError(f"backbone.name={name!r}: {large[0]} has values beyond float16's 65504")
        save_file(tensors, target / path.name, metadata={"format": "pt"})
    return place.as_posix()


def _downloaded(name: str) -> Path:
    """The folder of a backbone; a hub's name stands for what has been downloaded of it."""
    folder = Path(model_folder(name))
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.txt", "*.model", "model*.safetensors"]))
    except (OSError, ValueError) as error:
        raise ValueError(unreached(name, error)) from error
