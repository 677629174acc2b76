"""Which heads and layers help, and which do harm: the scores without them."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure as Drawing
from scipy.stats import spearmanr

from domadapt.analysis.ablation import OUTSIDE, Ablation, Effect, SideEffects
from domadapt.analysis.heads import head_name
from domadapt.reporting.analyses.common import Domains, grid, percent, points, shade
from domadapt.reporting.blocks import Block, Figure, Section, Table, Text, counted, listed
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.utils.text import visible

COLORS = {"source": "#0072b2", "target": "#d55e00"}
FULL = 0.05  # of a score: where a colour is full
LISTED = 6  # heads named in a sentence
TITLE = "Heads and layers switched off"
ABOUT = (
    "Each head of the fine-tuned model alone put out zeros instead of what it read, then all heads of a layer did. "
    "The number is the score without it less the score with it, in points: above 0 the head did harm. Intervals are "
    "over texts, drawn again in pairs."
)
LOCK = (
    "The target's test labels are read here, for this analysis alone: nothing was trained or chosen by them. Whoever "
    "removes a head because of the target's column has chosen by the test."
)


def section(found: Ablation | None, domains: Domains) -> Section:
    """What was found; None where nobody asked."""
    if found is None or not found.sides:
        why = "Not asked for (scored_texts=0)." if found is None else "There are no labelled texts to score."
        return Section(TITLE, (Text(why),))
    sides = found.sides
    caption = " ".join(_sentence(sides[side], domains[side], found.headline) for side in sides)
    with drawing():
        svg = element(_dots(found, domains), f"Change of the score without each head. {caption}")
    blocks: list[Block] = [Text(ABOUT, "soft")]
    blocks += [Text(LOCK, "warning")] if "target" in sides else [Text(_unlabelled(domains), "soft")]
    blocks += [Figure(svg, caption), *([Text(_agreement(sides, domains))] if len(sides) > 1 else [])]
    for side, effects in sides.items():
        blocks += [_grid(effects, domains[side], found.headline), Text(_names(effects))]
    return Section(TITLE, (*blocks, *_layers(sides, domains, found.headline)))


def _dots(found: Ablation, domains: Domains) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 2.9), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    layers = 1
    for place, (side, effects) in enumerate(found.sides.items()):
        layers = len(effects.heads)
        shift = (place - (len(found.sides) - 1) / 2) * 0.4
        for layer, heads in enumerate(effects.heads):
            at = layer + shift + np.linspace(-0.13, 0.13, len(heads))
            axes.vlines(at, [100 * e.low for e in heads], [100 * e.high for e in heads], color=COLORS[side], alpha=0.35)
            label = wrapped(visible(domains[side]), 20, 1) if layer == 0 else None
            axes.plot(at, [100 * e.change for e in heads], "o", color=COLORS[side], markersize=3.5, label=label)
    axes.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
    axes.set_xticks(range(layers))
    axes.set_xlabel("layer; a dot is a head")
    axes.set_ylabel(f"{wrapped(visible(found.headline), 16, 1)} without it, points")
    plain(axes, INK)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, ncols=2)
    return figure


def named(effects: SideEffects) -> dict[str, Effect]:
    """By the heads' names."""
    return {head_name(i, j): e for i, heads in enumerate(effects.heads) for j, e in enumerate(heads)}


def harmful(effects: SideEffects) -> list[str]:
    """Heads without which the score is higher, by more than texts explain; the worst first."""
    found = {name: e for name, e in named(effects).items() if e.low > 0}
    return sorted(found, key=lambda name: -found[name].change)


def _sentence(effects: SideEffects, domain: str, headline: str) -> str:
    heads = named(effects)
    bad = harmful(effects)
    needed = [name for name, e in heads.items() if e.high < 0]
    worst = max(heads, key=lambda name: heads[name].change)
    dear = min(heads, key=lambda name: heads[name].change)
    chance = len(heads) * OUTSIDE / 2
    return (
        f"On {counted(effects.texts, 'labelled text')} of {domain} ({headline} {percent(effects.score)}), {len(bad)} "
        f"of {counted(len(heads), 'head')} did harm and {len(needed)} helped by more than chance (chance alone would "
        f"give up to {chance:.0f} of each): without {worst} the score changes by {points(heads[worst].change)} points, "
        f"without {dear} by {points(heads[dear].change)}."
    )


def _names(effects: SideEffects) -> str:
    bad, heads = harmful(effects), named(effects)
    if not bad:
        return "No interval is above 0."
    told = [f"{n} ({points(heads[n].change)}, {points(heads[n].low)} to {points(heads[n].high)})" for n in bad[:LISTED]]
    return f"Interval above 0: {listed(told)}{', and more' if len(bad) > LISTED else ''}."


def _agreement(sides: dict[str, SideEffects], domains: Domains) -> str:
    source, target = (np.array([e.change for e in named(one).values()]) for one in sides.values())
    both = sorted(set.intersection(*(set(harmful(one)) for one in sides.values())))
    fixed = len(set(source.tolist())) < 2 or len(set(target.tolist())) < 2
    rank = "can't be told" if fixed else f"is {spearmanr(source, target).statistic:.2f}"
    common = f"harmful on both: {listed(both)}" if both else "no head is harmful on both"
    pair = f"a head's effect on {domains['source']} with that on {domains['target']}"
    return f"The rank correlation of {pair} {rank}; {common}."


def _grid(effects: SideEffects, domain: str, headline: str) -> Table:
    return grid(
        f"{headline} on {domain} without each head, less {percent(effects.score)} with it; points",
        [[points(e.change) + ("*" if e.low > 0 or e.high < 0 else "") for e in heads] for heads in effects.heads],
        [[shade(e.change, FULL) for e in heads] for heads in effects.heads],
        ["*: the 95 % interval over texts leaves out 0; green: the score is higher without the head"],
    )


def _layers(sides: dict[str, SideEffects], domains: Domains, headline: str) -> Iterator[Block]:
    table = Table(
        f"{headline} without the attention of a whole layer, less that with it; points, and 95 % interval",
        ["layer", *(domains[side] for side in sides)],
        [],
    )
    for layer in range(len(next(iter(sides.values())).layers)):
        table.rows.append([str(layer), *(_interval(one.layers[layer]) for one in sides.values())])
        for column, one in enumerate(sides.values(), start=1):
            table.shades[layer, column] = shade(one.layers[layer].change, 5 * FULL)
    yield table
    told = []
    for side, one in sides.items():
        changes = [e.change for e in one.layers]
        least, most = int(np.argmax(changes)), int(np.argmin(changes))
        told.append(f"{domains[side]} {least} ({points(max(changes))}) and {most} ({points(min(changes))})")
    yield Text(f"The layers whose attention is missed least and most are, on {', on '.join(told)}.")


def _interval(effect: Effect) -> str:
    return f"{points(effect.change)} ({points(effect.low)} to {points(effect.high)})"


def _unlabelled(domains: Domains) -> str:
    return f"There are no labels of {domains['target']}, so this is {domains['source']} alone."
