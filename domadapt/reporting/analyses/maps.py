"""Patterns of attention maps before and after fine-tuning, and what fine-tuning changed in maps and weights."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Patch
from numpy.typing import NDArray

from domadapt.analysis.heads import BLOCK, EACH, LINES, PATTERNS, SHORTEST, Change, Patterns, head_name
from domadapt.reporting.analyses.common import NAMED, Domains, grid, percent, shade, without
from domadapt.reporting.blocks import Block, Figure, Folded, Section, Table, Text, listed
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.utils.text import visible

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#8c8c8c")  # of the patterns, in their order
SIDE_COLORS = {"source": "#0072b2", "target": "#e69f00"}
RULES = (
    f"Every map of every text of at least {SHORTEST} pieces is one of Kovaleva et al.'s (2019) five patterns, here by "
    "rule. v is the share of attention on the two most attended pieces, d that of the rest on neighbours and the "
    "piece itself, b that on the own sentence, each less what even attention would put there. Where v + d is at least "
    f"{LINES}: vertical, diagonal, or both where each is at least {EACH}; else block where b is at least {BLOCK}, and "
    "heterogeneous if not."
)
Shares = NDArray[np.float64]
PATTERNS_TITLE, CHANGE_TITLE = "Patterns of attention", "What fine-tuning changed"


def patterns_section(found: Patterns, domains: Domains) -> Section:
    """Shares of the patterns by layer."""
    sides = [side for side in domains if found.texts[side]]
    if not sides:
        return Section(PATTERNS_TITLE, (Text(f"No text has {SHORTEST} pieces."),))
    shares = {side: {m: np.array(found.shares[side][m]) for m in NAMED} for side in sides}
    caption = _pattern_sentence(shares[sides[0]], domains[sides[0]])
    with drawing():
        svg = element(_bars(shares, domains), f"Shares of attention patterns by layer. {caption}")
    blocks: list[Block] = [
        Text(RULES, "soft"),
        Figure(svg, caption),
        Text(_side_sentence(shares, domains)),
        Folded("Shares by layer", (_pattern_table(shares, domains),)),
        Text(_block_sentence(found, domains), "soft"),
    ]
    return Section(PATTERNS_TITLE, tuple(blocks))


def _bars(shares: dict[str, dict[str, Shares]], domains: Domains) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 1.7 * len(shares) + 0.9), layout="constrained", facecolor="none")
    panels = figure.subplots(len(shares), 2, sharex=True, sharey=True, squeeze=False)
    for row, (side, models) in zip(panels, shares.items(), strict=True):
        for axes, (model, own) in zip(row, models.items(), strict=True):
            bottom = np.zeros(len(own))
            for place, color in enumerate(COLORS):
                axes.bar(range(len(own)), 100 * own[:, place], 0.75, bottom, color=color, alpha=0.85)
                bottom += 100 * own[:, place]
            axes.set_title(f"{NAMED[model]}, {wrapped(visible(domains[side]), 16, 1)}", fontsize=9, color=INK)
            axes.set_xticks(range(len(own)))
            axes.set_ylim(0, 100)
            plain(axes, INK)
    for axes in panels[-1]:
        axes.set_xlabel("layer")
    for row in panels:
        row[0].set_ylabel("maps, %")
    handles = [Patch(color=c, label=name, alpha=0.85) for c, name in zip(COLORS, PATTERNS, strict=True)]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, labelcolor=INK, fontsize=8)
    return figure


def _pattern_sentence(models: dict[str, Shares], domain: str) -> str:
    before, after = (models[m].mean(0) for m in NAMED)
    order = np.argsort(-before)[:2]
    moved = models["after"] - models["before"]
    layer, place = np.unravel_index(np.abs(moved).argmax(), moved.shape)
    commonest = listed([f"{percent(before[i])} % are {PATTERNS[i]}" for i in order])
    return (
        f"Of the pretrained model's maps of {domain} text {commonest}, of the fine-tuned model's "
        f"{listed([percent(after[i]) for i in order])} %; the largest change of a layer is that of {PATTERNS[place]} "
        f"in layer {layer}, from {percent(models['before'][layer, place])} to {percent(models['after'][layer, place])} "
        "%."
    )


def _pattern_table(shares: dict[str, dict[str, Shares]], domains: Domains) -> Table:
    rows = []
    for side, models in shares.items():
        for model, own in models.items():
            name = f"{domains[side]}, {NAMED[model]}"
            rows += [[f"{name}, layer {layer}", *map(percent, line)] for layer, line in enumerate(own)]
            rows.append([f"{name}, all layers", *map(percent, own.mean(0))])
    return Table("Shares of patterns, percent of all maps", ["text, model, layer", *PATTERNS], rows, narrow=True)


def _side_sentence(shares: dict[str, dict[str, Shares]], domains: Domains) -> str:
    means = {side: {m: own.mean(0) for m, own in models.items()} for side, models in shares.items()}
    tuned = {side: float(np.abs(m["after"] - m["before"]).sum() / 2) for side, m in means.items()}
    text = listed([f"{percent(value)} % of the maps of {domains[side]} text" for side, value in tuned.items()])
    if len(means) < 2:
        return f"Fine-tuning changed the pattern of at least {text}."
    apart = float(np.abs(means["source"]["before"] - means["target"]["before"]).sum() / 2)
    return (
        f"Fine-tuning changed the pattern of at least {text}; between the two domains the pretrained model's shares "
        f"differ by {percent(apart)} %."
    )


def _block_sentence(found: Patterns, domains: Domains) -> str:
    several = listed(
        [f"{found.several[s]:,} of {found.texts[s]:,} in {d}" for s, d in domains.items() if found.texts[s]]
    )
    return f"Only texts of several sentences can show blocks: {several}."


def change_section(found: Change, domains: Domains, no_maps: str = "", no_weights: str = "") -> Section:
    """What fine-tuning changed.

    Args:
        found: of it, maps and weights, as far as the model lets them be had.
        domains: names by side.
        no_maps, no_weights: why there are none.
    """
    maps = {side: np.array(rows) for side, rows in (found.maps or {}).items() if rows}
    weights = found.weights or {}
    lacking = [without("The change of maps", no_maps)] if found.maps is None else []
    lacking += [without("The change of each layer's weights", no_weights)] if found.weights is None else []
    if found.maps is not None and not maps:
        return Section(CHANGE_TITLE, (Text("There were no texts."), *lacking))
    if not maps and not weights:
        return Section(CHANGE_TITLE, tuple(lacking))
    caption = _change_sentence(maps, weights, domains)
    with drawing():
        svg = element(_panels(maps, weights, domains), f"Change by layer. {caption}")
    return Section(CHANGE_TITLE, (Figure(svg, caption), *_map_tables(maps, domains), *lacking))


def _map_tables(maps: dict[str, Shares], domains: Domains) -> list[Block]:
    lowest = min((float(rows.min()) for rows in maps.values()), default=1.0)
    tables: list[Block] = []
    for side, rows in maps.items():
        cells = [[f"{x:.3f}" for x in row] for row in rows]
        shades = [[-shade(1 - x, 1 - lowest) for x in row] for row in rows]
        tables += [
            grid(
                f"Cosine of each head's maps before with those after, {domains[side]} text",
                cells,
                shades,
                ["red: changed more"],
            ),
            Text(_most_changed(rows)),
        ]
    first, rest = tables[:2], tables[2:]
    folded = [Folded(f"The same on {domains['target']} text", tuple(rest))] if rest and "source" in maps else []
    return [*first, *folded]


def _panels(maps: dict[str, Shares], weights: dict[str, float], domains: Domains) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 2.5), layout="constrained", facecolor="none")
    panels = figure.subplots(1, bool(maps) + bool(weights), squeeze=False)[0]
    if maps:
        _map_bars(panels[0], maps, domains)
    if weights:
        _weight_bars(panels[-1], weights)
    for axes in panels:
        plain(axes, INK)
    return figure


def _map_bars(axes: Any, maps: dict[str, Shares], domains: Domains) -> None:
    layers = len(next(iter(maps.values())))
    width = 0.8 / len(maps)
    for place, (side, rows) in enumerate(maps.items()):
        at = np.arange(layers) + (place - (len(maps) - 1) / 2) * width
        name = wrapped(visible(domains[side]), 14, 1)
        axes.bar(at, 1 - rows.mean(1), width, color=SIDE_COLORS[side], alpha=0.85, label=name)
    axes.set_ylabel("1 − cosine of maps")
    axes.set_xlabel("layer")
    axes.set_xticks(range(layers))
    axes.legend(frameon=False, labelcolor=INK, fontsize=8)


def _weight_bars(axes: Any, weights: dict[str, float]) -> None:
    names = ["emb." if name == "embeddings" else name.removeprefix("layer ") for name in weights]
    axes.bar(range(len(weights)), [100 * value for value in weights.values()], 0.75, color="#009e73", alpha=0.85)
    axes.set_xticks(range(len(weights)), names)
    axes.set_ylabel("change of weights, %")
    axes.set_xlabel("layer")


def _change_sentence(maps: dict[str, Shares], weights: dict[str, float], domains: Domains) -> str:
    """Of maps, of weights, or of both."""
    told, more = [], ""
    if maps:
        side, rows = next(iter(maps.items()))
        layers = rows.mean(1)
        more = _last_two(layers)
        told.append(
            f"On {domains[side]} text the maps of layer {layers.argmin()} changed most (mean cosine "
            f"{layers.min():.3f}) and those of layer {layers.argmax()} least ({layers.max():.3f})"
        )
    if weights:
        heaviest = max(weights, key=lambda name: weights[name])
        share = percent(weights[heaviest])
        told.append(
            f"{'of' if maps else 'Of'} the weights those of {heaviest} changed most, by {share} % of their size"
        )
    return f"{'; '.join(told)}.{more}"


def _last_two(layers: Shares) -> str:
    if len(layers) < 3:
        return ""
    last, others = float((1 - layers[-2:]).mean()), float((1 - layers[:-2]).mean())
    verb = "more than" if last > others * 1.05 else "less than" if last < others * 0.95 else "as much as"
    return (
        f" The last two layers' maps changed {verb} the others' ({last:.3f} against {others:.3f} of 1 − cosine); in "
        "BERT-base it was more (Kovaleva et al. 2019)."
    )


def _most_changed(rows: Shares) -> str:
    layer, head = np.unravel_index(rows.argmin(), rows.shape)
    kept = int((rows > 0.99).sum())
    return (
        f"Head {head_name(int(layer), int(head))} changed most (cosine {rows.min():.3f}); {kept} of {rows.size} heads "
        f"stayed above .99, the mean is {rows.mean():.3f}."
    )
