"""Lines over the layers of both models, a panel each."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure as Drawing

from domadapt.reporting.analyses.common import COLORS, NAMED
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.utils.text import visible

STYLES = ("-", "--")

Lines = Mapping[str, Mapping[str, Sequence[float]]]  # by model, then by what each line is of


def lines_svg(
    panels: Mapping[str, Lines], layers: Sequence[str], alt: str, levels: Mapping[str, Mapping[str, float]]
) -> str:
    """A figure: colours tell the models, strokes what the line is of.

    Args:
        panels: by title.
        layers: their names, on the horizontal axis.
        alt: what the figure shows, in words.
        levels: by title, horizontal lines to compare with, by name.
    """
    with drawing():
        figure = Drawing(figsize=(WIDTH, 2.6), layout="constrained", facecolor="none")
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        names = ["emb." if name == "embeddings" else name.removeprefix("layer ") for name in layers]
        for axes, (title, models) in zip(grid, panels.items(), strict=True):
            for model, lines in models.items():
                for (name, values), style in zip(lines.items(), STYLES, strict=False):
                    label = f" {NAMED[model]}, {wrapped(visible(name), 16, 1)}" if name else f" {NAMED[model]}"
                    axes.plot(range(len(values)), values, style, color=COLORS[model], label=label)
            for name, value in levels.get(title, {}).items():
                axes.axhline(value, color=INK, linewidth=0.8, linestyle=":", label=f" {name}")
            axes.set_ylim(bottom=0)
            axes.set_title(title, fontsize=9, color=INK)
            axes.set_xticks(range(len(names)), names)
            axes.set_xlabel("layer")
            plain(axes, INK)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False, labelcolor=INK, fontsize=8)
        return element(figure, alt)
