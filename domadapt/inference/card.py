"""A model card, in the form of the Hugging Face hub, from what a run has recorded of itself."""

from collections.abc import Sequence
from pathlib import Path

from domadapt.inference.description import Description
from domadapt.runs.groups import read_metrics
from domadapt.runs.metrics import Metrics, Scores
from domadapt.utils.text import visible


def recorded(model: Path) -> Metrics | None:
    """What ``metrics.json`` beside a model folder says; None where the folder was taken from its run.

    Raises:
        ValueError: the file is damaged.
    """
    path = model.parent / "metrics.json"
    return read_metrics(path) if model.name == "model" and path.is_file() else None


def model_card(description: Description, metrics: Metrics | None, use: str, measured: Sequence[str]) -> str:
    """Markdown with the hub's front matter: what was trained, on what, how good it is, what it can't do.

    Args:
        description: of the model, from its ``domadapt.json``.
        metrics: of its run, if they are there.
        use: Python that loads the folder.
        measured: of the folder against the model that it was made from, a sentence each.
    """
    token = "types" in description.task
    names = description.task["types" if token else "labels"]
    source, target = visible(description.source), visible(description.target)
    front = [
        "---",
        f"pipeline_tag: {'token' if token else 'text'}-classification",
        "tags: [domadapt, domain-adaptation]",
        *(["inference: {parameters: {aggregation_strategy: first}}"] if token else ()),  # of the hub's widget
        "---",
    ]
    task = "finds spans of the types" if token else "gives a text one of the labels"
    lines = [
        *front,
        "",
        f"# {'Extraction' if token else 'Classification'}, {source} to {target}",
        "",
        f"The model {task} {', '.join(f'`{visible(str(name))}`' for name in names)}.",
        "",
        *_trained(description, metrics, source, target),
        *_scores(metrics, source, target),
        "## Use",
        "",
        "```python",
        use,
        "```",
        "",
        *(["## Beside the model it was made from", "", *(f"- {line}" for line in measured), ""] if measured else ()),
        "## Limits",
        "",
        *(f"- {line}" for line in _limits(description, metrics, source, target)),
    ]
    return "\n".join(lines) + "\n"


def _trained(description: Description, metrics: Metrics | None, source: str, target: str) -> list[str]:
    backbone = visible(Path(str(description.backbone.get("name", ""))).name)
    methods = [*description.methods, *description.left_behind]
    with_ = f", with {', '.join(methods)}" if methods else ""
    if metrics is None:
        return [f"Trained by domadapt on labelled text of {source}{with_}, from the backbone `{backbone}`.", ""]
    counts = metrics.counts
    seen = "" if metrics.role == "in_domain" else f" and {counts.target_unlabelled} texts of {target} without labels"
    where = target if metrics.role == "in_domain" else source
    version = metrics.versions.get("domadapt", "")
    return [
        f"Trained by domadapt {version} on {counts.source_train} labelled texts of {where}{seen} at hand{with_}, from "
        f"the backbone `{backbone}`, seed {metrics.seed}, {len(metrics.curve)} epochs of which "
        f"{metrics.selection.epoch} was kept (by {metrics.selection.validator}).",
        "",
    ]


def _scores(metrics: Metrics | None, source: str, target: str) -> list[str]:
    if metrics is None:
        return ["## Scores", "", "Not known: the folder lay apart from its run's `metrics.json`.", ""]
    counts, headline = metrics.counts, metrics.headline
    rows: list[tuple[str, int | None, Scores]] = [
        (f"{source}, held out to choose the epoch", counts.source_dev, metrics.source_dev)
    ]
    if metrics.source_test:
        rows.append((f"{source}, test", None, metrics.source_test))
    if metrics.target_test:
        sizes = metrics.target_test_sizes
        rows.append((f"{target}, test", sizes.all if sizes else None, metrics.target_test))
    shown = [headline, *sorted(n for n in metrics.source_dev if n != headline and n.endswith(("_f1", "accuracy")))]
    found = [
        "## Scores",
        "",
        f"| | texts | {' | '.join(shown)} |",
        f"|---|---:|{'---:|' * len(shown)}",
        *(
            f"| {name} | {'' if count is None else count} | "
            f"{' | '.join(f'{100 * scores[n]:.1f}' if n in scores else '' for n in shown)} |"
            for name, count, scores in rows
        ),
        "",
        f"`{headline}` is what models are compared by; all in percent, of one run.",
        "",
    ]
    if not metrics.target_test:
        found += [f"There were no labels of {target}: how good the model is there has not been measured.", ""]
    return found


def _limits(description: Description, metrics: Metrics | None, source: str, target: str) -> list[str]:
    found = [
        f"It reads the first {description.max_pieces} pieces of a text; nothing beyond is labelled.",
        f"It was trained on text of {source} and made for {target}; its score on other text, and in other languages, "
        f"is not known.",
    ]
    if metrics and metrics.calibration.error is not None:
        error = 100 * metrics.calibration.error
        found.append(f"Its confidence is off by {error:.0f} points of 100 on average (calibration error, {target}).")
    else:
        found.append(f"How far its confidence can be believed on {target} has not been measured.")
    if metrics and metrics.role == "in_domain":
        found.append(f"It is a ceiling: it was trained on labels of {target} itself.")
    return found
