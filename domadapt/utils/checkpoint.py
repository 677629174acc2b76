"""Checkpoints that run no code: one safetensors file, its header holding everything that is not a tensor as JSON.

safetensors notices a file that is cut off, not one whose numbers have changed; the header's checksum does.
"""

import json
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from domadapt.utils.files import replace_atomic

FORMAT = "domadapt checkpoint 2"


def save(checkpoint: dict[str, Any], path: Path) -> None:
    """Write nested dicts, lists and tuples of tensors, numbers, strings, booleans and None; nothing else.

    >>> import tempfile, torch
    >>> path = Path(tempfile.mkdtemp(), "last.safetensors")
    >>> save({"step": 3, "moments": {0: (torch.ones(2), None)}}, path)
    >>> load(path)
    {'step': 3, 'moments': {0: (tensor([1., 1.]), None)}}
    """
    tensors: dict[str, Tensor] = {}
    content = json.dumps(_without_tensors(checkpoint, tensors))
    header = {FORMAT: f"{_checksum(content, tensors)} {content}"}  # one entry: safetensors would shuffle several
    replace_atomic(path, lambda part: save_file(tensors, part, metadata=header))


def load(path: Path) -> dict[str, Any]:
    """Read what :func:`save` wrote; a damaged file, or something else such as a pickle, is a ValueError."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if FORMAT not in header:
                raise ValueError(f"{path}: not a {FORMAT}, but something else or of another version; delete it")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: not a whole checkpoint ({error}); delete it") from error
    checksum, _, content = header[FORMAT].partition(" ")
    if checksum != _checksum(content, tensors):
        raise ValueError(f"{path}: damaged, its checksum is another; delete it")
    result: dict[str, Any] = _with_tensors(json.loads(content), tensors)
    return result


def _checksum(content: str, tensors: dict[str, Tensor]) -> str:
    total = zlib.crc32(content.encode())
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"


def _without_tensors(value: Any, tensors: dict[str, Tensor]) -> Any:
    """A value as JSON, its tensors moved into ``tensors``."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()  # tied weights share memory, a file may not
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[_without_tensors(k, tensors), _without_tensors(v, tensors)] for k, v in value.items()]}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_without_tensors(item, tensors) for item in value]}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"a checkpoint can't hold {type(value).__name__}: expected tensors, numbers, strings, containers")


def _with_tensors(value: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {_with_tensors(k, tensors): _with_tensors(v, tensors) for k, v in content}
    items = [_with_tensors(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items
