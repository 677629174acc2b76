"""The page of an analysis, and its numbers as a file."""

import json
from dataclasses import asdict, dataclass

from domadapt.analysis.ablation import Ablation, ablation
from domadapt.analysis.heads import ALL, Change, Heads, Patterns, head_name, read_maps, weight_change
from domadapt.analysis.probes import StructuralProbe, structural_probe
from domadapt.analysis.shift import DomainShift, domain_shift
from domadapt.analysis.subject import Subject
from domadapt.reporting.analyses import ablation as switched_off
from domadapt.reporting.analyses import domain_shift as shifted
from domadapt.reporting.analyses import heads as against_relations
from domadapt.reporting.analyses import structural_probe as probed
from domadapt.reporting.analyses.common import absent, percent, without
from domadapt.reporting.analyses.maps import PATTERNS_TITLE, change_section, patterns_section
from domadapt.reporting.blocks import Facts, Figure, Section, Text, counted, listed
from domadapt.reporting.page import page
from domadapt.utils.text import plain_json

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
    """Every part of an analysis that the models let be had.

    Args:
        subject: models and texts.
        score: whether parts are switched off, the slowest of it.
    """
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
        against_relations.section(found.heads, domains, subject.backbone)
        if found.heads is not None
        else absent(against_relations.TITLE, why),
        patterns_section(found.patterns, domains) if found.patterns is not None else absent(PATTERNS_TITLE, why),
        change_section(found.change, domains, why, subject.unreadable),
        absent(switched_off.TITLE, why) if why else switched_off.section(found.ablation, domains),
        probed.section(found.structural_probe, domains),
        shifted.section(found.domain_shift, domains),
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
    told = [] if found.structural_probe.reason else [probed.sentence(found.structural_probe, domains)]
    return [*told, *([shifted.sentence(found.domain_shift)] if found.domain_shift.a_distances else [])]


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
