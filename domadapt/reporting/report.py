"""One HTML file from run folders: no script, nothing loaded from elsewhere."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from domadapt.files import write_atomic
from domadapt.reporting.examples import SHOWN, Comparison, Example, compare
from domadapt.reporting.figures import bar_svg, curve_svg
from domadapt.reporting.groups import Pair, group
from domadapt.reporting.ran import counted, ran, shared_settings
from domadapt.reporting.runs import read_runs
from domadapt.reporting.summary import summary
from domadapt.reporting.tables import numbered, table
from domadapt.reporting.trees import Lane, tree_svg
from domadapt.reporting.visible import cut, visible
from domadapt.syntax.parser import SpacyParser

LONGEST_TEXT = 300  # characters of a sentence that are shown
UNPAIRED = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a text that is shown, as the parser wants it."""

    text: str
    words: tuple[tuple[int, int], ...] | None
    left_out: int


def report(runs: str | Path | Iterable[str | Path], output: str | Path) -> Path:
    """Write a report.

    Args:
        runs: folders, or ``metrics.json`` files, of finished runs.
        output: the HTML file to write; replaced if it exists.

    Returns:
        Where it was written.

    Raises:
        ValueError: there are no readable runs, or ``output`` is a folder; names the file and the fix.
    """
    output = Path(output)
    if output.is_dir():
        raise ValueError(f"output={output}: is a folder; expected a file's name, such as {output / 'report.html'}")
    found = read_runs(runs)
    shared = shared_settings(found.runs)
    environment = Environment(
        loader=PackageLoader("domadapt.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = lambda value: visible(str(value))
    parser = SpacyParser()
    html = environment.get_template("report.html.jinja").render(
        pairs=[_pair(pair, shared, parser) for pair in group(found.runs)],
        count=len(found.runs),
        skipped=found.skipped,
        shared=shared,
        versions=counted(found.runs, "versions"),
        hardware=counted(found.runs, "hardware"),
        longest=LONGEST_TEXT,
    )
    write_atomic(output, html)
    return output


def excerpt(example: Example) -> Excerpt:
    """The beginning of a text, and of the owner's words those that lie in it whole.

    Args:
        example: whose text.
    """
    text, left_out = cut(example.text, LONGEST_TEXT)
    text = UNPAIRED.sub("\ufffd", text)  # half a character: spaCy refuses it
    words = example.words
    return Excerpt(text, words if words is None else tuple(w for w in words if w[1] <= len(text)), left_out)


def _pair(pair: Pair, shared: dict[str, str], parser: SpacyParser) -> dict[str, Any]:
    drawn = table(pair)
    names = ", ".join(method.name for method in pair.methods)
    return {
        "name": pair.name,
        "task": pair.task,
        "headline": pair.headline,
        "summary": summary(pair),
        "table": drawn,
        "notes": numbered(drawn),
        "bars": Markup(bar_svg(pair, f"Bars of the scores in the table above, {pair.name}: {names}")),
        "curves": Markup(curve_svg(pair, f"Learning curves, {pair.name}: {names}")),
        "ran": [ran(method, shared) for method in pair.methods],
        **_comparison(pair, parser),
    }


def _comparison(pair: Pair, parser: SpacyParser) -> dict[str, Any]:
    try:
        compared = compare(pair)
    except ValueError as error:  # damaged predictions spoil the examples, not the report
        compared = str(error)
    if not isinstance(compared, Comparison):
        return {"comparison": None, "why_not": compared, "kinds": []}
    kinds = [
        ("fixed", "fewer", len(compared.fixed), _cards(pair, compared.fixed[:SHOWN], parser)),
        ("broke", "more", len(compared.broken), _cards(pair, compared.broken[:SHOWN], parser)),
    ]
    return {"comparison": compared, "why_not": "", "kinds": kinds}


def _cards(pair: Pair, examples: Sequence[Example], parser: SpacyParser) -> list[dict[str, Any]]:
    excerpts = [excerpt(example) for example in examples]
    cards = []
    for example, shown, parse in zip(examples, excerpts, parser.parse(excerpts), strict=True):
        three = {"gold": example.gold, "before": example.before, "after": example.after}
        lanes = [Lane(name, tuple(sorted(labels.spans))) for name, labels in three.items()]
        tree = tree_svg(
            shown.text,
            parse,
            lanes if pair.task == "extraction" else [],
            "Dependency parse and spans of the sentence above",
        )
        cards.append({"example": example, "shown": shown, "labels": three, "tree": Markup(tree)})
    return cards
