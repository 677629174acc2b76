"""The page of an analysis, and its numbers as a file."""

import json
from dataclasses import asdict, dataclass

from domadapt.analysis.ablation import Ablation, ablation
from domadapt.analysis.domain_shift import DomainShift, domain_shift
from domadapt.analysis.heads import ALL, Heads, head_name
from domadapt.analysis.maps import Change, Patterns, read_maps
from domadapt.analysis.structural_probe import StructuralProbe, structural_probe
from domadapt.analysis.subject import Subject
from domadapt.reporting.analyses import ablation as switched_off
from domadapt.reporting.analyses import domain_shift as shifted
from domadapt.reporting.analyses import heads as against_relations
from domadapt.reporting.analyses import structural_probe as probed
from domadapt.reporting.analyses.common import percent
from domadapt.reporting.analyses.maps import change_section, patterns_section
from domadapt.reporting.blocks import Facts, Figure, Section, Text, counted
from domadapt.reporting.page import page
from domadapt.utils.plain import plain_json

FORMAT = 1
WORTH_NAMING = ("det", "obj", "amod")


@dataclass(frozen=True, slots=True)
class Analysis:
    """All numbers.

    Attributes:
        heads, patterns, change: of one pass over all texts.
        structural_probe, domain_shift: each with its own passes.
        ablation: None where no text is to be scored.
    """

    heads: Heads
    patterns: Patterns
    change: Change
    structural_probe: StructuralProbe
    domain_shift: DomainShift
    ablation: Ablation | None


def analyse(subject: Subject, score: bool = True) -> Analysis:
    """Every part of an analysis.

    Args:
        subject: models and texts.
        score: whether parts are switched off, the slowest of it.
    """
    heads, patterns, change = read_maps(subject)
    probes, shift = structural_probe(subject), domain_shift(subject)
    return Analysis(heads, patterns, change, probes, shift, ablation(subject) if score else None)


def html(found: Analysis, subject: Subject) -> str:
    """The page."""
    domains = {side: one.domain for side, one in subject.sides().items()}
    sections = [
        against_relations.section(found.heads, domains, subject.backbone),
        patterns_section(found.patterns, domains),
        change_section(found.change, domains),
        switched_off.section(found.ablation, domains),
        probed.section(found.structural_probe, domains),
        shifted.section(found.domain_shift, domains),
    ]
    said = (next((block.caption for block in one.blocks if isinstance(block, Figure)), "") for one in sections)
    short = Section("In short", (_facts(found, subject), *(Text(sentence) for sentence in said if sentence)))
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
    }
    return json.dumps(plain_json({**about, **asdict(found)}), indent=1, allow_nan=False) + "\n"


def lines(found: Analysis, subject: Subject) -> list[str]:
    """The least that a terminal should say."""
    told = []
    for relation in found.heads.relations:
        if relation.name in (*WORTH_NAMING, ALL):
            best = relation.best["before"]
            told.append(
                f"{relation.name}: head {head_name(best.layer, best.head)}, {percent(best.accuracy['source'])} % (best "
                f"offset {percent(relation.offset_accuracy['source'])} %)"
            )
    texts = [f"{counted(len(one.examples), 'text')} of {one.domain}" for one in subject.sides().values()]
    return [f"{' and '.join(texts)}; {subject.backbone}'s heads on source text:", *told]


def _facts(found: Analysis, subject: Subject) -> Facts:
    named = {r.name: r for r in found.heads.relations}
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
    return Facts(sentence, tuple(items))
