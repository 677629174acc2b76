"""The critical-difference diagram (Demšar 2006), drawn by scikit-posthocs."""

from matplotlib.figure import Figure

from domadapt.reporting.svg import INK, WIDTH, drawing, element, wrapped
from domadapt.statistics.results import Ranking

MOST = 30  # methods in one diagram; more are a table's business


def rank_svg(ranking: Ranking, alt: str) -> str:
    """Mean ranks on a line, methods that are not told apart joined by bars.

    Args:
        ranking: with its critical difference.
        alt: what the figure shows, in words.

    Returns:
        An SVG element; an empty string with too many methods to draw.
    """
    if len(ranking.methods) > MOST or not ranking.pairwise:
        return ""
    import pandas as pd
    import scikit_posthocs

    # Numbered, for two names may be the same after shortening.
    names = [f"{wrapped(name, 34, 1)}{chr(8203) * i}" for i, name in enumerate(ranking.methods)]
    with drawing():
        figure = Figure(figsize=(WIDTH, 0.9 + 0.26 * len(names)), layout="constrained", facecolor="none")
        axes = figure.add_subplot()
        axes.set_facecolor("none")
        scikit_posthocs.critical_difference_diagram(
            dict(zip(names, ranking.mean_ranks, strict=True)),
            pd.DataFrame(ranking.pairwise, index=names, columns=names),
            ax=axes,
            left_only=True,
            label_fmt_left="{label} ({rank:.2f})  ",
            label_props={"fontsize": 8},
            color_palette=dict.fromkeys(names, INK),
            crossbar_props={"color": INK},
            marker_props={"color": INK, "s": 14},
            elbow_props={"linewidth": 0.8},
        )
        axes.tick_params(colors=INK)
        axes.spines["top"].set_color(INK)
        for text in axes.texts:
            text.set_color(INK)
            text.set_text(text.get_text().replace(chr(8203), ""))
        return element(figure, alt)
