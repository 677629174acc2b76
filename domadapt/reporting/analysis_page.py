"""The page of domadapt analyze: heads, layers, domains."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from matplotlib.figure import Figure as Canvas

from domadapt.analysis.ablation import Ablation, ablation
from domadapt.analysis.attention import ALL, Change, Heads, Patterns, Relation, read_maps, weight_change
from domadapt.analysis.probes import StructuralProbe, TreeScores, structural_probe
from domadapt.analysis.shift import Compared, DomainShift, domain_shift
from domadapt.analysis.subject import Subject
from domadapt.reporting.analysis_heads import (
    ABLATION_TITLE,
    COLORS,
    HEADS_TITLE,
    NAMED,
    PATTERNS_TITLE,
    Domains,
    ablation_section,
    change_section,
    head_name,
    heads_section,
    layer_name,
    patterns_section,
    short,
    without,
)
from domadapt.reporting.blocks import Block, Column, Facts, Figure, Folded, Prose, Section, Table, for_each, tabled
from domadapt.reporting.formats import counted, listed, number, percent, points
from domadapt.reporting.render import page
from domadapt.reporting.svg import INK, drawn, legend, plain
from domadapt.utils.text import plain_json

FORMAT = 1
WORTH_NAMING = ("det", "obj", "amod")
Lines = Mapping[str, Mapping[str, Sequence[float]]]  # by model, then by what each line is of


@dataclass(frozen=True, slots=True)
class Analysis:
    """All numbers; what attention is needed for is None where that can't be reached, ablation where nobody asked."""

    heads: Heads | None
    patterns: Patterns | None
    change: Change
    structural_probe: StructuralProbe
    domain_shift: DomainShift
    ablation: Ablation | None


def analyse(subject: Subject, score: bool = True) -> Analysis:
    """Every part of an analysis that the models let be had."""
    if subject.unreachable:
        weights = weight_change(subject.before, subject.after)
        return Analysis(None, None, Change(None, weights), structural_probe(subject), domain_shift(subject), None)
    heads, patterns, change = read_maps(subject)
    probes, shift = structural_probe(subject), domain_shift(subject)
    return Analysis(heads, patterns, change, probes, shift, ablation(subject) if score else None)


def lines_svg(
    panels: Mapping[str, Lines], layers: Sequence[str], alt: str, levels: Mapping[str, Mapping[str, float]]
) -> str:
    """Numbers by layer: colours tell the models, strokes what the line is of."""

    def draw(figure: Canvas) -> None:
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, models) in zip(grid, panels.items(), strict=True):
            for model, lines in models.items():
                for (name, values), style in zip(lines.items(), ("-", "--"), strict=False):
                    label = f" {NAMED[model]}, {short(name)}" if name else f" {NAMED[model]}"
                    axes.plot(range(len(values)), values, style, color=COLORS[model], label=label)
            for name, value in levels.get(title, {}).items():
                axes.axhline(value, color=INK, linewidth=0.8, linestyle=":", label=f" {name}")
            axes.set_ylim(bottom=0)
            axes.set_title(title, fontsize=9, color=INK)
            axes.set_xticks(range(len(layers)), [*map(layer_name, layers)])
            axes.set_xlabel("layer")
            plain(axes)
        legend(figure, grid[0].get_legend_handles_labels()[0], 2, "outside lower left")

    return drawn(alt, 2.6, draw)


PROBES_TITLE = "Trees in the states: structural probes"
ORDER = "order of words"


def probes_section(probe: StructuralProbe, domains: Domains) -> Section:
    """UUAS and root accuracy by layer, and every score as a table."""
    if probe.reason:
        return Section(PROBES_TITLE, (Prose(f"No probes: {probe.reason}."),))
    about = (
        f"Linear maps of rank {probe.rank} (Hewitt & Manning 2019), learnt from {probe.learnt:,} parsed sentences of "
        f"{domains['source']}, tried on {probe.linear['source'].trees:,} held-out ones and on "
        f"{probe.linear['target'].trees:,} of {domains['target']}. UUAS is the share of the parser's arcs that are in "
        f"the spanning tree of predicted distances; distances and depths are rank correlations. The embeddings know "
        f"words and places alone: what a layer finds beyond them, the encoder has added."
    )
    caption = probes_sentence(probe, domains)
    panels, levels = {}, {}
    for title, score in (("UUAS, %", "uuas"), ("root found, %", "root")):
        panels[title] = {
            model: {domains[side]: [100 * getattr(one, score) for one in layers] for side, layers in sides.items()}
            for model, sides in probe.found.items()
        }
        levels[title] = {ORDER: 100 * getattr(probe.linear["target"], score)}
    svg = lines_svg(panels, probe.layers, f"UUAS and root accuracy of probes by layer. {caption}", levels)
    gaps = []
    for model, sides in probe.found.items():
        place = best(sides["source"])
        home, away = sides["source"][place], sides["target"][place]
        uuas, root = points(away.uuas - home.uuas), points(away.root - home.root)
        where = f"in the {NAMED[model]} model ({probe.layers[place]})"
        gaps.append(f"{uuas} points UUAS and {root} points root accuracy {where}")
    gap = f"What a probe learnt on {domains['source']} changes on {domains['target']} by {gaps[0]}, and by {gaps[1]}."
    tables = tuple(_probe_table(probe, side, domain) for side, domain in domains.items())
    return Section(
        PROBES_TITLE, (Prose(about, "soft"), Figure(svg, caption), Prose(gap), Folded("Every score", tables))
    )


def best(layers: Sequence[TreeScores]) -> int:
    """The layer, embeddings left out, with the highest UUAS."""
    return 1 + int(np.argmax([one.uuas for one in layers[1:]]))


def probes_sentence(probe: StructuralProbe, domains: Domains) -> str:
    """The least that probes say, of those that there are."""
    before, last = probe.found["before"], len(probe.layers) - 1
    place = best(before["source"])
    change = probe.found["after"]["target"][last].uuas - before["target"][last].uuas
    return (
        f"The pretrained model's trees are clearest in {probe.layers[place]}: UUAS "
        f"{percent(before['source'][place].uuas)} % on {domains['source']} and "
        f"{percent(before['target'][place].uuas)} % on {domains['target']}, where the embeddings reach "
        f"{percent(before['target'][0].uuas)} % and joining neighbours {percent(probe.linear['target'].uuas)} %; on "
        f"{domains['target']} the last layer {'gained' if change > 0 else 'lost'} {abs(100 * change):.1f} points by "
        f"fine-tuning."
    )


def _probe_table(probe: StructuralProbe, side: str, domain: str) -> Table:
    rows = [(name, [probe.found[model][side][place] for model in NAMED]) for place, name in enumerate(probe.layers)]
    rows.append((ORDER, [probe.linear[side]] * 2))
    columns: list[Column] = [("layer", lambda row: row[0])]
    for place, model in enumerate(NAMED.values()):
        shares = {("uuas", place): f"{model}: UUAS", ("root", place): f"{model}: root"}
        columns += for_each(shares, lambda row, key: percent(getattr(row[1][key[1]], key[0])))
        ranks = {("distance", place): f"{model}: distances", ("depth", place): f"{model}: depths"}
        columns += for_each(ranks, lambda row, key: f"{getattr(row[1][key[1]], key[0]):.2f}")
    return tabled(f"Probes on {domain} sentences", rows, columns, narrow=True)


SHIFT_TITLE = "The shift between the domains"
PATHS = "opinion-aspect paths"
SHARED = (
    "Shared is how much of the target the source has shown, counted by different items and by occurrences; divergence "
    "is Jensen and Shannon's, in bits, from 0 to 1. Beside each stands the same of one half of the source against the "
    "other: what the amount of text alone makes of it."
)
PUBLISHED = (
    "Published for reviews of devices, laptops and restaurants: 7 to 12 % of the occurrences of aspect terms are "
    "shared, 87 to 97 % of those of paths from opinions to aspects (Klein et al. 2022)."
)


def shift_section(shift: DomainShift, domains: Domains) -> Section:
    """A table of what is shared, and the A-distance by layer."""
    blocks: list[Block] = []
    if shift.compared:
        blocks += [Prose(SHARED, "soft"), _shift_table(shift, domains), *map(Prose, _shift_sentences(shift, domains))]
        blocks += [Prose(PUBLISHED, "soft")] if PATHS in shift.compared else []
    if (lengths := shift.lengths) is not None:
        blocks.append(
            Prose(
                f"Texts have {lengths.source:g} words in {domains['source']} and {lengths.target:g} in "
                f"{domains['target']} (medians; Cliff's delta {lengths.delta:+.2f})."
            )
        )
    if not shift.a_distances:
        return Section(SHIFT_TITLE, (*blocks, Prose(f"No A-distance: {shift.reason}.")))
    caption = shift_sentence(shift)
    panels = {"proxy A-distance": {model: {"": values} for model, values in shift.a_distances.items()}}
    levels = {"proxy A-distance": {"told apart without fault": 2.0}}
    svg = lines_svg(panels, shift.layers, f"Proxy A-distance by layer. {caption}", levels)
    columns = for_each({m: NAMED[m] for m in shift.a_distances}, lambda at, m: f"{shift.a_distances[m][at]:.2f}")
    columns = [("layer", lambda place: shift.layers[place]), *columns]
    table = tabled("Proxy A-distance of mean states", range(len(shift.layers)), columns)
    before, after = (shift.a_distances[model][-1] for model in NAMED)
    moved = after - before
    verb = "brought the domains closer together" if moved < -0.02 else "parted them" if moved > 0.02 else "left them"
    change = f"In the last layer fine-tuning {verb} ({before:.2f} to {after:.2f}); what can be seen need not do harm."
    return Section(SHIFT_TITLE, (*blocks, Figure(svg, caption), table, Prose(change)))


def _shift_table(shift: DomainShift, domains: Domains) -> Table:
    within = f"within {domains['source']}"
    columns: list[Column] = [
        ("kind", lambda row: row[0]),
        (f"different in {domains['target']}", lambda row: f"{row[1].different:,}"),
        ("shared", lambda row: percent(row[1].types)),
        (within, lambda row: percent(row[1].types_within)),
        ("occurrences shared", lambda row: percent(row[1].tokens)),
        (within, lambda row: percent(row[1].tokens_within)),
        ("divergence", lambda row: f"{row[1].divergence:.3f}"),
        (within, lambda row: number(row[1].divergence_within, ".3f")),
    ]
    title = f"What {domains['target']} shares with {domains['source']}, %"
    return tabled(title, shift.compared.items(), columns, narrow=True)


def _shift_sentences(shift: DomainShift, domains: Domains) -> tuple[str, str]:
    named = {n: one for n, one in shift.compared.items() if n in ("words", PATHS) or n.endswith(" terms")}
    shares = listed([f"{name} {percent(one.tokens)} %" for name, one in named.items()])
    new = [f"commonest {n} that it lacks: {', '.join(one.new)}" for n, one in named.items() if one.new and n != PATHS]
    start = f"Of what is met in {domains['target']}, {domains['source']} has shown this share of occurrences"

    def beyond(one: Compared) -> float:
        return one.divergence - (one.divergence_within or 0.0)

    name, one = max(shift.compared.items(), key=lambda item: beyond(item[1]))
    inside = "" if one.divergence_within is None else f" against {one.divergence_within:.3f} within the source"
    most = [f"What shifts most beyond the source's own spread are {name} (divergence {one.divergence:.3f}{inside})"]
    for kind in ("labels", "parts of speech", "relations"):
        if kind in shift.compared and shift.compared[kind].moved:
            item, before, after = shift.compared[kind].moved[0]
            most.append(f"of {kind} “{item}” moves most, from {percent(before)} to {percent(after)} %")
    return f"{'; '.join([f'{start}: {shares}', *new])}.", f"{'; '.join(most)}."


def shift_sentence(shift: DomainShift) -> str:
    """The least that A-distances say, of those that there are."""
    told = []
    for model, values in shift.a_distances.items():
        low, high = int(np.argmin(values)), int(np.argmax(values))
        ends = [f"{values[place]:.2f} ({shift.layers[place]})" for place in (low, high)]
        told.append(f"in the {NAMED[model]} model from {ends[0]} to {ends[1]}")
    return f"A linear classifier tells the domains apart at a proxy A-distance {listed(told)}; 0 is chance, 2 no fault."


def lacking(found: Analysis, subject: Subject) -> list[str]:
    """Sentences on the parts that the models do not let be had, and why."""
    maps = [ABLATION_TITLE, HEADS_TITLE.lower(), PATTERNS_TITLE.lower(), "change of maps"]
    states = ["Structural probes", "A-distances", *(["change of weights"] if found.change.weights is None else [])]
    return [without(listed(parts), why).text
            for parts, why in ((maps, subject.unreachable), (states, subject.unreadable)) if why]  # fmt: skip


def html(found: Analysis, subject: Subject) -> str:
    """The page."""
    domains = {side: one.domain for side, one in subject.sides().items()}
    # What the model can do instead is said once, in short.
    why = f"{subject.backbone} {subject.before.encoder.unreachable}" if subject.unreachable else ""
    sections = [
        heads_section(found.heads, domains, subject.backbone, why),
        patterns_section(found.patterns, domains, why),
        change_section(found.change, domains, why, subject.unreadable),
        ablation_section(found.ablation, domains, why),
        probes_section(found.structural_probe, domains),
        shift_section(found.domain_shift, domains),
    ]
    captions = [next((b.caption for b in one.blocks if isinstance(b, Figure)), "") for one in sections]
    texts = map(Prose, (*filter(None, captions), *lacking(found, subject)))
    title = f"What {subject.backbone} knows, before and after fine-tuning: {' → '.join(domains.values())}"
    return page(title, [Section("In short", (_facts(found, subject), *texts)), *sections])


def numbers(found: Analysis, subject: Subject) -> str:
    """The content of ``analysis.json``: ASCII, without NaN."""
    sides = {
        side: {"domain": one.domain, "texts": len(one.examples), "scored": len(one.scored)}
        for side, one in subject.sides().items()
    }
    about = {
        "format": FORMAT,
        "model": subject.name,
        "backbone": subject.backbone,
        "trainable": subject.trainable,
        "parser": subject.parser.name,
        "seed": subject.seed,
        "sides": sides,
        "unreachable": subject.unreachable or None,
        "unreadable": subject.unreadable or None,
    }
    return json.dumps(plain_json({**about, **asdict(found)}), indent=1, allow_nan=False) + "\n"


def lines(found: Analysis, subject: Subject) -> list[str]:
    """The least that a terminal should say."""
    domains = {side: one.domain for side, one in subject.sides().items()}
    texts = " and ".join(f"{counted(len(one.examples), 'text')} of {one.domain}" for one in subject.sides().values())
    if found.heads is not None:
        told = [f"{r.name}: {_best(r)}" for r in found.heads.relations if r.name in (*WORTH_NAMING, ALL)]
        return [f"{texts}; {subject.backbone}'s heads on source text:", *told, *lacking(found, subject)]
    told = [] if found.structural_probe.reason else [probes_sentence(found.structural_probe, domains)]
    told += [shift_sentence(found.domain_shift)] if found.domain_shift.a_distances else []
    return [f"{texts}, read by {subject.backbone}:", *told, *lacking(found, subject)]


def _best(relation: Relation) -> str:
    head, offset = relation.best["before"], percent(relation.offset_accuracy["source"])
    return f"head {head_name(head.layer, head.head)}, {percent(head.accuracy['source'])} % (best offset {offset} %)"


def _facts(found: Analysis, subject: Subject) -> Facts:
    sides = subject.sides()
    items = [("model", subject.name), ("pretrained", subject.backbone), ("trained", subject.trainable)]
    items += [(side, f"{one.domain}, {counted(len(one.examples), 'text')}") for side, one in sides.items()]
    items += [(f"{side}, scored", counted(len(one.scored), "labelled text")) for side, one in sides.items()]
    items.append(("trees by", subject.parser.name))
    sentence = f"The heads of {subject.backbone} can't be read."
    if found.heads is not None:
        named = {relation.name: relation for relation in found.heads.relations}
        told = "; ".join(f"{name} in {_best(named[name])}" for name in WORTH_NAMING if name in named)
        sentence = (
            f"{subject.backbone} finds {told}." if told else "No relation occurs often enough to name a head for."
        )
    return Facts(sentence, tuple(items))
