"""A stock classifier as one ONNX file, in float32 or with weights of 8 bits."""

import json
import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from domadapt.utils.files import write_atomic

NEEDED = ("onnx", "onnxruntime", "onnxscript")
RUNNER = "onnx_model.py"


def check_installed() -> None:
    """Refuse to begin what could not end.

    Raises:
        ValueError: with the line that installs what is missing.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise ValueError(f"format=onnx needs {', '.join(missing)}: pip install 'domadapt[onnx]'")


class Logits(nn.Module):
    """A transformers classifier with tensors in and a tensor out.

    Args:
        model: any with ``logits`` in its output.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(batch, classes), or (batch, pieces, classes)."""
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def write_onnx(
    stock: Path,
    kind: str,
    max_pieces: int,
    folder: Path,
    eight_bits: bool,
    transitions: list[list[float]] | None = None,
) -> None:
    """Write ``model.onnx``, ``tokenizer.json``, ``config.json`` and the file that runs them.

    Args:
        stock: a Hugging Face folder.
        kind: of the task, ``sequence`` or ``token``.
        max_pieces: longest text.
        folder: that is there.
        transitions: (tags + 1, tags) scores of a tag after another, as decoding weights them.
        eight_bits: keep matrices as integers of 8 bits, a scale for each column; activations are scaled as they come.

    Raises:
        ValueError: a package is missing, or the model can't be exported.
    """
    check_installed()
    import onnx
    import torch
    import transformers
    from onnxruntime.quantization import QuantType, quantize_dynamic

    autoclass: Any = {
        "token": transformers.AutoModelForTokenClassification,
        "sequence": transformers.AutoModelForSequenceClassification,
    }[kind]
    whole = folder / "whole.onnx" if eight_bits else folder / "model.onnx"
    with quietly():
        tokenizer = transformers.AutoTokenizer.from_pretrained(stock)
        model = autoclass.from_pretrained(stock, dtype=torch.float32).eval()
        batch = tokenizer(["Two texts.", "One of them is longer."], padding=True, return_tensors="pt")
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("pieces")}
        names = ("input_ids", "attention_mask")
        try:
            torch.onnx.export(
                Logits(model),
                tuple(batch[name] for name in names),
                whole,
                dynamo=True,
                input_names=names,
                output_names=["logits"],
                dynamic_shapes=dict.fromkeys(names, axes),
                external_data=False,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            kind_of = type(model).__name__
            raise ValueError(f"format=onnx: torch can't export {kind_of} ({str(error).splitlines()[0]})") from error
        if eight_bits:
            # Embeddings stay as they are: of 8 bits they are half of the error, and no faster.
            settings = {"weight_type": QuantType.QInt8, "per_channel": True, "op_types_to_quantize": ["MatMul"]}
            graph = onnx.load(whole)
            # The exporter has folded transposes into weights, and left their old shapes in these hints.
            del graph.graph.value_info[:]
            quantize_dynamic(graph, folder / "model.onnx", **settings)
            whole.unlink()
    config = {
        "kind": kind,
        "id2label": {str(place): label for place, label in model.config.id2label.items()},
        "pad_token_id": int(tokenizer.pad_token_id or 0),
        "max_pieces": max_pieces,
        "transitions": transitions,
    }
    write_atomic(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
    shutil.copyfile(stock / "tokenizer.json", folder / "tokenizer.json")
    (folder / RUNNER).write_bytes((files("domadapt.inference") / RUNNER).read_bytes())


@contextmanager
def quietly() -> Iterator[None]:
    """Without what exporters and loaders say to their developers."""
    import transformers

    bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    names = ("", "onnxscript", "torch.onnx", "onnx_ir")
    levels = [logging.getLogger(name).level for name in names]
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in zip(names, levels, strict=True):
            logging.getLogger(name).setLevel(level)
        if bars:
            transformers.logging.enable_progress_bar()
