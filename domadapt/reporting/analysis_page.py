"""The page of domadapt analyze: heads, layers, domains."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from domadapt.analysis.ablation import OUTSIDE, Ablation, SideEffects, ablation
from domadapt.analysis.attention import ALL, FEWEST_WORDS, Best, Relation, read_heads
from domadapt.analysis.probes import StructuralProbe, structural_probe
from domadapt.analysis.shift import DomainShift, domain_shift
from domadapt.analysis.subject import Subject
from domadapt.reporting.blocks import Block, Figure, Folded, Prose, Section, Table, TableCell, columns_for, make_table
from domadapt.reporting.plots import INK, draw_svg, legend, style_axes, wrap_name
from domadapt.reporting.render import listed, number, page, percent, points
from domadapt.utils.text import counted, plain_json

FORMAT = 3
NAMED_RELATIONS = ("det", "obj", "amod")
MODEL_NAMES = {"before": "pretrained", "after": "fine-tuned"}
COLORS = {"before": "#0072b2", "after": "#d55e00"}  # of Okabe and Ito's palette, as in a report
SIDE_COLORS = {"source": "#0072b2", "target": "#d55e00"}
Domains = Mapping[str, str]  # names by side
Lines = Mapping[str, Mapping[str, Sequence[float]]]  # by model, then by what each line is of


@dataclass(frozen=True, slots=True)
class Analysis:
    """All numbers; what attention is needed for is None where that can't be reached, ablation where nobody asked."""

    heads: tuple[Relation, ...] | None
    structural_probe: StructuralProbe
    domain_shift: DomainShift
    ablation: Ablation | None


def analyse(subject: Subject, score: bool = True) -> Analysis:
    """Every part of an analysis that the models let be had."""
    reached = not subject.unreachable
    heads = read_heads(subject) if reached else None
    probes, shift = structural_probe(subject), domain_shift(subject)
    return Analysis(heads, probes, shift, ablation(subject) if score and reached else None)


SHOWN_RELATIONS = 14  # relations, the commonest
MARKERS = dict(zip(MODEL_NAMES, "oD", strict=True))
HEADS_TITLE = "Heads against relations"
GREEN = "green: above the relation's best fixed offset, red: below it"
HEADS = (
    "How often the word that a head attends to most is the syntactic head (Clark et al. 2019), of heads counted from 0 "
    "as layer-head. Head, direction and offset are chosen on source text, so source numbers are a little too high."
)


def heads_section(heads: Sequence[Relation] | None, domains: Domains) -> Section | None:
    """Best heads by relation; None where attention can't be reached."""
    if heads is None:
        return None
    shown = [relation for relation in heads if relation.name != ALL][:SHOWN_RELATIONS]
    if not shown:
        why = f"No relation occurs {FEWEST_WORDS} times in {domains['source']}: give more texts."
        return Section(HEADS_TITLE, (Prose(why),))
    every = [*shown, *(relation for relation in heads if relation.name == ALL)]
    caption = _from_source_to_target(shown, domains)
    alt = f"Accuracy of the best head by relation. {caption}"
    svg = draw_svg(alt, 0.24 * len(every) + 1.1, lambda figure: _relation_dots(figure, every, domains))
    table = Folded("The numbers", (_best_heads(every, domains),))
    rest = len(heads) - len(every)
    about = f"{HEADS} Left out: {counted(rest, 'rarer relation')}." if rest else HEADS
    return Section(HEADS_TITLE, (Prose(about, "soft"), Figure(svg, caption), table))


def _relation_dots(figure: Canvas, shown: Sequence[Relation], domains: Domains) -> None:
    for axes, (side, domain) in zip(figure.subplots(1, 2, sharey=True), domains.items(), strict=True):
        offsets = [r.offset_accuracy[side] for r in shown]
        _dots(axes, offsets, "|", color=INK, markersize=11, markeredgewidth=1.5)
        for model, marker in MARKERS.items():
            values = [r.best[model].accuracy[side] for r in shown]
            _dots(axes, values, marker, color=COLORS[model], markersize=5, alpha=0.85, clip_on=False)
        axes.set_yticks(range(len(shown)), [r.name for r in shown])
        axes.set(xlim=(0, 100), ylim=(len(shown) - 0.5, -0.6), xlabel=f"{wrap_name(domain, 20, 1)}, %")
        axes.tick_params(axis="y", length=0)
        style_axes(axes, "both")
    looks = [("best offset", INK, "|"), *((MODEL_NAMES[model], COLORS[model], mark) for model, mark in MARKERS.items())]
    legend(figure, [Line2D([], [], color=c, marker=mark, linestyle="", label=name) for name, c, mark in looks])


def _dots(axes: Any, values: Sequence[float | None], marker: str, **look: Any) -> None:
    known = [(100 * value, place) for place, value in enumerate(values) if value is not None]
    axes.plot([x for x, _ in known], [y for _, y in known], marker, **look)


def _from_source_to_target(shown: Sequence[Relation], domains: Domains) -> str:
    measured = [r for r in shown if all(r.best[m].accuracy["target"] is not None for m in MODEL_NAMES)]
    if not measured:
        return f"No relation occurs often enough in {domains['target']} to say what the heads do there."

    def lost(accuracy: Any) -> str:
        sides = [(accuracy(r)["target"] or 0.0) - (accuracy(r)["source"] or 0.0) for r in measured]
        return points(float(np.mean(sides)))

    tuned = [f"{lost(lambda r, m=model: r.best[m].accuracy)} ({name})" for model, name in MODEL_NAMES.items()]
    return (
        f"From {domains['source']} to {domains['target']} the same heads' accuracy changes by {listed(tuned)} points "
        f"on average over {counted(len(measured), 'relation')}, the offsets' by {lost(lambda r: r.offset_accuracy)}."
    )


def _best_heads(shown: Sequence[Relation], domains: Domains) -> Table:
    def head(best: Best) -> str:
        return f"{best.layer}-{best.head} {'→' if best.direction == 'to' else '←'}"

    def accuracy(r: Relation, model: str, side: str) -> TableCell:
        value, base = r.best[model].accuracy[side], r.offset_accuracy[side]
        clear = None if value is None or base is None else float(np.clip(2 * (value - base), -1, 1))
        return TableCell(percent(value), shade=clear)

    columns = columns_for({s: f"offset, {d}" for s, d in domains.items()}, lambda r, s: percent(r.offset_accuracy[s]))
    for model, name in MODEL_NAMES.items():
        columns += columns_for({model: f"{name}: head"}, lambda r, model: head(r.best[model]))
        keys = {(model, side): f"{name}, {domain}" for side, domain in domains.items()}
        columns += columns_for(keys, lambda r, key: accuracy(r, *key))
    first = ("words", lambda r: f"{r.words['source']:,}"), ("offset", lambda r: f"{r.offset:+d}")
    notes = [GREEN, "→: the word attends to its head; ←: its head attends to it; words: of the source"]
    title = "Best head of all layers, percent of words whose head is found"
    return make_table(title, shown, [("relation", lambda r: r.name), *first, *columns], notes, narrow=True)


ABLATION_TITLE = "Heads switched off"
SWITCHED = "The score with one head at zero, less that with it, intervals over texts: above 0 the head did harm."
LOCK = (
    "The target's test labels are read here, for this analysis alone, which trains nothing. Whoever "
    "removes a head because of the target's column has chosen by the test."
)


def ablation_section(ablation: Ablation | None, domains: Domains) -> Section:
    """What switching off does; or why that is not known."""
    if ablation is None:
        return Section(ABLATION_TITLE, (Prose("Not asked for (scored_texts=0)."),))
    if not ablation.sides:
        return Section(ABLATION_TITLE, (Prose("There are no labelled texts to score."),))
    sides, headline = ablation.sides, ablation.headline
    caption = " ".join(_sentence(effects, domains[side], headline) for side, effects in sides.items())
    svg = draw_svg(f"Change of score without each head. {caption}", 2.9, lambda f: _ablation_dots(f, ablation, domains))
    alone = f"There are no labels of {domains['target']}, so this is {domains['source']} alone."
    lock = Prose(LOCK, "warning") if "target" in sides else Prose(alone, "soft")
    return Section(ABLATION_TITLE, (Prose(SWITCHED, "soft"), lock, Figure(svg, caption)))


def _ablation_dots(figure: Canvas, ablation: Ablation, domains: Domains) -> None:
    axes = figure.add_subplot()
    for place, (side, effects) in enumerate(ablation.sides.items()):
        shift, color = (place - (len(ablation.sides) - 1) / 2) * 0.4, SIDE_COLORS[side]
        for layer, heads in enumerate(effects.heads):
            at = layer + shift + np.linspace(-0.13, 0.13, len(heads))
            axes.vlines(at, [100 * e.low for e in heads], [100 * e.high for e in heads], color=color, alpha=0.35)
            # With a space in front, for matplotlib hides names that begin with an underscore.
            label = f" {wrap_name(domains[side], 20, 1)}" if layer == 0 else None
            axes.plot(at, [100 * e.change for e in heads], "o", color=color, markersize=3.5, label=label)
        axes.set_xticks(range(len(effects.heads)))
    axes.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
    axes.set(xlabel="layer; a dot is a head", ylabel=f"{wrap_name(ablation.headline, 16, 1)} without it, points")
    style_axes(axes)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, ncols=2)


def _sentence(effects: SideEffects, domain: str, headline: str) -> str:
    heads = {f"{i}-{j}": e for i, layer in enumerate(effects.heads) for j, e in enumerate(layer)}
    worst, dear = max(heads, key=lambda n: heads[n].change), min(heads, key=lambda n: heads[n].change)
    return (
        f"On {counted(effects.texts, 'labelled text')} of {domain} ({headline} {percent(effects.score)}), "
        f"{sum(e.low > 0 for e in heads.values())} "
        f"of {counted(len(heads), 'head')} did harm and {sum(e.high < 0 for e in heads.values())} helped by more than "
        f"chance (which alone would give about {len(heads) * OUTSIDE / 2:.1f} of each): without {worst} the score "
        f"changes by {points(heads[worst].change)} points, without {dear} by {points(heads[dear].change)}."
    )


def lines_svg(
    panels: Mapping[str, Lines], layers: Sequence[str], alt: str, levels: Mapping[str, Mapping[str, float]]
) -> str:
    """Numbers by layer: colours tell the models, strokes what the line is of."""

    def draw(figure: Canvas) -> None:
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, models) in zip(grid, panels.items(), strict=True):
            for model, lines in models.items():
                for (name, values), style in zip(lines.items(), ("-", "--"), strict=False):
                    label = f" {MODEL_NAMES[model]}, {wrap_name(name, 16, 1)}" if name else f" {MODEL_NAMES[model]}"
                    axes.plot(range(len(values)), values, style, color=COLORS[model], label=label)
            for name, value in levels.get(title, {}).items():
                axes.axhline(value, color=INK, linewidth=0.8, linestyle=":", label=f" {name}")
            axes.set_ylim(bottom=0)
            axes.set_title(title, fontsize=9, color=INK)
            names = [name.replace("embeddings", "emb.").removeprefix("layer ") for name in layers]
            axes.set_xticks(range(len(layers)), names)
            axes.set_xlabel("layer")
            style_axes(axes)
        legend(figure, grid[0].get_legend_handles_labels()[0], 2, "outside lower left")

    return draw_svg(alt, 2.6, draw)


PROBES_TITLE = "Trees in the states: structural probes"
WORD_ORDER = "order of words"


def probes_section(probe: StructuralProbe, domains: Domains) -> Section:
    """UUAS and root accuracy by layer."""
    if probe.reason:
        return Section(PROBES_TITLE, (Prose(f"No probes: {probe.reason}."),))
    about = (
        f"Linear maps of rank {probe.rank} (Hewitt & Manning 2019), learnt from {probe.learnt:,} parsed sentences of "
        f"{domains['source']}, tried on {probe.linear['source'].trees:,} others and on "
        f"{probe.linear['target'].trees:,} of {domains['target']}. UUAS is the share of the parser's arcs that they "
        f"find; the embeddings know words and places alone."
    )
    caption = probes_sentence(probe, domains)
    panels, levels = {}, {}
    for title, score in (("UUAS, %", "uuas"), ("root found, %", "root")):
        panels[title] = {
            model: {domains[side]: [100 * getattr(layer, score) for layer in layers] for side, layers in sides.items()}
            for model, sides in probe.found.items()
        }
        name = f"{WORD_ORDER}, {wrap_name(domains['target'], 16, 1)}"
        levels[title] = {name: 100 * getattr(probe.linear["target"], score)}
    svg = lines_svg(panels, probe.layers, f"UUAS and root accuracy of probes by layer. {caption}", levels)
    return Section(PROBES_TITLE, (Prose(about, "soft"), Figure(svg, caption)))


def probes_sentence(probe: StructuralProbe, domains: Domains) -> str:
    """The least that probes say, of those that there are."""
    before, last = probe.found["before"], len(probe.layers) - 1
    place = max(range(1, last + 1), key=lambda layer: before["source"][layer].uuas)
    change = probe.found["after"]["target"][last].uuas - before["target"][last].uuas
    return (
        f"The pretrained model's trees are clearest in {probe.layers[place]}: UUAS "
        f"{percent(before['source'][place].uuas)} % on {domains['source']} and "
        f"{percent(before['target'][place].uuas)} % on {domains['target']}, where the embeddings reach "
        f"{percent(before['target'][0].uuas)} % and joining neighbours {percent(probe.linear['target'].uuas)} %; on "
        f"{domains['target']} fine-tuning changed the last layer by {points(change)} points."
    )


SHIFT_TITLE = "The shift between the domains"
SHARED = (
    "Shared: how much of the target the source has shown; divergence: Jensen and Shannon's, in bits, from 0 to 1. "
    "Beside each the same of one half of the source against the other: what the amount of text alone makes of it."
)


def shift_section(shift: DomainShift, domains: Domains) -> Section:
    """A table of what is shared, and the A-distance by layer."""
    blocks: list[Block] = []
    if shift.compared:
        blocks += [Prose(SHARED, "soft"), _shift_table(shift, domains), Prose(_shared(shift, domains))]
    if (lengths := shift.lengths) is not None:
        medians = f"{lengths.source:g} words in {domains['source']} and {lengths.target:g} in {domains['target']}"
        blocks.append(Prose(f"Texts have {medians} (medians; Cliff's delta {lengths.delta:+.2f})."))
    if not shift.a_distances:
        return Section(SHIFT_TITLE, (*blocks, Prose(f"No A-distance: {shift.reason}.")))
    caption = shift_sentence(shift)
    panels = {"proxy A-distance": {model: {"": values} for model, values in shift.a_distances.items()}}
    levels = {"proxy A-distance": {"told apart without fault": 2.0}}
    svg = lines_svg(panels, shift.layers, f"Proxy A-distance by layer. {caption}", levels)
    before, after = (shift.a_distances[model][-1] for model in MODEL_NAMES)
    # Of so many held-out texts; an accuracy is a half and a quarter of its distance.
    spread = sum((0.5 + one / 4) * (0.5 - one / 4) for one in (before, after)) / (2 * min(shift.texts.values()))
    verb = "brought the domains closer together" if after < before else "parted the domains"
    if abs(after - before) <= 1.96 * 4 * spread**0.5:
        verb = "moved the domains by no more than chance does"
    change = f"In the last layer fine-tuning {verb} ({before:.2f} to {after:.2f}); what can be seen need not do harm."
    return Section(SHIFT_TITLE, (*blocks, Figure(svg, caption), Prose(change)))


def _shift_table(shift: DomainShift, domains: Domains) -> Table:
    source, target = domains["source"], domains["target"]
    header = ["kind", f"different in {target}"]
    header += [name for what in ("shared", "occurrences shared", "divergence") for name in (what, f"within {source}")]
    rows = list[list[str | TableCell]]()
    for kind, compared in shift.compared.items():
        shares = map(percent, (compared.types, compared.types_within, compared.tokens, compared.tokens_within))
        apart = (number(bits, ".3f") for bits in (compared.divergence, compared.divergence_within))
        rows.append([kind, f"{compared.different:,}", *shares, *apart])
    return Table(f"What {target} shares with {source}, %", header, rows, narrow=True)


def _shared(shift: DomainShift, domains: Domains) -> str:
    named = {n: one for n, one in shift.compared.items() if n == "words" or n.endswith(" terms")}
    known = listed([f"{name} {percent(one.tokens)} %" for name, one in named.items()])
    parts = [f"Of what is met in {domains['target']}, {domains['source']} has shown this share of occurrences: {known}"]
    parts += [f"commonest {n} that it lacks: {', '.join(one.new)}" for n, one in named.items() if one.new]
    for kind in ("labels", "parts of speech", "relations"):
        if kind in shift.compared and shift.compared[kind].moved:
            item, before, after = shift.compared[kind].moved[0]
            parts.append(f"of {kind} “{item}” moves most, from {percent(before)} to {percent(after)} %")
    return f"{'; '.join(parts)}."


def shift_sentence(shift: DomainShift) -> str:
    """The least that A-distances say, of those that there are."""
    both = []
    for model, values in shift.a_distances.items():
        low, high = int(np.argmin(values)), int(np.argmax(values))
        ends = [f"{values[place]:.2f} ({shift.layers[place]})" for place in (low, high)]
        both.append(f"in the {MODEL_NAMES[model]} model from {ends[0]} to {ends[1]}")
    return f"A linear classifier tells the domains apart at a proxy A-distance {listed(both)}; 0 is chance, 2 no fault."


def answer(analysis: Analysis, subject: Subject) -> str:
    """What the page is called: how much of the parser's trees one head sees, and what fine-tuning did to it."""
    if analysis.heads is None:
        return f"The heads of {subject.backbone} can't be read"
    every = next((relation for relation in analysis.heads if relation.name == ALL), None)
    if every is None:
        return "No relation occurs often enough to name a head for"
    before, after = (every.best[model].accuracy for model in MODEL_NAMES)
    domains = {name: side.domain for name, side in subject.sides().items()}
    return (
        f"One head of {subject.backbone} looks at the word that the parser names for {percent(before['source'])} % of "
        f"the words of {domains['source']} (always the same distance: {percent(every.offset_accuracy['source'])} %), "
        f"after fine-tuning for {percent(after['source'])} %, of {domains['target']} for {percent(after['target'])} %"
    )


def missing_parts(subject: Subject) -> list[str]:
    """Sentences on the parts that the models do not let be had, and why."""
    maps, states = [ABLATION_TITLE, HEADS_TITLE.lower()], ["Structural probes", "A-distances"]
    parts = (maps, subject.unreachable), (states, subject.unreadable)
    return [f"{listed(titles)} can't be had: {why}." for titles, why in parts if why]


def html(analysis: Analysis, subject: Subject) -> str:
    sides = subject.sides()
    domains = {name: side.domain for name, side in sides.items()}
    texts = [f"{counted(len(o.examples), 'text')} ({len(o.scored):,} scored) of {o.domain}" for o in sides.values()]
    about = (
        f"{subject.name}, before and after fine-tuning ({subject.backbone}, trained: {subject.trainable}), on "
        f"{listed(texts)}; trees by {subject.parser.name}."
    )
    sections = [
        Section("In short", (Prose(about, "soft"), *(Prose(text, "warning") for text in missing_parts(subject)))),
        heads_section(analysis.heads, domains),
        ablation_section(analysis.ablation, domains) if not subject.unreachable else None,
        probes_section(analysis.structural_probe, domains),
        shift_section(analysis.domain_shift, domains),
    ]
    return page(answer(analysis, subject), [section for section in sections if section is not None])


def as_json(analysis: Analysis, subject: Subject) -> str:
    """The content of ``analysis.json``: ASCII, without NaN."""
    sides = {
        name: {"domain": side.domain, "texts": len(side.examples), "scored": len(side.scored)}
        for name, side in subject.sides().items()
    }
    about = {"format": FORMAT, "model": subject.name, "backbone": subject.backbone, "trainable": subject.trainable}
    about |= {"parser": subject.parser.name, "seed": subject.seed, "sides": sides}
    about |= {why: getattr(subject, why) or None for why in ("unreachable", "unreadable")}
    return json.dumps(plain_json(about | asdict(analysis)), indent=1, allow_nan=False) + "\n"


def lines(analysis: Analysis, subject: Subject) -> list[str]:
    """The least that a terminal should say."""
    domains = {name: side.domain for name, side in subject.sides().items()}
    texts = " and ".join(f"{counted(len(side.examples), 'text')} of {side.domain}" for side in subject.sides().values())
    if analysis.heads is not None:
        result = [f"{answer(analysis, subject)}.", f"{texts}; {subject.backbone}'s heads on source text:"]
        for r in (r for r in analysis.heads if r.name in (*NAMED_RELATIONS, ALL)):
            head, share = r.best["before"], percent(r.best["before"].accuracy["source"])
            offset = percent(r.offset_accuracy["source"])
            result.append(f"{r.name}: head {head.layer}-{head.head}, {share} % (best offset {offset} %)")
        return [*result, *missing_parts(subject)]
    result = [] if analysis.structural_probe.reason else [probes_sentence(analysis.structural_probe, domains)]
    result += [shift_sentence(analysis.domain_shift)] if analysis.domain_shift.a_distances else []
    return [f"{texts}, read by {subject.backbone}:", *result, *missing_parts(subject)]
