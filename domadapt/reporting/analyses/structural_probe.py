"""What linear maps find of the parse trees in each layer's states."""

from collections.abc import Sequence

import numpy as np

from domadapt.analysis.heads import Known
from domadapt.analysis.probes import StructuralProbe
from domadapt.reporting.analyses.common import NAMED, Domains, percent, points
from domadapt.reporting.analyses.lines import lines_svg
from domadapt.reporting.blocks import Block, Figure, Folded, Section, Table, Text

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


def best(layers: Sequence[Known]) -> int:
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


def _cells(one: Known) -> list[str]:
    return [percent(one.uuas), f"{one.distance:.2f}", percent(one.root), f"{one.depth:.2f}"]
