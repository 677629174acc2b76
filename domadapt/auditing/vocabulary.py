"""How much of the target's words, and of its terms, the source has ever shown.

Published for comparison: of the occurrences of aspect terms, devices, laptops and restaurants share 7 to 12 % with each
other, devices and laptops 42 % (Klein et al. 2022).
"""

from collections import Counter
from collections.abc import Iterator

from domadapt.auditing.finding import EXAMPLES, Finding, percent, shown
from domadapt.auditing.parts import SIDES, Parts
from domadapt.data.normal import words

UNSEEN = 0.05  # of the target's running words: from here on it is worth a warning


def vocabulary(parts: Parts) -> Iterator[Finding]:
    """Words, and terms of each span type, that source and target share."""
    source, target = (
        Counter(word for part in parts.side(side) for text in part.words for word in text) for side in SIDES
    )
    if not source or not target:
        return
    types, tokens = overlap(source, target)
    unseen = [word for word, _ in target.most_common() if word not in source][:8]
    yield Finding(
        "vocabulary",
        "note" if 1 - tokens < UNSEEN * 4 else "warning",
        1 - tokens,
        f"{percent(types)} of the {len(target)} different words of {shown(parts.target)} occur in "
        f"{shown(parts.source)}, and {percent(tokens)} of its running words. Commonest that don't: "
        f"{', '.join(shown(word, 20) for word in unseen) or 'none'}.",
        {"types": types, "tokens": tokens, "jaccard": len(source.keys() & target.keys()) / len(source | target)},
    )
    yield from _terms(parts, source)


def overlap(source: Counter[str], target: Counter[str]) -> tuple[float, float]:
    """Share of the target's different items, and of all their occurrences, that the source has too.

    Args:
        source: its items.
        target: its items, one at least.

    >>> overlap(Counter("aab"), Counter("accc"))
    (0.5, 0.25)
    """
    shared = source.keys() & target.keys()
    return len(shared) / len(target), sum(target[item] for item in shared) / target.total()


def _terms(parts: Parts, source_words: Counter[str]) -> Iterator[Finding]:
    terms: dict[str, dict[str, Counter[str]]] = {side: {} for side in SIDES}
    for side in SIDES:
        for record in parts.records(side):
            for span in record.spans or ():
                term = " ".join(words(record.text[span.start : span.end]))
                terms[side].setdefault(span.type, Counter())[term] += 1
    for kind in sorted(terms["source"].keys() & terms["target"].keys()):
        source, target = terms["source"][kind], terms["target"][kind]
        types, tokens = overlap(source, target)
        common = len(source.keys() & target.keys()) / len(source.keys() | target.keys())
        seen = sum(c for t, c in target.items() if all(w in source_words for w in t.split())) / target.total()
        missed = [term for term, _ in target.most_common() if term not in source][: 2 * EXAMPLES]
        yield Finding(
            "terms",
            "note",
            1 - tokens,
            f"Of the {len(target)} different {shown(kind, 30)} terms of {shown(parts.target)}, {percent(types)} are "
            f"terms of {shown(parts.source)} too, which is {percent(tokens)} of their occurrences ({percent(common)} "
            f"of the different terms of both); {percent(seen)} of the occurrences are made of words that the source's "
            f"texts hold. "
            f"Commonest new ones: {', '.join(shown(term, 30) for term in missed) or 'none'}.",
            {"types": types, "tokens": tokens, "jaccard": common, "words_seen": seen, "terms": len(target)},
        )
