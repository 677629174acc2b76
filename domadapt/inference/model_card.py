"""The card of an exported model: what it is, how good it is, how to use it, what it can't do."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from domadapt.inference.description import Description, LabelsRead
from domadapt.inference.thresholds import SHOWN_THRESHOLDS, rates
from domadapt.runs.metrics import Metrics
from domadapt.utils.text import escape_controls

MADE_FROM = "the model that this folder was made from, in domadapt"  # scores and rates are not measured again


def model_card(
    description: Description,
    metrics: Metrics | None,
    use: str,
    measured: Sequence[str],
    dev: Mapping[str, Any] | None = None,
    every: Sequence[LabelsRead] = (),
) -> str:
    """Markdown with the hub's front matter; ``measured`` compares the model with the one it was made from, ``dev`` is
    as :func:`~domadapt.inference.thresholds.source_dev` gives it, and ``every`` is of the model's own run, then of
    those it goes on or learned from."""
    read = next(iter(every), None)
    token = "types" in description.task
    names = ", ".join(f"`{escape_controls(str(name))}`" for name in description.task["types" if token else "labels"])
    source, target = escape_controls(description.source), escape_controls(description.target)
    ceiling = "in_domain" in (read and read.role, metrics and metrics.role)
    trained = target if ceiling else source
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
        _trained(description, metrics, trained, target, every[1:]),
        "",
        *_scores(metrics, trained, target),
        *_thresholds(dev or {}, trained),
        *("## Use", "", "```python", use, "```", ""),
        *(["## Beside the model it was made from", "", *(f"- {line}" for line in measured), ""] if measured else ()),
        *("## Limits", ""),
        *(f"- {line}" for line in _limits(description, metrics, trained, target)),
        *([f"- It is a ceiling: it was trained on labels of {target} itself."] if ceiling else ()),
        *([f"- It was given {read.target_labels} labels of {target}."] if read and read.target_labels else ()),
        *([f"- Labels of {target} have chosen its epoch."] if read and read.oracle else ()),
    ]
    return "\n".join(lines) + "\n"


def _cell(name: str) -> str:
    """A label in a table of Markdown, where it ends no cell and begins no tag.

    >>> _cell("<b>pos|neg")
    '&lt;b>pos\\\\|neg'
    """
    return escape_controls(name).replace("|", "\\|").replace("<", "&lt;")


def _trained(
    description: Description, metrics: Metrics | None, source: str, target: str, earlier: Sequence[LabelsRead]
) -> str:
    start = Path(str(description.backbone.get("name", "")))
    from_ = f"from the backbone `{escape_controls(start.name)}`"
    if earlier:  # it is a model's: RUN/model/encoder
        run = start.parents[1 if start.parent.name == "model" else 0].name
        learnt = (f"{'the target of ' if one.role == 'in_domain' else ''}{one.source}" for one in earlier)
        from_ = f"from the model `{escape_controls(run)}`, which learned from labels of "
        from_ += escape_controls(", ".join(dict.fromkeys(learnt)))
    methods = [*description.methods, *description.left_behind]
    with_ = f", with {', '.join(methods)}" if methods else ""
    if metrics is None:
        return f"Trained by domadapt on labelled text of {source}{with_}, {from_}."
    counts = metrics.counts
    labels = f" and {target} ({counts.target_labels} of {target}, maybe repeated)" if counts.target_labels else ""
    raw = f"{counts.target_unlabelled} texts" if "target unlabelled" in counts.truncated else "no text"
    seen = "" if source == target else f"{labels} and {raw} of {target} without labels"
    return (
        f"Trained by domadapt {metrics.versions.get('domadapt', '')} on {counts.source_train} labelled texts of "
        f"{source}{seen}{with_}, {from_}, seed {metrics.seed}, "
        f"epoch {metrics.selection.epoch} of {len(metrics.curve)} (chosen by {metrics.selection.validator})."
    )


def _scores(metrics: Metrics | None, source: str, target: str) -> list[str]:
    if metrics is None:
        return ["## Scores", "", "Not known: the folder lay apart from its run's `metrics.json`.", ""]
    counts, headline, sizes = metrics.counts, metrics.headline, metrics.target_test_sizes
    rows = [
        (f"{source}, held out", counts.source_dev, metrics.source_dev),
        (f"{source}, test", None, metrics.source_test),
        (f"{target}, test", sizes.all if sizes else None, metrics.target_test),
    ]
    shown = [headline, *sorted(n for n in metrics.source_dev if n != headline and n.endswith(("_f1", "accuracy")))]
    lines = ["## Scores", "", f"| | texts | {' | '.join(map(_cell, shown))} |", f"|---|---:|{'---:|' * len(shown)}"]
    for name, count, scores in rows:
        if scores:
            numbers = (f"{100 * scores[n]:.1f}" if n in scores else "" for n in shown)
            lines.append(f"| {name} | {'' if count is None else count} | {' | '.join(numbers)} |")
    lines += ["", f"`{headline}` is what models are compared by; all in percent, of one run: of {MADE_FROM}.", ""]
    if not metrics.target_test:
        lines += [f"There was no labelled test of {target}: how good the model is there has not been measured.", ""]
        if expected := metrics.expected:
            shares = (f"{100 * share:.0f}" for share in (expected.score, expected.low, expected.high))
            lines += ["Expected there, without a label: {} ({} to {}, nine times in ten).".format(*shares), ""]
    return lines


def _thresholds(dev: Mapping[str, Any], source: str) -> Iterator[str]:
    """Precision and recall by the confidence from which on predictions are taken."""
    if dev:
        yield from ("## Thresholds", "", f"| | {' | '.join(f'from {limit:g}' for limit in SHOWN_THRESHOLDS)} |")
        yield f"|---|{'---|' * len(SHOWN_THRESHOLDS)}"
        for name, kind in dev["kinds"].items():
            yield f"| {_cell(name)} | {' | '.join(', '.join(rates(kind, limit)) for limit in SHOWN_THRESHOLDS)} |"
        where = f"{dev['texts']} held-out texts of {source}"
        yield from ("", f"Precision and recall on {where}, of predictions with this confidence: of {MADE_FROM}.", "")


def _limits(description: Description, metrics: Metrics | None, source: str, target: str) -> Iterator[str]:
    yield f"It reads the first {description.max_length} subwords of a text; the rest is not labelled."
    other = "on other text, and in other languages,"
    yield f"It was trained on text of {source} and made for {target}; its score {other} is not known."
    if metrics and (error := metrics.calibration.scaled_error) is not None:  # confidences are told as scaled
        over = f"{'words, most of them in no span,' if 'types' in description.task else 'texts'} of {target}"
        yield f"Its confidence is off by {100 * error:.0f} points of 100 on average over {over}: of {MADE_FROM}."
    else:
        yield f"How far its confidence can be believed on {target} has not been measured."


def usage(kind: str, name: str, format: str, pairs: bool = False) -> str:
    """Python that loads the folder, whichever place it has been moved to."""
    first, call = "from transformers import pipeline", pipeline_call(kind, name)
    if format != "hf":
        first = "# pip install 'onnxruntime>=1.23' tokenizers; in the folder:\nfrom onnx_model import OnnxModel"
        call = "OnnxModel()"
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
