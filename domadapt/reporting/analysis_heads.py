"""What an analysis says of attention: heads against relations, patterns, their change, heads switched off."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from domadapt.analysis.ablation import OUTSIDE, Ablation, Effect, SideEffects
from domadapt.analysis.attention import (
    ALL,
    BLOCK,
    EACH,
    FEWEST,
    LINES,
    PATTERNS,
    PUBLISHED,
    SHORTEST,
    Best,
    Change,
    Heads,
    Patterns,
    Relation,
)
from domadapt.reporting.blocks import Block, Column, Figure, Folded, Prose, Section, Table, TableCell, for_each, tabled
from domadapt.reporting.formats import counted, listed, percent, points
from domadapt.reporting.svg import INK, drawn, legend, plain, wrapped
from domadapt.utils.text import visible

NAMED = {"before": "pretrained", "after": "fine-tuned"}
COLORS = {"before": "#0072b2", "after": "#d55e00"}  # of Okabe and Ito's palette, as in a report
SIDE_COLORS = {"source": "#0072b2", "target": "#e69f00"}
PATTERN_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#8c8c8c")  # in the patterns' order
Domains = Mapping[str, str]  # names by side
Shares = NDArray[np.float64]


def without(what: str, why: str) -> Prose:
    """A sentence in place of numbers.

    >>> without("Maps", "they are not given").text
    "Maps can't be had: they are not given."
    """
    return Prose(f"{what} can't be had: {why}.")


def head_name(layer: int, head: int) -> str:
    """As the papers write it, counted from 0.

    >>> head_name(3, 5)
    '3-5'
    """
    return f"{layer}-{head}"


def shade(value: float, full: float) -> float:
    """Colour of a number: -1 to 1, reached at ``full``."""
    return min(max(value / full, -1.0), 1.0) if full else 0.0


def grid(title: str, layers: Sequence[Sequence[TableCell]], notes: Sequence[str] = ()) -> Table:
    """Layers × heads."""
    heads = range(max(map(len, layers), default=0))
    columns = for_each({h: str(h) for h in heads}, lambda row, h: row[1][h] if h < len(row[1]) else "")
    return tabled(title, enumerate(layers), [("layer, head", lambda row: str(row[0])), *columns], notes)


def layer_name(name: str) -> str:
    """Of a layer, below an axis."""
    return "emb." if name == "embeddings" else name.removeprefix("layer ")


def short(name: str, width: int = 16) -> str:
    """A domain's name in a figure."""
    return wrapped(visible(name), width, 1)


PATTERNS_TITLE = "Patterns of attention"
RULES = (
    f"Every map of every text of at least {SHORTEST} pieces is one of Kovaleva et al.'s (2019) five patterns, here by "
    "rule. v is the share of attention on the two most attended pieces, d that of the rest on neighbours and the "
    "piece itself, b that on the own sentence, each less what even attention would put there. Where v + d is at least "
    f"{LINES}: vertical, diagonal, or both where each is at least {EACH}; else block where b is at least {BLOCK}, and "
    "heterogeneous if not."
)


def patterns_section(patterns: Patterns | None, domains: Domains, why: str = "") -> Section:
    """Shares of the patterns by layer; or why there are none."""
    if patterns is None:
        return Section(PATTERNS_TITLE, (without("This", why),))
    shares = {
        side: {model: np.array(patterns.shares[side][model]) for model in NAMED}
        for side in domains
        if patterns.texts[side]
    }
    if not shares:
        return Section(PATTERNS_TITLE, (Prose(f"No text has {SHORTEST} pieces."),))
    side, models = next(iter(shares.items()))
    before, after = (models[model].mean(0) for model in NAMED)
    moved = models["after"] - models["before"]
    layer, place = np.unravel_index(np.abs(moved).argmax(), moved.shape)
    order = np.argsort(-before)[:2]
    ends = [percent(float(models[model][layer, place])) for model in NAMED]
    caption = (
        f"Of the pretrained model's maps of {domains[side]} text "
        f"{listed([f'{percent(before[i])} % are {PATTERNS[i]}' for i in order])}, of the fine-tuned model's "
        f"{listed([percent(after[i]) for i in order])} %; the largest change of a layer is that of {PATTERNS[place]} "
        f"in layer {layer}, from {ends[0]} to {ends[1]} %."
    )
    several = listed([f"{patterns.several[s]:,} of {patterns.texts[s]:,} in {domains[s]}" for s in shares])
    rows = [
        (f"{domains[side]}, {NAMED[model]}, {name}", line)
        for side, models in shares.items()
        for model, own in models.items()
        for name, line in (*((f"layer {i}", line) for i, line in enumerate(own)), ("all layers", own.mean(0)))
    ]
    columns = for_each(dict(enumerate(PATTERNS)), lambda row, place: percent(row[1][place]))
    columns = [("text, model, layer", lambda row: row[0]), *columns]
    table = tabled("Shares of patterns, percent of all maps", rows, columns, narrow=True)
    alt = f"Shares of attention patterns by layer. {caption}"
    svg = drawn(alt, 1.7 * len(shares) + 0.9, lambda figure: _pattern_bars(figure, shares, domains))
    blocks = Prose(RULES, "soft"), Figure(svg, caption), Folded("Shares by layer", (table,))
    last = Prose(f"Only texts of several sentences can show blocks: {several}.", "soft")
    return Section(PATTERNS_TITLE, (*blocks, last))


def _pattern_bars(figure: Canvas, shares: dict[str, dict[str, Shares]], domains: Domains) -> None:
    panels = figure.subplots(len(shares), 2, sharex=True, sharey=True, squeeze=False)
    for row, (side, models) in zip(panels, shares.items(), strict=True):
        for axes, (model, own) in zip(row, models.items(), strict=True):
            bottom = np.zeros(len(own))
            for place, color in enumerate(PATTERN_COLORS):
                axes.bar(range(len(own)), 100 * own[:, place], 0.75, bottom, color=color, alpha=0.85)
                bottom += 100 * own[:, place]
            axes.set_title(f"{NAMED[model]}, {short(domains[side])}", fontsize=9, color=INK)
            axes.set_xticks(range(len(own)))
            axes.set_ylim(0, 100)
            plain(axes)
        row[0].set_ylabel("maps, %", color=INK)
    for axes in panels[-1]:
        axes.set_xlabel("layer", color=INK)
    legend(figure, [Patch(color=c, label=name, alpha=0.85) for c, name in zip(PATTERN_COLORS, PATTERNS, strict=True)])


CHANGE_TITLE = "What fine-tuning changed"


def change_section(change: Change, domains: Domains, no_maps: str = "", no_weights: str = "") -> Section:
    """What fine-tuning changed of maps and weights, as far as the model lets them be had."""
    maps = {side: np.array(rows) for side, rows in (change.maps or {}).items() if rows}
    weights = change.weights or {}
    lacking = [without("The change of maps", no_maps)] if change.maps is None else []
    lacking += [without("The change of each layer's weights", no_weights)] if change.weights is None else []
    if change.maps is not None and not maps:
        return Section(CHANGE_TITLE, (Prose("There were no texts."), *lacking))
    if not maps and not weights:
        return Section(CHANGE_TITLE, tuple(lacking))
    caption = ""
    for side, rows in [*maps.items()][:1]:
        layers = rows.mean(1)
        caption = f"On {domains[side]} text the maps of layer {layers.argmin()} changed most (mean cosine "
        caption += f"{layers.min():.3f}) and those of layer {layers.argmax()} least ({layers.max():.3f}). "
    if weights:
        heaviest = max(weights, key=lambda name: weights[name])
        caption += f"Of the weights those of {heaviest} changed most, by {percent(weights[heaviest])} % of their size."
    lowest = min((float(rows.min()) for rows in maps.values()), default=1.0)
    parts = [_cosines(rows, domains[side], lowest) for side, rows in maps.items()]
    folded = [Folded(f"The same on {domains['target']} text", parts[1])] if len(parts) > 1 else []
    svg = drawn(f"Change by layer. {caption}", 2.5, lambda figure: _change_bars(figure, maps, weights, domains))
    return Section(CHANGE_TITLE, (Figure(svg, caption.strip()), *(parts[0] if parts else ()), *folded, *lacking))


def _cosines(rows: Shares, domain: str, lowest: float) -> tuple[Block, ...]:
    title = f"Cosine of each head's maps before with those after, {domain} text"
    cells = [[TableCell(f"{x:.3f}", shade=-shade(1 - x, 1 - lowest)) for x in row] for row in rows.tolist()]
    layer, head = np.unravel_index(rows.argmin(), rows.shape)
    most = f"Head {head_name(int(layer), int(head))} changed most (cosine {rows.min():.3f}); "
    most += f"{int((rows > 0.99).sum())} of {rows.size} heads stayed above .99, the mean is {rows.mean():.3f}."
    return grid(title, cells, ["red: changed more"]), Prose(most)


def _change_bars(figure: Canvas, maps: dict[str, Shares], weights: dict[str, float], domains: Domains) -> None:
    panels = figure.subplots(1, bool(maps) + bool(weights), squeeze=False)[0]
    if maps:
        width, layers = 0.8 / len(maps), len(next(iter(maps.values())))
        for place, (side, rows) in enumerate(maps.items()):
            at = np.arange(layers) + (place - (len(maps) - 1) / 2) * width
            panels[0].bar(
                at, 1 - rows.mean(1), width, color=SIDE_COLORS[side], alpha=0.85, label=short(domains[side], 14)
            )
        panels[0].set_ylabel("1 − cosine of maps")
        panels[0].set_xticks(range(layers))
        panels[0].legend(frameon=False, labelcolor=INK, fontsize=8)
    if weights:
        changes = [100 * value for value in weights.values()]
        panels[-1].bar(range(len(weights)), changes, 0.75, color="#009e73", alpha=0.85)
        panels[-1].set_xticks(range(len(weights)), [*map(layer_name, weights)])
        panels[-1].set_ylabel("change of weights, %")
    for axes in panels:
        axes.set_xlabel("layer")
        plain(axes)


SHOWN = 14  # relations, the commonest
CLEAR = 0.1  # by which a head should beat an offset to be called a head for a relation
MARKERS = dict(zip(NAMED, "oD", strict=True))
HEADS_TITLE = "Heads against relations"
GREEN = "green: above the relation's best fixed offset, red: below it"
HEADS = (
    "How often the other word that a head's attention points to is the syntactic head, by relation (Clark et al. "
    "2019). Heads are read in both directions and counted from 0, as layer-head. The best head, its direction and the "
    "best fixed offset (1 is the next word) are chosen on source text, so source numbers are a little too high."
)


def heads_section(heads: Heads | None, domains: Domains, backbone: str, why: str = "") -> Section:
    """Best heads by relation: figure, tables, what was published, layer by layer; or why there are none."""
    if heads is None:
        return Section(HEADS_TITLE, (without("This", why),))
    shown = [relation for relation in heads.relations if relation.name != ALL][:SHOWN]
    if not shown:
        why = f"No relation occurs {FEWEST} times in {domains['source']}: give more texts."
        return Section(HEADS_TITLE, (Prose(why),))
    every = [*shown, *(relation for relation in heads.relations if relation.name == ALL)]
    caption = _clear_heads(shown, domains)
    alt = f"Accuracy of the best head by relation. {caption}"
    svg = drawn(alt, 0.24 * len(every) + 1.1, lambda figure: _relation_dots(figure, every, domains))
    blocks: list[Block] = [
        Prose(HEADS, "soft"),
        Figure(svg, caption),
        _best_heads(every, domains),
        Prose(_from_source_to_target(shown, domains)),
        _published(heads, backbone),
    ]
    blocks += [_by_layer(every, model, heads.layers) for model in NAMED]
    blocks += [Folded(f"Every head of the {NAMED[m]} model", (_every_head(shown, m, heads),)) for m in NAMED]
    return Section(HEADS_TITLE, tuple(blocks))


def _relation_dots(figure: Canvas, shown: Sequence[Relation], domains: Domains) -> None:
    for axes, (side, domain) in zip(figure.subplots(1, 2, sharey=True), domains.items(), strict=True):
        offsets = [r.offset_accuracy[side] for r in shown]
        _dots(axes, offsets, "|", color=INK, markersize=11, markeredgewidth=1.5)
        for model, marker in MARKERS.items():
            values = [r.best[model].accuracy[side] for r in shown]
            _dots(axes, values, marker, color=COLORS[model], markersize=5, alpha=0.85, clip_on=False)
        axes.set_yticks(range(len(shown)), [r.name for r in shown])
        axes.set_xlim(0, 100)
        axes.set_ylim(len(shown) - 0.5, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"{short(domain, 20)}, %")
        plain(axes, "both")
    looks = [("best offset", INK, "|"), *((NAMED[model], COLORS[model], mark) for model, mark in MARKERS.items())]
    legend(figure, [Line2D([], [], color=c, marker=mark, linestyle="", label=name) for name, c, mark in looks])


def _dots(axes: Any, values: Sequence[float | None], marker: str, **look: Any) -> None:
    known = [(100 * value, place) for place, value in enumerate(values) if value is not None]
    axes.plot([x for x, _ in known], [y for _, y in known], marker, **look)


def _clear_heads(shown: Sequence[Relation], domains: Domains) -> str:
    gains = {r.name: _of(r.best["before"], "source") - (r.offset_accuracy["source"] or 0.0) for r in shown}
    top = max(shown, key=lambda r: gains[r.name])
    one, offset = top.best["before"], percent(top.offset_accuracy["source"])
    moved = np.mean([_of(r.best["after"], "source") - _of(r.best["before"], "source") for r in shown])
    return (
        f"On {domains['source']} text a head of the pretrained model beats the best fixed offset by {CLEAR * 100:.0f} "
        f"points or more for {sum(gain >= CLEAR for gain in gains.values())} of {counted(len(shown), 'relation')}, "
        f"most for {top.name} (head {head_name(one.layer, one.head)}: {percent(one.accuracy['source'])} against "
        f"{offset}); fine-tuning moved the best heads by {points(float(moved))} points."
    )


def _from_source_to_target(shown: Sequence[Relation], domains: Domains) -> str:
    both = [r for r in shown if all(r.best[m].accuracy["target"] is not None for m in NAMED)]
    if not both:
        return f"No relation occurs often enough in {domains['target']} to say what the heads do there."

    def lost(accuracy: Any) -> str:
        sides = [(accuracy(r)["target"] or 0.0) - (accuracy(r)["source"] or 0.0) for r in both]
        return points(float(np.mean(sides)))

    tuned = [f"{lost(lambda r, m=model: r.best[m].accuracy)} ({name})" for model, name in NAMED.items()]
    return (
        f"From {domains['source']} to {domains['target']} the same heads' accuracy changes by {listed(tuned)} points "
        f"on average over {counted(len(both), 'relation')}, the offsets' by {lost(lambda r: r.offset_accuracy)}."
    )


def _best_heads(shown: Sequence[Relation], domains: Domains) -> Table:
    def accuracy(r: Relation, model: str, side: str) -> TableCell:
        value, base = r.best[model].accuracy[side], r.offset_accuracy[side]
        return TableCell(percent(value), shade=None if value is None or base is None else shade(value - base, 0.5))

    columns: list[Column] = [("relation", lambda r: r.name), ("words", lambda r: f"{r.words['source']:,}")]
    columns.append(("offset", lambda r: f"{r.offset:+d}"))
    columns += for_each(
        {s: f"offset, {d}" for s, d in domains.items()}, lambda r, side: percent(r.offset_accuracy[side])
    )
    for model, name in NAMED.items():
        columns += for_each({model: f"{name}: head"}, lambda r, model: _named(r.best[model]))
        keys = {(model, side): f"{name}, {domain}" for side, domain in domains.items()}
        columns += for_each(keys, lambda r, key: accuracy(r, *key))
    notes = [GREEN, "→: the word attends to its head; ←: its head attends to it; words: of the source"]
    return tabled("Best head of all layers, percent of words whose head is found", shown, columns, notes, narrow=True)


def _published(heads: Heads, backbone: str) -> Table:
    known = {relation.name: relation for relation in heads.relations}

    def cell(line: tuple[str, tuple[str, float, float]], read: Any) -> str:
        return str(read(known[line[1][0]])) if line[1][0] in known else "-"

    return tabled(
        f"Clark et al. (2019) on BERT-base, and {backbone} here; percent, best head and best offset",
        PUBLISHED.items(),
        [
            ("relation", lambda line: line[0] if line[0] == line[1][0] else f"{line[0]} (here {line[1][0]})"),
            ("BERT-base", lambda line: f"{line[1][1]:.1f}"),
            ("its offset", lambda line: f"{line[1][2]:.1f}"),
            ("here", lambda line: cell(line, lambda r: percent(_of(r.best["before"], "source")))),
            ("offset here", lambda line: cell(line, lambda r: percent(r.offset_accuracy["source"] or 0))),
            ("head here", lambda line: cell(line, lambda r: _named(r.best["before"]))),
        ],
        [
            "BERT-base: newspaper text, Stanford relations; here: this source's text, Universal Dependencies by a "
            "parser that errs. pobj (noun to preposition) is case here, read the other way round"
        ],
    )


def _by_layer(shown: Sequence[Relation], model: str, layers: int) -> Table:
    def cell(r: Relation, layer: int) -> TableCell:
        best = r.by_layer[model][layer]
        gain = _of(best, "source") - (r.offset_accuracy["source"] or 0.0)
        return TableCell(f"{percent(best.accuracy['source'])} ({best.head})", shade=shade(gain, 0.5))

    columns: list[Column] = [("relation", lambda r: r.name)]
    columns.append(("offset", lambda r: percent(r.offset_accuracy["source"] or 0.0)))
    columns += for_each({layer: f"layer {layer}" for layer in range(layers)}, cell)
    title = f"Best head of each layer, {NAMED[model]} model, source text: percent, and the head"
    return tabled(title, shown, columns, [GREEN], narrow=True)


def _every_head(shown: Sequence[Relation], model: str, heads: Heads) -> Table:
    def cell(place: tuple[int, int], relation: int) -> TableCell:
        value, base = shown[relation].grid[model][place[0]][place[1]], shown[relation].offset_accuracy["source"] or 0.0
        return TableCell(f"{100 * value:.0f}", shade=shade(value - base, 0.5))

    title = f"Every head, {NAMED[model]} model, source text, better direction: percent"
    columns = for_each({place: r.name for place, r in enumerate(shown)}, cell)
    columns = [("head", lambda place: head_name(*place)), *columns]
    return tabled(title, np.ndindex(heads.layers, heads.heads), columns, [GREEN])


def _named(best: Best) -> str:
    return f"{head_name(best.layer, best.head)} {'→' if best.direction == 'to' else '←'}"


def _of(best: Best, side: str) -> float:
    return best.accuracy[side] or 0.0


FULL = 0.05  # of a score: where a colour is full
ABLATION_TITLE = "Heads and layers switched off"
SWITCHED = (
    "Each head of the fine-tuned model alone put out zeros, then all heads of a layer did. The number is the score "
    "without it less the score with it, in points: above 0 the head did harm. Intervals are over texts, drawn again in "
    "pairs."
)
LOCK = (
    "The target's test labels are read here, for this analysis alone: nothing was trained or chosen by them. Whoever "
    "removes a head because of the target's column has chosen by the test."
)


def ablation_section(ablation: Ablation | None, domains: Domains, why: str = "") -> Section:
    """What switching off does; or why that is not known, which is nobody's wish without a reason."""
    if ablation is None:
        return Section(ABLATION_TITLE, (without("This", why) if why else Prose("Not asked for (scored_texts=0)."),))
    if not ablation.sides:
        return Section(ABLATION_TITLE, (Prose("There are no labelled texts to score."),))
    sides, headline = ablation.sides, ablation.headline
    caption = " ".join(_sentence(effects, domains[side], headline) for side, effects in sides.items())
    svg = drawn(
        f"Change of the score without each head. {caption}", 2.9, lambda f: _ablation_dots(f, ablation, domains)
    )
    alone = f"There are no labels of {domains['target']}, so this is {domains['source']} alone."
    blocks: list[Block] = [
        Prose(SWITCHED, "soft"),
        Prose(LOCK, "warning") if "target" in sides else Prose(alone, "soft"),
    ]
    blocks += [Figure(svg, caption), *([Prose(_agreement(sides, domains))] if len(sides) > 1 else [])]
    for side, effects in sides.items():
        title = f"{headline} on {domains[side]} without each head, less {percent(effects.score)} with it; points"
        cells = [[_effect(effect) for effect in heads] for heads in effects.heads]
        note = "*: the 95 % interval over texts leaves out 0; green: the score is higher without the head"
        blocks.append(grid(title, cells, [note]))
    columns = for_each({side: domains[side] for side in sides}, lambda layer, side: _layer(sides[side].layers[layer]))
    title = f"{headline} without the attention of a whole layer, less that with it; points, and 95 % interval"
    layers = range(len(next(iter(sides.values())).layers))
    return Section(ABLATION_TITLE, (*blocks, tabled(title, layers, [("layer", str), *columns])))


def _ablation_dots(figure: Canvas, ablation: Ablation, domains: Domains) -> None:
    axes = figure.add_subplot()
    for place, (side, effects) in enumerate(ablation.sides.items()):
        shift, color = (place - (len(ablation.sides) - 1) / 2) * 0.4, {**SIDE_COLORS, "target": "#d55e00"}[side]
        for layer, heads in enumerate(effects.heads):
            at = layer + shift + np.linspace(-0.13, 0.13, len(heads))
            axes.vlines(at, [100 * e.low for e in heads], [100 * e.high for e in heads], color=color, alpha=0.35)
            label = short(domains[side], 20) if layer == 0 else None
            axes.plot(at, [100 * e.change for e in heads], "o", color=color, markersize=3.5, label=label)
        axes.set_xticks(range(len(effects.heads)))
    axes.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
    axes.set_xlabel("layer; a dot is a head")
    axes.set_ylabel(f"{short(ablation.headline)} without it, points")
    plain(axes)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, ncols=2)


def named(effects: SideEffects) -> dict[str, Effect]:
    """By the heads' names."""
    return {head_name(i, j): e for i, heads in enumerate(effects.heads) for j, e in enumerate(heads)}


def harmful(effects: SideEffects) -> list[str]:
    """Heads without which the score is higher, by more than texts explain; the worst first."""
    above = {name: e for name, e in named(effects).items() if e.low > 0}
    return sorted(above, key=lambda name: -above[name].change)


def _sentence(effects: SideEffects, domain: str, headline: str) -> str:
    heads, bad = named(effects), harmful(effects)
    worst, dear = max(heads, key=lambda n: heads[n].change), min(heads, key=lambda n: heads[n].change)
    return (
        f"On {counted(effects.texts, 'labelled text')} of {domain} ({headline} {percent(effects.score)}), {len(bad)} "
        f"of {counted(len(heads), 'head')} did harm and {sum(e.high < 0 for e in heads.values())} helped by more than "
        f"chance (which alone would give up to {len(heads) * OUTSIDE / 2:.0f} of each): without {worst} the score "
        f"changes by {points(heads[worst].change)} points, without {dear} by {points(heads[dear].change)}."
    )


def _agreement(sides: dict[str, SideEffects], domains: Domains) -> str:
    source, target = (np.array([e.change for e in named(one).values()]) for one in sides.values())
    both = sorted(set.intersection(*(set(harmful(one)) for one in sides.values())))
    fixed = len(set(source.tolist())) < 2 or len(set(target.tolist())) < 2
    rank = "can't be told" if fixed else f"is {spearmanr(source, target).statistic:.2f}"
    common = f"harmful on both: {listed(both)}" if both else "no head is harmful on both"
    pair = f"a head's effect on {domains['source']} with that on {domains['target']}"
    return f"The rank correlation of {pair} {rank}; {common}."


def _effect(effect: Effect) -> TableCell:
    star = "*" if effect.low > 0 or effect.high < 0 else ""
    return TableCell(points(effect.change) + star, shade=shade(effect.change, FULL))


def _layer(effect: Effect) -> TableCell:
    text = f"{points(effect.change)} ({points(effect.low)} to {points(effect.high)})"
    return TableCell(text, shade=shade(effect.change, 5 * FULL))
