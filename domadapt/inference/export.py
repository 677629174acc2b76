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

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from domadapt.data.domains import unlabelled
from domadapt.inference.cut_vocabulary import cut_folder
from domadapt.inference.description import FORMATS, Description, free_folder, model_folder, read_description
from domadapt.inference.model import Model, load, row
from domadapt.inference.smaller import smaller, stock_model
from domadapt.inference.thresholds import SHOWN, rates, source_dev
from domadapt.methods.method import in_range, one_of
from domadapt.methods.session import Session
from domadapt.runs.groups import read_metrics
from domadapt.runs.metrics import Metrics
from domadapt.utils.files import replace_folder, write_atomic
from domadapt.utils.pairs import apart
from domadapt.utils.text import visible


def model_card(
    description: Description,
    metrics: Metrics | None,
    use: str,
    measured: Sequence[str],
    dev: Mapping[str, Any] | None = None,
) -> str:
    """Markdown with the hub's front matter: what was trained, on what, how good it is, what it can't do.

    Of what ``domadapt.json`` says, the run's metrics if they are there, Python that loads it, sentences on how it
    compares with the model it was made from, and :func:`~domadapt.inference.thresholds.source_dev`.
    """
    token = "types" in description.task
    names = ", ".join(f"`{visible(str(name))}`" for name in description.task["types" if token else "labels"])
    source, target = visible(description.source), visible(description.target)
    beside = ["## Beside the model it was made from", "", *(f"- {line}" for line in measured), ""] if measured else []
    lines = [
        "---",
        f"pipeline_tag: {'token' if token else 'text'}-classification",
        "tags: [domadapt, domain-adaptation]",
        *(["inference: {parameters: {aggregation_strategy: first}}"] if token else ()),  # of the hub's widget
        "---",
        "",
        f"# {'Extraction' if token else 'Classification'}, {source} to {target}",
        "",
        f"The model {'finds spans of the types' if token else 'gives a text one of the labels'} {names}.",
        "",
        _trained(description, metrics, source, target),
        "",
        *_scores(metrics, source, target),
        *_thresholds(dev or {}, source),
        *("## Use", "", "```python", use, "```", ""),
        *beside,
        *("## Limits", ""),
        *(f"- {line}" for line in _limits(description, metrics, source, target)),
    ]
    return "\n".join(lines) + "\n"


def _trained(description: Description, metrics: Metrics | None, source: str, target: str) -> str:
    backbone = visible(Path(str(description.backbone.get("name", ""))).name)
    methods = [*description.methods, *description.left_behind]
    with_ = f", with {', '.join(methods)}" if methods else ""
    if metrics is None:
        return f"Trained by domadapt on labelled text of {source}{with_}, from the backbone `{backbone}`."
    counts, ceiling = metrics.counts, metrics.role == "in_domain"
    seen = "" if ceiling else f" and {counts.target_unlabelled} texts of {target} without labels"
    return (
        f"Trained by domadapt {metrics.versions.get('domadapt', '')} on {counts.source_train} labelled texts of "
        f"{target if ceiling else source}{seen} at hand{with_}, from the backbone `{backbone}`, seed {metrics.seed}, "
        f"{len(metrics.curve)} epochs of which {metrics.selection.epoch} was kept (by {metrics.selection.validator})."
    )


def _scores(metrics: Metrics | None, source: str, target: str) -> list[str]:
    if metrics is None:
        return ["## Scores", "", "Not known: the folder lay apart from its run's `metrics.json`.", ""]
    counts, headline, sizes = metrics.counts, metrics.headline, metrics.target_test_sizes
    rows = [
        (f"{source}, held out to choose the epoch", counts.source_dev, metrics.source_dev),
        (f"{source}, test", None, metrics.source_test),
        (f"{target}, test", sizes.all if sizes else None, metrics.target_test),
    ]
    shown = [headline, *sorted(n for n in metrics.source_dev if n != headline and n.endswith(("_f1", "accuracy")))]
    lines = ["## Scores", "", f"| | texts | {' | '.join(shown)} |", f"|---|---:|{'---:|' * len(shown)}"]
    for name, count, scores in rows:
        if scores:
            numbers = (f"{100 * scores[n]:.1f}" if n in scores else "" for n in shown)
            lines.append(f"| {name} | {'' if count is None else count} | {' | '.join(numbers)} |")
    lines += ["", f"`{headline}` is what models are compared by; all in percent, of one run.", ""]
    if not metrics.target_test:
        lines += [f"There were no labels of {target}: how good the model is there has not been measured.", ""]
        if one := metrics.expected:
            shares = (f"{100 * share:.0f}" for share in (one.score, one.low, one.high))
            lines += ["Expected there, without a label: {} ({} to {}, nine times in ten).".format(*shares), ""]
    return lines


def _thresholds(dev: Mapping[str, Any], source: str) -> Iterator[str]:
    """Precision and recall by the confidence from which on predictions are taken."""
    if dev:
        yield from ("## Thresholds", "", f"| | {' | '.join(f'from {limit:g}' for limit in SHOWN)} |")
        yield f"|---|{'---|' * len(SHOWN)}"
        for name, kind in dev["kinds"].items():
            yield f"| {visible(name)} | {' | '.join(', '.join(rates(kind, limit)) for limit in SHOWN)} |"
        where = f"{dev['texts']} held-out texts of {source}"
        yield from ("", f"Precision and recall on {where}, of predictions with this confidence in domadapt.", "")


def _limits(description: Description, metrics: Metrics | None, source: str, target: str) -> Iterator[str]:
    yield f"It reads the first {description.max_pieces} pieces of a text; nothing beyond is labelled."
    other = "on other text, and in other languages,"
    yield f"It was trained on text of {source} and made for {target}; its score {other} is not known."
    if metrics and metrics.calibration.error is not None:
        error = 100 * metrics.calibration.error
        yield f"Its confidence is off by {error:.0f} points of 100 on average (calibration error, {target})."
    else:
        yield f"How far its confidence can be believed on {target} has not been measured."
    if metrics and metrics.role == "in_domain":
        yield f"It is a ceiling: it was trained on labels of {target} itself."


RUNNER = "onnx_model.py"


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

    >>> import torch
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
    """Write ``model.onnx``, ``tokenizer.json``, ``config.json`` and the file that runs them.

    With ``eight_bits``, matrices are of 8 bits with a scale for each column, embeddings with one for each row.
    """
    import onnx
    import torch
    import transformers
    from onnxruntime.quantization import QuantType, quantize_dynamic

    whole = folder / "whole.onnx" if eight_bits else folder / "model.onnx"
    with quietly():
        tokenizer = transformers.AutoTokenizer.from_pretrained(stock)
        stock_rows = model.get_input_embeddings()
        if eight_bits:
            model.set_input_embeddings(RowEmbedding(stock_rows.weight))
        batch = tokenizer(["Two texts.", "One of them is longer."], padding=True, return_tensors="pt")
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("pieces")}
        names = ["input_ids", "attention_mask"]
        names += ["token_type_ids"] * (session.task.pairs and "token_type_ids" in batch)
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
        "max_pieces": session.max_pieces,
        "transitions": (task.transition_weight * task.transitions).tolist() if task.kind == "token" else None,
        "temperature": task.temperature if task.kind == "token" else 1.0,  # else it is in the head
        "pairs": task.pairs,
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


SPACE = "Spans of transformers' pipeline begin with the space before their first word: strip it."
VOCABULARIES = ("whole", "corpus")
COMPARED, TIMED, ROUNDS = 200, 20, 3  # texts that agreement and speed are measured on; times that speed is
HELD_OUT = 10  # every tenth text is not learnt from, where a smaller model learns
WORDS = "Words are the tokenizer's here and the parser's in domadapt: spans can differ at such as `isn't` and `$5.99`."
WORD_BY_WORD = (
    "domadapt decodes the tags of a text together, by how they follow each other in the source, and calibrates "
    "confidences; this folder alone is decoded word by word, and is surer than it is right."
)
Predict = Callable[[list[Any]], list[dict[str, Any]]]  # of texts, or of pairs of them


def export(
    model: str | Path,
    to: str | Path,
    format: str = "hf",
    texts: Sequence[str] | None = None,
    drop_methods: bool = False,
    trust_code: bool = False,
    vocabulary: str = "whole",
    layers: int | None = None,
    prune_heads: float = 0.0,
    distil_epochs: int = 10,
) -> list[str]:
    """Write a folder that works without domadapt, with a model card, and compare it with the model it was made from.

    Gives what was measured, a sentence each.

    Args:
        model: a run's folder, or the ``model/`` in it.
        to: the folder to write; must not hold anything.
        format: ``hf`` (for ``transformers.pipeline``), ``onnx`` or ``onnx-int8`` (for onnxruntime).
        texts: to compare on; None takes those of the run's ``predictions.jsonl``, if it has one.
        drop_methods: leave out what only domadapt can do when it predicts; the comparison says what that changes.
        vocabulary: ``whole``, or ``corpus``: the pieces that ``texts`` need, and short ones.
        layers: how many stay, and learn from the whole model what it says of ``texts``; None for all.
        prune_heads: share of attention heads that go, of ONNX alone; the rest learns likewise.
        distil_epochs: of that learning.
    """
    check_options(format, vocabulary, layers, prune_heads, distil_epochs)
    less = layers is not None or prune_heads > 0
    if (vocabulary == "corpus" or less) and texts is None:
        raise ValueError("vocabulary=corpus, layers and prune_heads need texts of the new domain: input=FILE")
    to, folder, onnx = Path(to), model_folder(model), format != "hf"
    free_folder(to)
    description = read_description(folder)
    refuse_own(description, folder, drop_methods)
    original = load(folder, "cpu", "32", trust_code)
    kind = original.session.task.kind
    compared = of_its_run(folder) if texts is None else [*(texts[::HELD_OUT] if less else texts)][:COMPARED]
    measured: list[str] = []

    def write(part: Path) -> None:
        stock = part / "stock" if onnx else part
        write_stock(folder / "encoder", stock, original.session.max_pieces)
        if kind == "sequence":
            calibrate(stock, original.session)
        if vocabulary == "corpus":
            with quietly():
                measured.extend(cut_folder(stock, texts or ()))
        if less:
            learnt = [text for place, text in enumerate(texts or ()) if place % HELD_OUT]
            network, said = smaller(stock, learnt, layers, prune_heads, distil_epochs)
            measured.extend([*said, f"It is compared on {len(compared)} others:"])
        if onnx:
            with quietly():
                model = network if less else stock_model(stock)
                write_onnx(stock, model, original.session, part, format == "onnx-int8")
        elif less:
            network.save_pretrained(stock)
        if less or vocabulary == "corpus" or onnx:
            measured.append(size(part / "model.onnx" if onnx else stock / "model.safetensors"))
        if compared:
            with quietly():
                measured.extend(measure(original, stock, part if onnx else None, compared))
        if onnx:
            shutil.rmtree(stock)
        measured.extend(notes(description, None if onnx else stock))
        use, dev = usage(kind, to.name, format, original.session.task.pairs), source_dev(folder)
        beside = folder.parent / "metrics.json"  # unless the folder was taken from its run
        metrics = read_metrics(beside) if folder.name == "model" and beside.is_file() else None
        write_atomic(part / "README.md", model_card(description, metrics, use, measured, dev))

    replace_folder(to, write)
    return measured


def of_its_run(folder: Path) -> list[str]:
    """Texts of the ``predictions.jsonl`` beside a run's model, if there is one."""
    path = folder.parent / "predictions.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if folder.name == "model" and path.is_file() else []
    return [json.loads(line)["text"] for line in lines[:COMPARED]]


def notes(description: Description, stock: Path | None) -> Iterator[str]:
    """What is otherwise than in domadapt; ``stock`` is the folder of transformers, where that is what is exported."""
    if "types" in description.task:
        yield WORDS
        if stock and '"Metaspace"' in (stock / "tokenizer.json").read_text(encoding="utf-8"):
            yield SPACE
        if stock and description.task.get("transition_weight"):
            yield WORD_BY_WORD
    if dropped := description.methods:
        yield f"{', '.join(dropped)} works in domadapt alone and is not part of this folder."


def check_options(format: str, vocabulary: str, layers: int | None, prune_heads: float, distil_epochs: int) -> None:
    """Refuse what no model can be exported as."""
    one_of("format", format, *FORMATS)
    one_of("vocabulary", vocabulary, *VOCABULARIES)
    in_range("prune_heads", prune_heads, 0, 0.9)
    in_range("distil_epochs", distil_epochs, 1)
    if layers is not None:
        in_range("layers", layers, 1)
    if prune_heads and format == "hf":
        raise ValueError("prune_heads: no folder of transformers can say which heads are gone; add format=onnx")
    needed = ("onnx", "onnxruntime", "onnxscript") if format != "hf" else ()
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ValueError(f"format=onnx needs {', '.join(missing)}: pip install 'domadapt[onnx]'")


def refuse_own(description: Description, folder: Path, drop_methods: bool) -> None:
    """Refuse a model whose predictions no stock model would give."""
    if not str(description.backbone.get("_target_", "")).endswith(".Encoder"):
        raise ValueError(f"{folder}: its backbone is no transformers model; only those can be exported")
    if description.methods and not drop_methods:
        why = "takes part in its predictions and works in domadapt alone"
        fix = "drop_methods=true exports the rest and measures what that changes"
        raise ValueError(f"{folder}: {', '.join(description.methods)} {why}; {fix}")


def size(path: Path) -> str:
    """Of a model's file, in words."""
    return f"{path.name} has {path.stat().st_size / 1e6:.1f} MB."


def write_stock(encoder: Path, folder: Path, max_pieces: int) -> None:
    """A Hugging Face folder whose tokenizer cuts where the model was trained to."""
    folder.mkdir(parents=True)
    for path in encoder.iterdir():
        shutil.copyfile(path, folder / path.name)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "model_max_length": max_pieces}, indent=2), encoding="utf-8")


def calibrate(stock: Path, session: Session) -> None:
    """Divide the head by the temperature, so that whoever runs the folder gets the confidences that domadapt gives."""
    encoder: Any = session.encoder
    named, size = encoder.model.named_modules(), len(session.task.labels)
    heads = [name for name, part in named if isinstance(part, nn.Linear) and part.out_features == size]
    path = stock / "model.safetensors"
    weights = load_file(path)
    for name in {f"{heads[-1]}.weight", f"{heads[-1]}.bias"} & weights.keys():
        weights[name] = weights[name] / session.task.temperature
    save_file(weights, path, metadata={"format": "pt"})


def usage(kind: str, name: str, format: str, pairs: bool = False) -> str:
    """Python that loads the folder, whichever place it has been moved to."""
    first, call = "from transformers import pipeline", pipeline_call(kind, name)
    if format != "hf":
        first = "# pip install onnxruntime tokenizers; in the folder:\nfrom onnx_model import OnnxModel"
        call = f'OnnxModel("../{name}")'
    text: Any = "The screen is sharp, but the battery dies fast."
    if pairs:
        text = {"text": "It rains.", "text_pair": "It is dry."} if format == "hf" else ["It rains.", "It is dry."]
    return f"{first}\n\nmodel = {call}\nmodel({json.dumps(text if format == 'hf' else [text])})"


# The tasks of transformers' pipeline, and the settings with which it gives whole words, and cuts long texts. No file of
# a folder can carry them: transformers 5 reads no ``task_specific_params`` of ``config.json``, and its
# ``custom_pipelines`` run code of the folder's, with ``trust_remote_code``.
PIPELINES: dict[str, tuple[str, dict[str, Any]]] = {
    "token": ("token-classification", {"aggregation_strategy": "first"}),
    "sequence": ("text-classification", {"truncation": True}),
}


def pipeline_call(kind: str, folder: str) -> str:
    """Python that makes transformers' pipeline of a folder.

    >>> pipeline_call("token", "out")
    'pipeline("token-classification", "out", aggregation_strategy="first")'
    """
    task, how = PIPELINES[kind]
    given = ", ".join(f"{key}={json.dumps(value) if isinstance(value, str) else value}" for key, value in how.items())
    return f"pipeline({json.dumps(task)}, {json.dumps(folder, ensure_ascii=False)}, {given})"


def measure(original: Model, stock: Path, onnx: Path | None, texts: list[str]) -> Iterator[str]:
    """How far a folder agrees with the model it was made from, and of ONNX how fast it is."""
    kind = original.session.task.kind
    theirs = pipeline_like(stock, kind)
    predict = theirs
    if onnx is not None:
        from domadapt.inference.onnx_model import OnnxModel

        predict = OnnxModel(onnx)
    own = [row(t, p, kind) for t, p in zip(unlabelled(texts), original.predict(texts), strict=True)]
    given = [tuple(both) if len(both := apart(text).values()) == 2 else text for text in texts]
    yield agreement(own, predict(given), kind)
    if onnx is not None:
        mine, other = speed(predict, theirs, given[:TIMED])
        yield (
            f"{other / mine:.1f} times as fast as transformers' pipeline: {1000 * mine:.1f} ms a text against "
            f"{1000 * other:.1f}, text by text, on the CPU that exported it (medians of {ROUNDS} alternating rounds)."
        )


def pipeline_like(stock: Path, kind: str) -> Predict:
    """transformers' pipeline of a folder, its answers as ours."""
    from transformers import pipeline

    task, how = PIPELINES[kind]
    pipe: Any = pipeline(task, str(stock), device="cpu", **how)  # type: ignore[call-overload]

    def span(found: Any, text: str) -> dict[str, Any]:
        start, end = found["start"], found["end"]
        return {"start": end - len(text[start:end].lstrip()), "end": end, "type": found["entity_group"]}  # see SPACE

    def answer(text: Any) -> dict[str, Any]:
        found = pipe(text if isinstance(text, str) else dict(zip(("text", "text_pair"), text, strict=True)))
        if kind == "token":
            return {"spans": [span(one, text) for one in found]}
        one = found[0] if isinstance(found, list) else found
        return {"label": one["label"], "confidence": one["score"]}

    return lambda texts: [*map(answer, texts)]


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
