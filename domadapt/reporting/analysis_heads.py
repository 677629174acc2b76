"""What an analysis says of heads: maps, relations, what is lost without them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
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
from domadapt.reporting.blocks import Block, Figure, Folded, Section, Table, Text, counted, listed
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.utils.text import visible

NAMED = {"before": "pretrained", "after": "fine-tuned"}
COLORS = {"before": "#0072b2", "after": "#d55e00"}  # of Okabe and Ito's palette, as in a report
Domains = Mapping[str, str]  # names by side


def head_name(layer: int, head: int) -> str:
    return f"{layer}-{head}"


def absent(title: str, why: str) -> Section:
    """The section of what a model does not let be had."""
    return Section(title, (without("This", why),))


def without(what: str, why: str) -> Text:
    """A sentence in place of numbers.

    >>> without("Maps", "they are not given").text
    "Maps can't be had: they are not given."
    """
    return Text(f"{what} can't be had: {why}.")


def percent(value: float | None) -> str:
    """A share in percent.

    >>> percent(0.5), percent(None)
    ('50.0', '-')
    """
    return "-" if value is None else f"{100 * value:.1f}"


def points(value: float) -> str:
    """A difference of shares, in points, with its sign.

    >>> points(0.012), points(-0.0001)
    ('+1.2', '0.0')
    """
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def shade(value: float, full: float) -> float:
    """Colour of a number: -1 to 1, reached at ``full``."""
    return min(max(value / full, -1.0), 1.0) if full else 0.0


def grid(
    title: str, rows: Sequence[Sequence[str]], shades: Sequence[Sequence[float]], notes: Sequence[str] = ()
) -> Table:
    """Layers × heads.

    Args:
        rows: a layer each, cells of its heads.
    """
    heads = max(map(len, rows), default=0)
    return Table(
        title,
        ["layer, head", *map(str, range(heads))],
        [[str(layer), *row, *[""] * (heads - len(row))] for layer, row in enumerate(rows)],
        list(notes),
        {(r, c + 1): value for r, row in enumerate(shades) for c, value in enumerate(row)},
    )


STYLES = ("-", "--")

Lines = Mapping[str, Mapping[str, Sequence[float]]]  # by model, then by what each line is of


def lines_svg(
    panels: Mapping[str, Lines], layers: Sequence[str], alt: str, levels: Mapping[str, Mapping[str, float]]
) -> str:
    """A figure: colours tell the models, strokes what the line is of."""
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


MAPS_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#8c8c8c")  # of the patterns, in their order
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
            for place, color in enumerate(MAPS_COLORS):
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
    handles = [Patch(color=c, label=name, alpha=0.85) for c, name in zip(MAPS_COLORS, PATTERNS, strict=True)]
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


SHOWN = 14  # relations, the commonest
CLEAR = 0.1  # by which a head should beat an offset to be called a head for a relation
HEADS_TITLE = "Heads against relations"
ABOUT = (
    "How often the other word that a head's attention points to is the syntactic head, by relation (Clark et al. "
    "2019). Heads are read in both directions and counted from 0, as layer-head. The best head, its direction and the "
    "best fixed offset (1 is the next word) are chosen on source text, so source numbers are a little too high and "
    "target numbers are not."
)


def heads_section(found: Heads, domains: Domains, backbone: str) -> Section:
    """All of it."""
    shown = [relation for relation in found.relations if relation.name != ALL][:SHOWN]
    whole = [relation for relation in found.relations if relation.name == ALL]
    if not shown:
        return Section(
            HEADS_TITLE, (Text(f"No relation occurs {FEWEST} times in {domains['source']}: give more texts."),)
        )
    blocks: list[Block] = [
        Text(ABOUT, "soft"),
        _figure([*shown, *whole], domains),
        _table([*shown, *whole], domains),
        Text(_from_source_to_target(shown, domains)),
    ]
    blocks += _published(found, backbone)
    for model in NAMED:
        blocks += [_by_layer([*shown, *whole], model, found.layers), Text(_where(shown, model))]
    blocks += [
        Folded(f"Every head of the {NAMED[m]} model", (_grid(shown, m, found), Text(_gifted(shown, m)))) for m in NAMED
    ]
    return Section(HEADS_TITLE, tuple(blocks))


def _figure(shown: Sequence[Relation], domains: Domains) -> Figure:
    caption = _sentence([r for r in shown if r.name != ALL], domains)
    with drawing():
        return Figure(element(_dots(shown, domains), f"Accuracy of the best head by relation. {caption}"), caption)


def _dots(shown: Sequence[Relation], domains: Domains) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 0.24 * len(shown) + 1.1), layout="constrained", facecolor="none")
    places = range(len(shown))
    for axes, (side, domain) in zip(figure.subplots(1, 2, sharey=True), domains.items(), strict=True):
        offsets = [(place, r.offset_accuracy[side]) for place, r in enumerate(shown)]
        known = [(100 * x, place) for place, x in offsets if x is not None]
        axes.plot(*_columns(known), "|", color=INK, markersize=11, markeredgewidth=1.5)
        for model, marker in zip(NAMED, "oD", strict=True):
            own = [(place, r.best[model].accuracy[side]) for place, r in enumerate(shown)]
            dots = [(100 * x, place) for place, x in own if x is not None]
            axes.plot(*_columns(dots), marker, color=COLORS[model], markersize=5, alpha=0.85, clip_on=False)
        axes.set_yticks(places, [r.name for r in shown])
        axes.set_xlim(0, 100)
        axes.set_ylim(len(shown) - 0.5, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"{wrapped(visible(domain), 20, 1)}, %")
        plain(axes, INK, "both")
    handles = [
        Line2D([], [], color=INK, marker="|", linestyle="", label="best offset"),
        *(
            Line2D([], [], color=COLORS[m], marker=mark, linestyle="", label=NAMED[m])
            for m, mark in zip(NAMED, "oD", strict=True)
        ),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, labelcolor=INK, fontsize=8)
    return figure


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _sentence(shown: Sequence[Relation], domains: Domains) -> str:
    side = "source"
    gains = {r.name: (_of(r.best["before"], side) - (r.offset_accuracy[side] or 0.0)) for r in shown}
    clear = [name for name, gain in gains.items() if gain >= CLEAR]
    top = max(shown, key=lambda r: gains[r.name])
    one = top.best["before"]
    moved = float(np.mean([_of(r.best["after"], side) - _of(r.best["before"], side) for r in shown]))
    return (
        f"On {domains[side]} text a head of the pretrained model beats the best fixed offset by {CLEAR * 100:.0f} "
        f"points or more for {len(clear)} of {counted(len(shown), 'relation')}, most for {top.name} (head "
        f"{head_name(one.layer, one.head)}: {percent(one.accuracy[side])} against "
        f"{percent(top.offset_accuracy[side])}); fine-tuning moved the best heads by {points(moved)} points on average."
    )


def _from_source_to_target(shown: Sequence[Relation], domains: Domains) -> str:
    both = [r for r in shown if all(r.best[m].accuracy["target"] is not None for m in NAMED)]
    if not both:
        return f"No relation occurs often enough in {domains['target']} to say what the heads do there."
    lost = {m: np.mean([_of(r.best[m], "target") - _of(r.best[m], "source") for r in both]) for m in NAMED}
    offset = np.mean([(r.offset_accuracy["target"] or 0) - (r.offset_accuracy["source"] or 0) for r in both])
    return (
        f"From {domains['source']} to {domains['target']} the same heads' accuracy changes by "
        f"{points(float(lost['before']))} points (pretrained) and {points(float(lost['after']))} (fine-tuned) on "
        f"average over {counted(len(both), 'relation')}, the offsets' by {points(float(offset))}."
    )


def _table(shown: Sequence[Relation], domains: Domains) -> Table:
    sides = [*domains]
    header = ["relation", "words", "offset", *(f"offset, {domains[s]}" for s in sides)]
    for model in NAMED:
        header += [f"{NAMED[model]}: head", *(f"{NAMED[model]}, {domains[s]}" for s in sides)]
    table = Table("Best head of all layers, percent of words whose head is found", header, [], narrow=True)
    for row, r in enumerate(shown):
        cells = [r.name, f"{r.words['source']:,}", f"{r.offset:+d}", *(percent(r.offset_accuracy[s]) for s in sides)]
        for model in NAMED:
            cells.append(_named(r.best[model]))
            for side in sides:
                found, base = r.best[model].accuracy[side], r.offset_accuracy[side]
                if found is not None and base is not None:
                    table.shades[row, len(cells)] = shade(found - base, 0.5)
                cells.append(percent(found))
        table.rows.append(cells)
    table.notes.append("green: above the best fixed offset, red: below it")
    table.notes.append("→: the word attends to its head; ←: its head attends to it; words: of the source")
    return table


def _published(found: Heads, backbone: str) -> Iterator[Block]:
    known = {r.name: r for r in found.relations}
    rows, near, gaps = [], [], {}
    for theirs, (ours, head, offset) in PUBLISHED.items():
        here = known.get(ours)
        name = theirs if theirs == ours else f"{theirs} (here {ours})"
        if here is None:
            rows.append([name, f"{head:.1f}", f"{offset:.1f}", "-", "-", "-"])
            continue
        best = here.best["before"]
        own, base = 100 * _of(best, "source"), 100 * (here.offset_accuracy["source"] or 0)
        rows.append([name, f"{head:.1f}", f"{offset:.1f}", f"{own:.1f}", f"{base:.1f}", _named(best)])
        gaps[ours] = own - head
        near += [ours] if own >= head - 100 * CLEAR and ours != ALL else []
    yield Table(
        f"What Clark et al. (2019) found in BERT-base, and what {backbone} has here; percent, best head and best "
        "offset",
        ["relation", "BERT-base", "its offset", "here", "offset here", "head here"],
        rows,
        [
            "BERT-base: newspaper text, Stanford relations; here: this source's text, Universal Dependencies by a "
            "parser that errs. pobj (noun to preposition) has no twin there: its arc is case, read the other way "
            "round",
        ],
    )
    single = {name: gap for name, gap in gaps.items() if name != ALL}
    if not single:
        yield Text("None of these relations occurs often enough here to compare.")
        return
    far, close = min(single, key=lambda n: single[n]), max(single, key=lambda n: single[n])
    having = f"{backbone} has a head within {CLEAR * 100:.0f} points of BERT-base's, or above it, for {listed(near)}"
    none = f"{backbone} has no head within {CLEAR * 100:.0f} points of BERT-base's for any of these relations"
    yield Text(
        f"{having if near else none}; of {counted(len(single), 'relation')} it is furthest behind for {far} "
        f"({single[far]:+.1f} points) and stands best for {close} ({single[close]:+.1f})."
    )


def _by_layer(shown: Sequence[Relation], model: str, layers: int) -> Table:
    table = Table(
        f"Best head of each layer, {NAMED[model]} model, source text: percent, and the head",
        ["relation", "offset", *(f"layer {layer}" for layer in range(layers))],
        [],
        ["green: above the best fixed offset, red: below it"],
        narrow=True,
    )
    for row, r in enumerate(shown):
        base = r.offset_accuracy["source"] or 0.0
        table.rows.append(
            [r.name, percent(base), *(f"{percent(b.accuracy['source'])} ({b.head})" for b in r.by_layer[model])]
        )
        for place, b in enumerate(r.by_layer[model]):
            table.shades[row, place + 2] = shade(_of(b, "source") - base, 0.5)
    return table


def _where(shown: Sequence[Relation], model: str) -> str:
    tops = Counter(r.best[model].layer for r in shown)
    [(layer, count)] = tops.most_common(1)
    names = [r.name for r in shown if r.best[model].layer == layer]
    return (
        f"In the {NAMED[model]} model layer {layer} holds the best head for {count} of "
        f"{counted(len(shown), 'relation')}: {listed(names)}."
    )


def _grid(shown: Sequence[Relation], model: str, found: Heads) -> Table:
    table = Table(
        f"Every head, {NAMED[model]} model, source text, better direction: percent",
        ["head", *(r.name for r in shown)],
        [],
        ["green: above the relation's best fixed offset, red: below it"],
    )
    for layer in range(found.layers):
        for head in range(found.heads):
            table.rows.append([head_name(layer, head), *(f"{100 * r.grid[model][layer][head]:.0f}" for r in shown)])
            for column, r in enumerate(shown, start=1):
                gain = r.grid[model][layer][head] - (r.offset_accuracy["source"] or 0.0)
                table.shades[len(table.rows) - 1, column] = shade(gain, 0.5)
    return table


def _gifted(shown: Sequence[Relation], model: str) -> str:
    above: dict[str, list[str]] = {}
    for r in shown:
        base = r.offset_accuracy["source"] or 0.0
        for layer, row in enumerate(r.grid[model]):
            for head, value in enumerate(row):
                if value >= base + CLEAR:
                    above.setdefault(head_name(layer, head), []).append(r.name)
    if not above:
        return f"No head is {CLEAR * 100:.0f} points above the best offset for any relation."
    name = max(above, key=lambda n: len(above[n]))
    return (
        f"{counted(len(above), 'head is', 'heads are')} {CLEAR * 100:.0f} points or more above the best offset for "
        f"some relation; head {name} for most of them: {listed(above[name])}."
    )


def _named(best: Best) -> str:
    return f"{head_name(best.layer, best.head)} {'→' if best.direction == 'to' else '←'}"


def _of(best: Best, side: str) -> float:
    return best.accuracy[side] or 0.0


ABLATION_COLORS = {"source": "#0072b2", "target": "#d55e00"}
FULL = 0.05  # of a score: where a colour is full
LISTED = 6  # heads named in a sentence
TITLE = "Heads and layers switched off"
ABLATION_ABOUT = (
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
    caption = " ".join(_sentence_of_ablation(sides[side], domains[side], found.headline) for side in sides)
    with drawing():
        svg = element(_dots_of_ablation(found, domains), f"Change of the score without each head. {caption}")
    blocks: list[Block] = [Text(ABLATION_ABOUT, "soft")]
    blocks += [Text(LOCK, "warning")] if "target" in sides else [Text(_unlabelled(domains), "soft")]
    blocks += [Figure(svg, caption), *([Text(_agreement(sides, domains))] if len(sides) > 1 else [])]
    for side, effects in sides.items():
        blocks += [_grid_of_ablation(effects, domains[side], found.headline), Text(_names(effects))]
    return Section(TITLE, (*blocks, *_layers(sides, domains, found.headline)))


def _dots_of_ablation(found: Ablation, domains: Domains) -> Drawing:
    figure = Drawing(figsize=(WIDTH, 2.9), layout="constrained", facecolor="none")
    axes = figure.add_subplot()
    layers = 1
    for place, (side, effects) in enumerate(found.sides.items()):
        layers = len(effects.heads)
        shift = (place - (len(found.sides) - 1) / 2) * 0.4
        for layer, heads in enumerate(effects.heads):
            at = layer + shift + np.linspace(-0.13, 0.13, len(heads))
            axes.vlines(
                at, [100 * e.low for e in heads], [100 * e.high for e in heads], color=ABLATION_COLORS[side], alpha=0.35
            )
            label = wrapped(visible(domains[side]), 20, 1) if layer == 0 else None
            axes.plot(
                at, [100 * e.change for e in heads], "o", color=ABLATION_COLORS[side], markersize=3.5, label=label
            )
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


def _sentence_of_ablation(effects: SideEffects, domain: str, headline: str) -> str:
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


def _grid_of_ablation(effects: SideEffects, domain: str, headline: str) -> Table:
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
