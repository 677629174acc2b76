"""A trained model as a folder for those who do not have this package: of transformers, or of onnxruntime alone."""

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from domadapt.data.domains import unlabelled
from domadapt.inference.card import model_card, recorded
from domadapt.inference.description import Description, read_description
from domadapt.inference.folder import FORMATS, free_folder, model_folder
from domadapt.inference.model import Model, load
from domadapt.inference.rows import row
from domadapt.inference.to_onnx import check_installed, quietly, write_onnx
from domadapt.utils.files import replace_folder, write_atomic

COMPARED, TIMED, ROUNDS = 200, 20, 3  # texts that agreement and speed are measured on; times that speed is
WORDS = "Words are the tokenizer's here and the parser's in domadapt: spans can differ at such as `isn't` and `$5.99`."
Predict = Callable[[list[str]], list[dict[str, Any]]]


def export(
    model: str | Path,
    to: str | Path,
    format: str = "hf",
    texts: Sequence[str] | None = None,
    drop_methods: bool = False,
    trust_code: bool = False,
) -> list[str]:
    """Write a folder that works without domadapt, with a model card, and compare it with the model it was made from.

    Args:
        model: a run's folder, or the ``model/`` in it.
        to: the folder to write; must not hold anything.
        format: ``hf`` (for ``transformers.pipeline``), ``onnx`` or ``onnx-int8`` (for onnxruntime).
        texts: to compare on; None takes those of the run's ``predictions.jsonl``, if it has one.
        drop_methods: leave out what only domadapt can do when it predicts; the comparison says what that changes.
        trust_code: as of :func:`~domadapt.inference.model.load`.

    Returns:
        What was measured, a sentence each.

    Raises:
        ValueError: the folder is taken, a package is missing, or the model is more than stock weights.
    """
    if format not in FORMATS:
        raise ValueError(f"format={format}: expected one of {', '.join(FORMATS)}")
    to, folder = Path(to), model_folder(model)
    free_folder(to)
    if format != "hf":
        check_installed()
    description = read_description(folder)
    refuse_own(description, folder, drop_methods)
    original = load(folder, "cpu", "32", trust_code)
    kind, longest = original.setting.task.kind, original.setting.max_pieces
    compared = list(_run_texts(folder) if texts is None else texts)[:COMPARED]
    measured: list[str] = []

    def write(part: Path) -> None:
        stock = part / "stock" if format != "hf" else part
        write_stock(folder / "encoder", stock, longest)
        if format != "hf":
            task: Any = original.setting.task
            transitions = (task.transition_weight * task.transitions).tolist() if kind == "token" else None
            write_onnx(stock, kind, longest, part, format == "onnx-int8", transitions)
        if compared:
            with quietly():
                measured.extend(measure(original, stock, part if format != "hf" else None, compared))
        if format != "hf":
            shutil.rmtree(stock)
        if kind == "token":
            measured.append(WORDS)
            if format == "hf" and description.task.get("transition_weight"):
                measured.append(
                    "domadapt decodes the tags of a text together, by how they follow each other in the source; this "
                    "folder alone is decoded word by word."
                )
        if dropped := description.methods:
            measured.append(f"{', '.join(dropped)} works in domadapt alone and is not part of this folder.")
        card = model_card(description, recorded(folder), usage(kind, to.name, format), measured)
        write_atomic(part / "README.md", card)

    replace_folder(to, write)
    return measured


def refuse_own(description: Description, folder: Path, drop_methods: bool) -> None:
    """Refuse a model whose predictions no stock model would give.

    Raises:
        ValueError: naming what is not stock, and what can be done.
    """
    if not str(description.backbone.get("_target_", "")).endswith(".Encoder"):
        raise ValueError(f"{folder}: its backbone is no transformers model; only those can be exported")
    if description.methods and not drop_methods:
        raise ValueError(
            f"{folder}: {', '.join(description.methods)} takes part in its predictions and works in domadapt alone; "
            f"drop_methods=true exports the rest and measures what that changes"
        )


def write_stock(encoder: Path, folder: Path, max_pieces: int) -> None:
    """A Hugging Face folder whose tokenizer cuts where the model was trained to."""
    folder.mkdir(parents=True)
    for path in encoder.iterdir():
        shutil.copyfile(path, folder / path.name)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "model_max_length": max_pieces}, indent=2), encoding="utf-8")


def usage(kind: str, name: str, format: str) -> str:
    """Python that loads the folder, whichever place it has been moved to."""
    if format != "hf":
        return (
            f"# pip install onnxruntime tokenizers; in the folder:\nfrom onnx_model import OnnxModel\n\n"
            f'model = OnnxModel("../{name}")\nmodel(["The screen is sharp, but the battery dies fast."])'
        )
    return (
        f"from transformers import pipeline\n\n"
        f'model = {pipeline_call(kind, name)}\nmodel("The screen is sharp, but the battery dies fast.")'
    )


def pipeline_call(kind: str, folder: str) -> str:
    """Python that makes transformers' pipeline of a folder.

    >>> pipeline_call("token", "out")
    'pipeline("token-classification", "out", aggregation_strategy="first")'
    """
    task, how = pipeline_of(kind)
    values = [json.dumps(value) if isinstance(value, str) else repr(value) for value in how.values()]
    given = ", ".join(f"{key}={value}" for key, value in zip(how, values, strict=True))
    return f"pipeline({json.dumps(task)}, {json.dumps(folder, ensure_ascii=False)}, {given})"


def pipeline_of(kind: str) -> tuple[str, dict[str, Any]]:
    """The task of transformers' pipeline, and the settings with which it gives whole words, and cuts long texts.

    No file of a folder can carry them: transformers 5 reads no ``task_specific_params`` of ``config.json``, and its
    ``custom_pipelines`` run code of the folder's, with ``trust_remote_code``.
    """
    if kind == "token":
        return "token-classification", {"aggregation_strategy": "first"}
    return "text-classification", {"truncation": True}


def measure(original: Model, stock: Path, onnx: Path | None, texts: list[str]) -> Iterator[str]:
    """How far a folder agrees with the model it was made from, and of ONNX how fast it is."""
    kind = original.setting.task.kind
    theirs = pipeline_like(stock, kind)
    predict = theirs
    if onnx is not None:
        from domadapt.inference.onnx_model import OnnxModel

        predict = OnnxModel(onnx)
    own = [row(t, p, kind) for t, p in zip(unlabelled(texts), original.predict(texts), strict=True)]
    yield agreement(own, predict(texts), kind)
    if onnx is not None:
        mine, other = speed(predict, theirs, texts[:TIMED])
        yield (
            f"{other / mine:.1f} times as fast as transformers' pipeline: {1000 * mine:.1f} ms a text against "
            f"{1000 * other:.1f}, text by text, on the CPU that exported it (medians of {ROUNDS} alternating rounds)."
        )


def pipeline_like(stock: Path, kind: str) -> Predict:
    """transformers' pipeline of a folder, its answers as ours."""
    from transformers import pipeline

    task, how = pipeline_of(kind)
    pipe: Any = pipeline(task, str(stock), device="cpu", **how)  # type: ignore[call-overload]

    def predict(texts: list[str]) -> list[dict[str, Any]]:
        if kind == "sequence":
            return [{"label": found["label"], "confidence": found["score"]} for found in map(_only, map(pipe, texts))]
        return [
            {"spans": [{"start": s["start"], "end": s["end"], "type": s["entity_group"]} for s in pipe(text)]}
            for text in texts
        ]

    return predict


def _only(found: Any) -> Any:
    return found[0] if isinstance(found, list) else found


def agreement(own: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], kind: str) -> str:
    """In how many texts two models say the same.

    >>> agreement([{"label": "a"}, {"label": "b"}], [{"label": "a"}, {"label": "a"}], "sequence")
    'The same label in 1 of 2 texts.'
    """
    if kind == "sequence":
        same = sum(a["label"] == b["label"] for a, b in zip(own, other, strict=True))
        return f"The same label in {same} of {len(own)} texts."
    found = [[{(s["start"], s["end"], s["type"]) for s in r["spans"]} for r in rows] for rows in (own, other)]
    pairs = list(zip(*found, strict=True))
    same = sum(a == b for a, b in pairs)
    shared = 200 * sum(len(a & b) for a, b in pairs) / max(1, sum(len(a) + len(b) for a, b in pairs))
    return f"The same spans in {same} of {len(own)} texts; {shared:.1f} % of all spans are shared (F1)."


def speed(first: Predict, second: Predict, texts: list[str]) -> tuple[float, float]:
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


def _run_texts(folder: Path) -> Iterator[str]:
    path = folder.parent / "predictions.jsonl"
    if folder.name == "model" and path.is_file():
        yield from (json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()[:COMPARED])
