"""Heads against relations: a figure, the tables behind it, and what was published of BERT."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from domadapt.analysis.heads import ALL, FEWEST, PUBLISHED, Best, Heads, Relation, head_name, names_of
from domadapt.reporting.analyses.common import COLORS, NAMED, Domains, percent, points, shade
from domadapt.reporting.blocks import Block, Figure, Folded, Section, Table, Text, counted, listed
from domadapt.reporting.svg import INK, WIDTH, drawing, element, plain, wrapped
from domadapt.utils.text import visible

SHOWN = 14  # relations, the commonest
CLEAR = 0.1  # by which a head should beat an offset to be called a head for a relation
TITLE = "Heads against relations"
ABOUT = (
    "How often the other word that a head's attention points to is the syntactic head, by relation (Clark et al. "
    "2019). Heads are read in both directions and counted from 0, as layer-head. The best head, its direction and the "
    "best fixed offset (1 is the next word) are chosen on source text, so source numbers are a little too high and "
    "target numbers are not."
)


def section(found: Heads, domains: Domains, backbone: str) -> Section:
    """All of it.

    Args:
        found: of both models.
        domains: names by side.
        backbone: name of the pretrained model.
    """
    shown = [relation for relation in found.relations if relation.name != ALL][:SHOWN]
    whole = [relation for relation in found.relations if relation.name == ALL]
    if not shown:
        return Section(TITLE, (Text(f"No relation occurs {FEWEST} times in {domains['source']}: give more texts."),))
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
    return Section(TITLE, tuple(blocks))


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
    known = names_of(found.relations)
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
