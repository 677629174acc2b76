"""The page of domadapt analyze: heads, layers, domains."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from domadapt.analysis.ablation import Ablation, ablation
from domadapt.analysis.attention import ALL, Change, Heads, Patterns, read_maps, weight_change
from domadapt.analysis.probes import StructuralProbe, TreeScores, structural_probe
from domadapt.analysis.shift import Compared, DomainShift, domain_shift
from domadapt.analysis.subject import Subject
from domadapt.reporting.analysis_heads import (
    HEADS_TITLE,
    NAMED,
    PATTERNS_TITLE,
    Domains,
    absent,
    change_section,
    head_name,
    heads_section,
    lines_svg,
    patterns_section,
    percent,
    points,
    without,
)
from domadapt.reporting.analysis_heads import TITLE as ABLATION_TITLE
from domadapt.reporting.analysis_heads import section as ablation_section
from domadapt.reporting.blocks import Block, Facts, Figure, Folded, Section, Table, Text, counted, listed, page
from domadapt.utils.text import plain_json

TITLE = "Trees in the states: structural probes"
ORDER = "order of words"
HEADER = ["layer", *(f"{NAMED[model]}: {what}" for model in NAMED for what in ("UUAS", "distances", "root", "depths"))]


def section(found: StructuralProbe, domains: Domains) -> Section:
    """UUAS and root accuracy by layer, and every score as a table."""
    if found.reason:
        return Section(TITLE, (Text(f"No probes: {found.reason}."),))
    about = (
        f"Linear maps of rank {found.rank} (Hewitt & Manning 2019), learnt from {found.learnt:,} parsed sentences of "
        f"{domains['source']}, tried on {found.linear['source'].trees:,} held-out ones and on "
        f"{found.linear['target'].trees:,} of {domains['target']}. UUAS is the share of the parser's arcs that are in "
        f"the spanning tree of predicted distances; distances and depths are rank correlations. The embeddings know "
        f"words and places alone: what a layer finds beyond them, the encoder has added."
    )
    caption = sentence(found, domains)
    panels = {
        "UUAS, %": _lines(found, domains, "uuas"),
        "root found, %": _lines(found, domains, "root"),
    }
    words = found.linear["target"]
    levels = {"UUAS, %": {ORDER: 100 * words.uuas}, "root found, %": {ORDER: 100 * words.root}}
    svg = lines_svg(panels, found.layers, f"UUAS and root accuracy of probes by layer. {caption}", levels)
    tables: list[Block] = [_table(found, side, domain) for side, domain in domains.items()]
    gap = _gap(found, domains)
    return Section(TITLE, (Text(about, "soft"), Figure(svg, caption), Text(gap), Folded("Every score", tuple(tables))))


def _lines(found: StructuralProbe, domains: Domains, name: str) -> dict[str, dict[str, list[float]]]:
    return {
        model: {domains[side]: [100 * getattr(one, name) for one in layers] for side, layers in sides.items()}
        for model, sides in found.found.items()
    }


def best(layers: Sequence[TreeScores]) -> int:
    """The layer, embeddings left out, with the highest UUAS."""
    return 1 + int(np.argmax([one.uuas for one in layers[1:]]))


def sentence(found: StructuralProbe, domains: Domains) -> str:
    """The least that probes say, of those that there are."""
    before = found.found["before"]
    place = best(before["source"])
    at_home, away, bare = before["source"][place], before["target"][place], before["target"][0]
    last = len(found.layers) - 1
    change = found.found["after"]["target"][last].uuas - before["target"][last].uuas
    verb = "gained" if change > 0 else "lost"
    return (
        f"The pretrained model's trees are clearest in {found.layers[place]}: UUAS {percent(at_home.uuas)} % on "
        f"{domains['source']} and {percent(away.uuas)} % on {domains['target']}, where the embeddings reach "
        f"{percent(bare.uuas)} % and joining neighbours {percent(found.linear['target'].uuas)} %; on "
        f"{domains['target']} the last layer {verb} {abs(100 * change):.1f} points by fine-tuning."
    )


def _gap(found: StructuralProbe, domains: Domains) -> str:
    told = []
    for model, sides in found.found.items():
        place = best(sides["source"])
        told.append(
            f"{points(sides['target'][place].uuas - sides['source'][place].uuas)} points UUAS and "
            f"{points(sides['target'][place].root - sides['source'][place].root)} points root accuracy in the "
            f"{NAMED[model]} model ({found.layers[place]})"
        )
    return (
        f"What a probe learnt on {domains['source']} changes on {domains['target']} by {told[0]}, and by {told[1]}: "
        f"how well the place of syntax in the states carries over."
    )


def _table(found: StructuralProbe, side: str, domain: str) -> Table:
    rows = [
        [name, *(cell for model in NAMED for cell in _cells(found.found[model][side][place]))]
        for place, name in enumerate(found.layers)
    ]
    rows.append([ORDER, *_cells(found.linear[side]) * 2])
    return Table(f"Probes on {domain} sentences", HEADER, rows, narrow=True)


def _cells(one: TreeScores) -> list[str]:
    return [percent(one.uuas), f"{one.distance:.2f}", percent(one.root), f"{one.depth:.2f}"]


DOMAIN_SHIFT_TITLE = "The shift between the domains"
PATHS = "opinion-aspect paths"
ABOUT = (
    "Shared is how much of the target the source has shown, counted by different items and by occurrences; divergence "
    "is Jensen and Shannon's, in bits, from 0 to 1. Beside each stands the same of one half of the source against the "
    "other: what the amount of text alone makes of it."
)
PUBLISHED = (
    "Published for reviews of devices, laptops and restaurants: 7 to 12 % of the occurrences of aspect terms are "
    "shared, 87 to 97 % of those of paths from opinions to aspects (Klein et al. 2022)."
)


def domain_shift_section(found: DomainShift, domains: Domains) -> Section:
    """A table of what is shared, and the A-distance by layer."""
    blocks: list[Block] = []
    if found.compared:
        blocks += [
            Text(ABOUT, "soft"),
            _table_of_domain_shift(found, domains),
            Text(_shared(found, domains)),
            Text(_moved(found)),
        ]
        blocks += [Text(PUBLISHED, "soft")] if PATHS in found.compared else []
    if found.lengths is not None:
        blocks.append(Text(_lengths(found, domains)))
    if not found.a_distances:
        return Section(DOMAIN_SHIFT_TITLE, (*blocks, Text(f"No A-distance: {found.reason}.")))
    caption = domain_shift_sentence(found)
    panels = {"proxy A-distance": {model: {"": values} for model, values in found.a_distances.items()}}
    levels = {"proxy A-distance": {"told apart without fault": 2.0}}
    svg = lines_svg(panels, found.layers, f"Proxy A-distance by layer. {caption}", levels)
    return Section(DOMAIN_SHIFT_TITLE, (*blocks, Figure(svg, caption), _distance_table(found), Text(_change(found))))


def _table_of_domain_shift(found: DomainShift, domains: Domains) -> Table:
    within = f"within {domains['source']}"
    header = ["kind", f"different in {domains['target']}"]
    header += [name for kind in ("shared", "occurrences shared", "divergence") for name in (kind, within)]
    rows = [
        [
            name,
            f"{one.different:,}",
            *(percent(one.types), percent(one.types_within), percent(one.tokens), percent(one.tokens_within)),
            *(f"{one.divergence:.3f}", "-" if one.divergence_within is None else f"{one.divergence_within:.3f}"),
        ]
        for name, one in found.compared.items()
    ]
    return Table(f"What {domains['target']} shares with {domains['source']}, %", header, rows, narrow=True)


def _shared(found: DomainShift, domains: Domains) -> str:
    named = {name: one for name, one in found.compared.items() if _names_things(name) or name == PATHS}
    told = [f"{name} {percent(one.tokens)} %" for name, one in named.items()]
    lacking = {name: one.new for name, one in named.items() if one.new and name != PATHS}
    new = "; ".join(f"commonest {name} that it lacks: {', '.join(items)}" for name, items in lacking.items())
    return (
        f"Of what is met in {domains['target']}, {domains['source']} has shown this share of occurrences: "
        f"{listed(told)}" + (f"; {new}." if new else ".")
    )


def _names_things(name: str) -> bool:
    return name == "words" or name.endswith(" terms")


def _moved(found: DomainShift) -> str:
    name, one = max(found.compared.items(), key=lambda pair: _beyond(pair[1]))
    inside = "" if one.divergence_within is None else f" against {one.divergence_within:.3f} within the source"
    told = f"What shifts most beyond the source's own spread are {name} (divergence {one.divergence:.3f}{inside})"
    parts = []
    for kind in ("labels", "parts of speech", "relations"):
        if kind in found.compared and found.compared[kind].moved:
            item, before, after = found.compared[kind].moved[0]
            parts.append(f"of {kind} “{item}” moves most, from {percent(before)} to {percent(after)} %")
    return f"{told}{''.join(f'; {part}' for part in parts)}."


def _beyond(one: Compared) -> float:
    return one.divergence - (one.divergence_within or 0.0)


def _lengths(found: DomainShift, domains: Domains) -> str:
    lengths = found.lengths
    assert lengths is not None
    return (
        f"Texts have {lengths.source:g} words in {domains['source']} and {lengths.target:g} in {domains['target']} "
        f"(medians; Cliff's delta {lengths.delta:+.2f})."
    )


def domain_shift_sentence(found: DomainShift) -> str:
    """The least that A-distances say, of those that there are."""
    told = []
    for model, values in found.a_distances.items():
        low, high = int(np.argmin(values)), int(np.argmax(values))
        told.append(
            f"in the {NAMED[model]} model from {values[low]:.2f} ({found.layers[low]}) to {values[high]:.2f} "
            f"({found.layers[high]})"
        )
    return f"A linear classifier tells the domains apart at a proxy A-distance {listed(told)}; 0 is chance, 2 no fault."


def _distance_table(found: DomainShift) -> Table:
    rows = [
        [name, *(f"{values[place]:.2f}" for values in found.a_distances.values())]
        for place, name in enumerate(found.layers)
    ]
    return Table("Proxy A-distance of mean states", ["layer", *(NAMED[model] for model in found.a_distances)], rows)


def _change(found: DomainShift) -> str:
    before, after = (found.a_distances[model] for model in NAMED)
    change = after[-1] - before[-1]
    verb = "brought the domains closer together" if change < -0.02 else "parted them" if change > 0.02 else "left them"
    return (
        f"In the last layer fine-tuning {verb} ({before[-1]:.2f} to {after[-1]:.2f}). The distance says what can be "
        f"seen, not what does harm: a model may tell domains apart and label both well."
    )


FORMAT = 1
WORTH_NAMING = ("det", "obj", "amod")
OF_ATTENTION = ("heads and layers switched off", "heads against relations", "patterns of attention", "change of maps")
OF_LAYERS = ("structural probes", "A-distances")


@dataclass(frozen=True, slots=True)
class Analysis:
    """All numbers.

    Attributes:
        heads, patterns, change: of one pass over all texts. Where attention can't be reached they are None, but for the
            change of weights.
        structural_probe, domain_shift: each with its own passes, and with its reason where it lacks numbers.
        ablation: None where no text is to be scored, or attention can't be reached.
    """

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


def lacking(found: Analysis, subject: Subject) -> list[str]:
    """Sentences on the parts that the models do not let be had, and why."""
    of_layers = (*OF_LAYERS, *(["change of weights"] if found.change.weights is None else []))
    given = (subject.unreachable, OF_ATTENTION), (subject.unreadable, of_layers)
    named = [(listed(parts), why) for why, parts in given if why]
    return [without(f"{parts[0].upper()}{parts[1:]}", why).text for parts, why in named]


def html(found: Analysis, subject: Subject) -> str:
    """The page."""
    domains = {side: one.domain for side, one in subject.sides().items()}
    # What the model can do instead is said once, in short.
    why = f"{subject.backbone} {subject.before.encoder.unreachable}" if subject.unreachable else ""
    sections = [
        heads_section(found.heads, domains, subject.backbone) if found.heads is not None else absent(HEADS_TITLE, why),
        patterns_section(found.patterns, domains) if found.patterns is not None else absent(PATTERNS_TITLE, why),
        change_section(found.change, domains, why, subject.unreadable),
        absent(ABLATION_TITLE, why) if why else ablation_section(found.ablation, domains),
        section(found.structural_probe, domains),
        domain_shift_section(found.domain_shift, domains),
    ]
    said = (next((block.caption for block in one.blocks if isinstance(block, Figure)), "") for one in sections)
    told = (*(sentence for sentence in said if sentence), *lacking(found, subject))
    short = Section("In short", (_facts(found, subject), *map(Text, told)))
    return page(
        f"What {subject.backbone} knows, before and after fine-tuning: {' → '.join(domains.values())}",
        [short, *sections],
    )


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
    texts = " and ".join(f"{counted(len(one.examples), 'text')} of {one.domain}" for one in subject.sides().values())
    if found.heads is None:
        return [f"{texts}, read by {subject.backbone}:", *_of_states(found, subject), *lacking(found, subject)]
    told = []
    for relation in found.heads.relations:
        if relation.name in (*WORTH_NAMING, ALL):
            best = relation.best["before"]
            told.append(
                f"{relation.name}: head {head_name(best.layer, best.head)}, {percent(best.accuracy['source'])} % (best "
                f"offset {percent(relation.offset_accuracy['source'])} %)"
            )
    return [f"{texts}; {subject.backbone}'s heads on source text:", *told, *lacking(found, subject)]


def _of_states(found: Analysis, subject: Subject) -> list[str]:
    domains = {side: one.domain for side, one in subject.sides().items()}
    told = [] if found.structural_probe.reason else [sentence(found.structural_probe, domains)]
    return [*told, *([domain_shift_sentence(found.domain_shift)] if found.domain_shift.a_distances else [])]


def _facts(found: Analysis, subject: Subject) -> Facts:
    named = {r.name: r for r in found.heads.relations} if found.heads is not None else {}
    known = [named[name] for name in WORTH_NAMING if name in named]
    told = ", ".join(
        f"{r.name} in head {head_name(r.best['before'].layer, r.best['before'].head)} "
        f"({percent(r.best['before'].accuracy['source'])} %, best offset {percent(r.offset_accuracy['source'])} %)"
        for r in known
    )
    items = [("model", subject.name), ("pretrained", subject.backbone), ("trained", subject.trainable)]
    items += [(side, f"{one.domain}, {counted(len(one.examples), 'text')}") for side, one in subject.sides().items()]
    items += [(f"{side}, scored", counted(len(one.scored), "labelled text")) for side, one in subject.sides().items()]
    items.append(("trees by", subject.parser.name))
    sentence = f"{subject.backbone} finds {told}." if told else "No relation occurs often enough to name a head for it."
    if found.heads is None:
        sentence = f"The heads of {subject.backbone} can't be read."
    return Facts(sentence, tuple(items))
