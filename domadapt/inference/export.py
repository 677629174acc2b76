"""A model handed over: as a Hugging Face folder or for onnxruntime, with a card."""

import json
import logging
import shutil
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from domadapt.config.overrides import in_range, one_of
from domadapt.data.domains import unlabelled
from domadapt.data.texts import lower_in_place
from domadapt.inference.description import (
    FORMATS,
    LABELS,
    Description,
    labels_read,
    model_folder,
    read_description,
    refuse_occupied,
)
from domadapt.inference.model import Model, load
from domadapt.inference.model_card import PIPELINES, model_card, usage
from domadapt.inference.onnx_model import OnnxModel
from domadapt.inference.smaller import HELD_OUT, cut_folder, shrink, stock_model
from domadapt.inference.thresholds import source_dev
from domadapt.methods.session import Session
from domadapt.models import pretrained
from domadapt.runs.groups import read_metrics
from domadapt.tasks.task import row
from domadapt.utils.files import replace_folder, write_atomic
from domadapt.utils.pairs import text_fields
from domadapt.utils.text import read_json_lines
from domadapt.utils.work import quieter

RUNNER = "onnx_model.py"
SPACE = "Spans of transformers' pipeline begin with the space before their first word: strip it."
COMPARED, TIMED, ROUNDS = 200, 20, 3  # texts that agreement and speed are measured on; times that speed is
WORDS = "Words are the tokenizer's here and the parser's in domadapt: spans can differ at such as `isn't` and `$5.99`."
WORD_BY_WORD = (
    "domadapt decodes the tags of a text together, by how they follow each other in the source, and calibrates "
    "confidences; this folder alone is decoded word by word, and its confidences are not calibrated."
)
Predict = Callable[[list[Any]], list[dict[str, Any]]]  # of texts, or of pairs of them


class Logits(nn.Module):
    """A transformers classifier with tensors in and a tensor out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """(batch, classes), or (batch, pieces, classes)."""
        segments = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, **segments).logits
        return logits


class RowEmbedding(nn.Module):
    """Embeddings of 8 bits, a scale a row: (..., width) of (...) ids.

    >>> rows = torch.tensor([[1.27, -0.5], [0.02, 0.01]])
    >>> bool(((RowEmbedding(rows)(torch.tensor([1, 0])) - rows[[1, 0]]).abs() < 0.005).all())
    True
    """

    rows: Tensor
    scales: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        scales = weight.detach().abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        self.register_buffer("rows", (weight.detach() / scales).round().char())
        self.register_buffer("scales", scales)

    def forward(self, ids: Tensor) -> Tensor:
        return self.rows[ids].to(self.scales.dtype) * self.scales[ids]


def write_onnx(stock: Path, model: Any, session: Session, folder: Path, eight_bits: bool) -> None:
    """Write ``model.onnx``, of ``eight_bits`` or 32, ``tokenizer.json``, ``config.json`` and what runs them."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    whole = folder / "whole.onnx" if eight_bits else folder / "model.onnx"
    tokenizer = transformers.AutoTokenizer.from_pretrained(stock)
    stock_rows = model.get_input_embeddings()
    if eight_bits:
        model.set_input_embeddings(RowEmbedding(stock_rows.weight))
    batch = tokenizer(["Two texts.", "One of them is longer."], padding=True, return_tensors="pt")
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("pieces")}
    names = ["input_ids", "attention_mask"]
    names += ["token_type_ids"] * (session.task.pairs and "token_type_ids" in batch)
    # 23 has attention as one operator, which is a tenth faster; its rotary one fails on batches as torch writes it.
    rotary = any("rotary" in name for name, _ in model.named_modules())
    try:
        torch.onnx.export(
            Logits(model),
            tuple(batch[name] for name in names),
            whole,
            dynamo=True,
            opset_version=20 if rotary else 23,
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=dict.fromkeys(names, axes),
            external_data=False,
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        why = f"{type(model).__name__} ({str(error).splitlines()[0]})"
        raise ValueError(f"format=onnx: torch can't export {why}") from error
    finally:
        model.set_input_embeddings(stock_rows)
    if eight_bits:
        settings = {"weight_type": QuantType.QInt8, "per_channel": True, "op_types_to_quantize": ["MatMul"]}
        graph = onnx.load(whole)
        # The exporter has folded transposes into weights, and left their old shapes in these hints.
        del graph.graph.value_info[:]
        quantize_dynamic(graph, folder / "model.onnx", **settings)
        whole.unlink()
    task: Any = session.task
    config = {
        "kind": task.kind,
        "id2label": {str(place): label for place, label in model.config.id2label.items()},
        "pad_token_id": int(tokenizer.pad_token_id or 0),
        "max_length": session.max_length,
        "transitions": (task.transition_weight * task.transitions).tolist() if task.kind == "token" else None,
        "temperature": task.temperature if task.kind == "token" else 1.0,  # else it is in the head
        "pairs": task.pairs,
        "one_by_one": eight_bits,
        "average": task.headline if task.kind == "sequence" else task.average,  # as it is scored
    }
    write_atomic(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
    shutil.copyfile(stock / "tokenizer.json", folder / "tokenizer.json")
    (folder / RUNNER).write_bytes((files("domadapt.inference") / RUNNER).read_bytes())


@contextmanager
def quietly() -> Iterator[None]:
    """Without what exporters and loaders say to their developers."""
    names = ("", "onnxscript", "torch.onnx", "onnx_ir")
    with pretrained.quietly(), quieter(names, logging.ERROR), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def export(
    model: str | Path,
    to: str | Path,
    format: str = "hf",
    texts: Sequence[str] | None = None,
    drop_methods: bool = False,
    trust_code: bool = False,
    vocabulary: str = "whole",
    layers: int | None = None,
    distil_epochs: int = 10,
) -> list[str]:
    """Write a folder that works without domadapt, with a model card, and compare it with the model it was made from.

    Gives what was measured, a sentence each. ``conf/export.yaml`` says what the settings are; ``texts`` are its input.
    """
    check_options(format, vocabulary, layers, distil_epochs)
    one_of("drop_methods", drop_methods, True, False)
    if (vocabulary == "corpus" or layers is not None) and texts is None:
        raise ValueError("vocabulary=corpus and layers need texts of the new domain: input=FILE")
    to, folder = Path(to), model_folder(model)
    refuse_occupied(to, folder)
    description = read_description(folder)
    refuse_non_stock(description, folder, drop_methods)
    if description.lowercase and texts is not None:  # as the model reads them, and as the card says to give them
        texts = [lower_in_place(text) for text in texts]
    original = load(folder, "cpu", "32", trust_code)
    session, compared, measured = original.session, comparison_texts(folder, texts, layers is not None), list[str]()

    def write(part: Path) -> None:
        onnx = part if format != "hf" else None
        stock = part / "stock" if onnx else part
        write_stock(folder / "encoder", stock, session)
        if vocabulary == "corpus":
            measured.extend(cut_folder(stock, texts or ()))
        if layers is not None:
            learnt = [text for place, text in enumerate(texts or ()) if place % HELD_OUT]
            network, done = shrink(stock, learnt, layers, distil_epochs)
            network.save_pretrained(stock)
            measured.extend([*done, f"It is compared on {len(compared)} others:"])
        if onnx:
            write_onnx(stock, stock_model(stock), session, onnx, format == "onnx-int8")
        if layers is not None or vocabulary == "corpus" or onnx:
            file = onnx / "model.onnx" if onnx else stock / "model.safetensors"
            measured.append(f"{file.name} has {file.stat().st_size / 1e6:.1f} MB.")
        measured.extend(measure(original, stock, onnx, compared))
        if onnx:
            shutil.rmtree(stock)
        measured.extend(notes(description, None if onnx else stock))
        use = usage(session.task.kind, to.name, format, session.task.pairs)
        write_card(part, folder, description, use, measured)

    with quietly():
        replace_folder(to, write)
    return measured


def comparison_texts(folder: Path, texts: Sequence[str] | None, held_out: bool) -> list[str]:
    """Some of the texts, of which ``less`` of a model has not learnt; where none are given, of its predictions."""
    if texts is not None:
        return [*(texts[::HELD_OUT] if held_out else texts)][:COMPARED]
    if (predictions := run_file(folder, "predictions.jsonl")) is None:
        return []
    try:
        return [str(line["text"]) for line in read_json_lines(predictions)[:COMPARED]]
    except (ValueError, KeyError, TypeError) as error:
        problem = f"damaged ({type(error).__name__}: {error}); delete it, or give other texts: input=FILE"
        raise ValueError(f"{predictions}: {problem}") from error


def write_card(part: Path, folder: Path, description: Description, use: str, measured: Sequence[str]) -> None:
    """``README.md``, by what the model's folder and its run say of it."""
    path, read = run_file(folder, "metrics.json"), labels_read(folder / "encoder")
    metrics = read_metrics(path) if path else None
    write_atomic(part / "README.md", model_card(description, metrics, use, measured, source_dev(folder), read))
    shutil.copyfile(folder / "encoder" / LABELS, part / LABELS)


def run_file(folder: Path, name: str) -> Path | None:
    """A file of the run whose ``model/`` the folder is; None where the folder was taken from its run."""
    path = folder.parent / name
    return path if folder.name == "model" and path.is_file() else None


def notes(description: Description, stock: Path | None) -> Iterator[str]:
    """What is otherwise than in domadapt; ``stock`` is the folder of transformers, where that is what is exported."""
    if "types" in description.task:
        yield WORDS
        if stock and '"Metaspace"' in (stock / "tokenizer.json").read_text(encoding="utf-8"):
            yield SPACE
        if stock and description.task.get("transition_weight"):
            yield WORD_BY_WORD
    if description.lowercase:
        yield "domadapt lower-cases all text, as this model was trained; this folder reads text as it is: lower it."
    if dropped := description.methods:
        yield f"{', '.join(dropped)} works in domadapt alone and is not part of this folder."


def check_options(format: str, vocabulary: str, layers: int | None, distil_epochs: int) -> None:
    one_of("format", format, *FORMATS)
    one_of("vocabulary", vocabulary, "whole", "corpus")
    in_range("distil_epochs", distil_epochs, 1)
    if layers is not None:
        in_range("layers", layers, 1)
    if distil_epochs != 10 and layers is None:
        raise ValueError(f"distil_epochs={distil_epochs}: nothing is distilled; add layers=")
    needed = ("onnx", "onnxruntime", "onnxscript") if format != "hf" else ()
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ValueError(f"format=onnx needs {', '.join(missing)}: pip install 'domadapt[onnx]'")


def refuse_non_stock(description: Description, folder: Path, drop_methods: bool) -> None:
    """Refuse a model whose predictions no stock model would give."""
    if not str(description.backbone.get("_target_", "")).endswith(".Encoder"):
        raise ValueError(f"{folder}: its backbone is no transformers model; only those can be exported")
    if description.methods and not drop_methods:
        why = "takes part in its predictions and works in domadapt alone"
        fix = "drop_methods=true exports the rest, and input=FILE measures what that changes"
        raise ValueError(f"{folder}: {', '.join(description.methods)} {why}; {fix}")


def write_stock(encoder: Path, folder: Path, session: Session) -> None:
    """A Hugging Face folder whose tokenizer cuts where the model was trained to, and which is as sure as the model."""
    folder.mkdir(parents=True)
    for path in filter(Path.is_file, encoder.iterdir()):  # a folder of somebody's may lie beside
        shutil.copyfile(path, folder / path.name)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "model_max_length": session.max_length}, indent=2), encoding="utf-8")
    if session.task.kind == "sequence":
        path = folder / "config.json"  # a stock one does not say whether texts are pairs
        config = {**json.loads(path.read_text(encoding="utf-8")), "pairs": session.task.pairs}
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")
        calibrate(folder, session)


def calibrate(stock: Path, session: Session) -> None:
    """Divide the head by the temperature."""
    encoder: Any = session.encoder
    named, size = encoder.model.named_modules(), len(session.task.labels)
    heads = [name for name, part in named if isinstance(part, nn.Linear) and part.out_features == size]
    path = stock / "model.safetensors"
    weights = load_file(path)
    for name in {f"{heads[-1]}.weight", f"{heads[-1]}.bias"} & weights.keys():
        weights[name] = weights[name] / session.task.temperature
    save_file(weights, path, metadata={"format": "pt"})


def measure(original: Model, stock: Path, onnx: Path | None, texts: list[str]) -> Iterator[str]:
    """How far a folder agrees with the model it was made from, and of ONNX how fast it is."""
    if not texts:
        yield "It was not compared with the original, for want of texts: give input=FILE."
        return
    kind = original.session.task.kind
    theirs = pipeline_like(kind, model=str(stock))
    predict = theirs if onnx is None else OnnxModel(onnx)
    expected = [row(t, p, kind) for t, p in zip(unlabelled(texts), original.predict(texts), strict=True)]
    given = [tuple(sides) if len(sides := text_fields(text).values()) == 2 else text for text in texts]
    yield agreement(expected, predict(given), kind)
    if onnx is not None:
        mine, other = speed(predict, theirs, given[:TIMED])
        yield (
            f"{other / mine:.1f} times as fast as transformers' pipeline: {1000 * mine:.1f} ms a text against "
            f"{1000 * other:.1f}, text by text, on the CPU that exported it (medians of {ROUNDS} alternating rounds)."
        )


def pipeline_like(kind: str, **loaded: Any) -> Predict:
    """transformers' pipeline of a ``model``, a folder, or of a network with its ``tokenizer``; its answers as ours."""
    task, how = PIPELINES[kind]
    pipe: Any = transformers.pipeline(task, **loaded, device="cpu", **how)  # type: ignore[call-overload]

    def span(entity: Any, text: str) -> dict[str, Any]:
        start, end = entity["start"], entity["end"]
        start = end - len(text[start:end].lstrip())  # see SPACE
        return {"start": start, "end": end, "type": entity["entity_group"], "confidence": float(entity["score"])}

    def answer(text: Any) -> dict[str, Any]:
        output = pipe(text if isinstance(text, str) else dict(zip(("text", "text_pair"), text, strict=True)))
        if kind == "token":
            return {"spans": [span(item, text) for item in output]}
        item = output[0] if isinstance(output, list) else output
        return {"label": item["label"], "confidence": item["score"]}

    return lambda texts: [*map(answer, texts)]


def agreement(own: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], kind: str) -> str:
    """In how many texts two models say the same.

    >>> agreement([{"label": "a"}, {"label": "b"}], [{"label": "a"}, {"label": "a"}], "sequence")
    'The same label in 1 of 2 texts.'
    """
    if kind == "sequence":
        same = sum(a["label"] == b["label"] for a, b in zip(own, other, strict=True))
        return f"The same label in {same} of {len(own)} texts."
    spans = [[{(s["start"], s["end"], s["type"]) for s in r["spans"]} for r in rows] for rows in (own, other)]
    pairs = list(zip(*spans, strict=True))
    same = sum(a == b for a, b in pairs)
    shared = 200 * sum(len(a & b) for a, b in pairs) / max(1, sum(len(a) + len(b) for a, b in pairs))
    return f"The same spans in {same} of {len(own)} texts; {shared:.1f} % of all spans are shared (F1)."


def speed(first: Predict, second: Predict, texts: list[Any]) -> tuple[float, float]:
    """Seconds a text of two models, one text at a time, measured in alternation."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS + 1):  # the first warms up
        for predict, took in zip((first, second), times, strict=True):
            started = time.perf_counter()
            for text in texts:
                predict([text])
            if turn:
                took.append((time.perf_counter() - started) / len(texts))
    return statistics.median(times[0]), statistics.median(times[1])
