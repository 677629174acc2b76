"""How the target differs from the source, in its text and in the states of both models."""

import numpy as np

from domadapt.analysis.compare import Compared
from domadapt.analysis.shift import DomainShift
from domadapt.reporting.analyses.common import NAMED, Domains, percent
from domadapt.reporting.analyses.lines import lines_svg
from domadapt.reporting.blocks import Block, Figure, Section, Table, Text, listed

TITLE = "The shift between the domains"
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


def section(found: DomainShift, domains: Domains) -> Section:
    """A table of what is shared, and the A-distance by layer."""
    blocks: list[Block] = []
    if found.compared:
        blocks += [Text(ABOUT, "soft"), _table(found, domains), Text(_shared(found, domains)), Text(_moved(found))]
        blocks += [Text(PUBLISHED, "soft")] if PATHS in found.compared else []
    if found.lengths is not None:
        blocks.append(Text(_lengths(found, domains)))
    if not found.a_distances:
        return Section(TITLE, (*blocks, Text(f"No A-distance: {found.reason}.")))
    caption = sentence(found)
    panels = {"proxy A-distance": {model: {"": values} for model, values in found.a_distances.items()}}
    levels = {"proxy A-distance": {"told apart without fault": 2.0}}
    svg = lines_svg(panels, found.layers, f"Proxy A-distance by layer. {caption}", levels)
    return Section(TITLE, (*blocks, Figure(svg, caption), _distance_table(found), Text(_change(found))))


def _table(found: DomainShift, domains: Domains) -> Table:
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


def sentence(found: DomainShift) -> str:
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
