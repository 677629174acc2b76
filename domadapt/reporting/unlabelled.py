"""A pair whose target has no labels: what the models say of it, in place of scores that nobody can give."""

from domadapt.reporting.blocks import Block, Section, Table, Text, counted
from domadapt.reporting.target_card import blocks, title
from domadapt.runs.groups import Pair
from domadapt.runs.target_card import TargetCard, read_card

MOST = 6  # models of a pair that are shown in full, one seed of each method


def unlabelled(pair: Pair) -> list[Section]:
    """Sections of a pair without target labels; none where it has some, or no run has left its card.

    Args:
        pair: with the run folders' names in its metrics.
    """
    runs = [run for method in pair.methods for run in method.runs]
    cards = (
        [] if any(run.target_test for run in runs) else [read_card(run.folder, run.key) for run in runs if run.folder]
    )
    found = [card for card in cards if card is not None]
    if not found:
        return []
    why = f"{found[0].target} has no labelled test, so no score is known. What can be said of the models without one:"
    opening: list[Block] = [Text(why)]
    if len(found) > 1:
        opening.append(comparison(found))
    first = list({card.method: card for card in reversed(found)}.values())[::-1]
    if len(first) > MOST:
        opening.append(Text(f"In full: {MOST} of {counted(len(first), 'method')}.", "soft"))
    return [
        Section(pair.name, tuple(opening), 3),
        *(Section(title(card), tuple(blocks(card)), 3) for card in first[:MOST]),
    ]


def comparison(cards: list[TargetCard]) -> Table:
    """Models side by side: what they reach on source dev, how sure they are of the target, and what they find there.

    Args:
        cards: of runs on one pair.
    """
    kinds = list(dict.fromkeys(kind.name for card in cards for kind in card.kinds))
    spans = cards[0].task == "extraction"

    def often(card: TargetCard, name: str) -> str:
        count = next((kind.count for kind in card.kinds if kind.name == name), 0)
        return f"{count / max(1, card.texts):.2f}" if spans else f"{100 * count / max(1, card.texts):.0f} %"

    rows = [
        [
            f"{card.method}, seed {card.seed}",
            f"{100 * card.source_dev:.1f}",
            "-" if card.expected is None else f"{100 * card.expected.score:.1f}",
            "-" if card.confidence is None else f"{100 * card.confidence:.0f} %",
            *(often(card, name) for name in kinds),
            str(len(card.warnings)),
        ]
        for card in cards
    ]
    about = "spans a target text" if spans else "share of target texts"
    return Table(
        f"Source dev and expected target score in percent, confidence on the target, {about}",
        ["model", "source dev", "expected", "confidence", *kinds, "warnings"],
        rows,
        narrow=True,
    )
