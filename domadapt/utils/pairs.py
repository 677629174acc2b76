"""Pairs of texts, such as premise and hypothesis, or question and answer.

Everywhere in domadapt a pair is one text, with ``␞`` (U+241E) between its two, so that whatever reads, edits, compares
or shows texts takes pairs, too. Only parsers and tokenizers, which must not read across, take it apart again.
"""

from collections.abc import Iterable
from typing import Any, Final

from domadapt.utils.text import shortened

BOUNDARY: Final = "␞"
BETWEEN: Final = f" {BOUNDARY} "


def paired(text: str, other: str) -> str:
    """Two texts as one; a blank one, and one that holds the boundary, are refused.

    >>> paired("It rains.", "It is dry.")
    'It rains. ␞ It is dry.'
    """
    for name, part in (("text", text), ("text_pair", other)):
        if not part.strip():
            raise ValueError(f"{name}={part!r}: blank; expected the two texts of a pair")
        if BOUNDARY in part:
            raise ValueError(f"{name}={part[:60]!r}: holds {BOUNDARY}, which parts the two of a pair; drop it")
    return text + BETWEEN + other


def is_text(item: Any) -> bool:
    """Whether it is a text, or two.

    >>> is_text("Sharp."), is_text(["It rains.", "It is dry."]), is_text(["Sharp."])
    (True, True, False)
    """
    two = isinstance(item, tuple | list) and len(item) == 2 and all(isinstance(text, str) for text in item)
    return isinstance(item, str) or two


def parts(text: str) -> list[tuple[int, int]]:
    """Character ranges of a text's one or two texts.

    >>> parts("It rains. ␞ It is dry."), parts("It rains.")
    ([(0, 9), (12, 22)], [(0, 9)])
    """
    first, between, _ = text.partition(BETWEEN)
    return [(0, len(first)), (len(first) + len(between), len(text))] if between else [(0, len(text))]


def text_fields(text: str) -> dict[str, str]:
    """A text's fields as a file has them.

    >>> text_fields("It rains. ␞ It is dry."), text_fields("It rains.")
    ({'text': 'It rains.', 'text_pair': 'It is dry.'}, {'text': 'It rains.'})
    """
    return dict(zip(("text", "text_pair"), (text[start:end] for start, end in parts(text)), strict=False))


def are_pairs(texts: Iterable[str], which: str) -> bool:
    """Whether texts are pairs; refused where some are and some are not.

    >>> are_pairs(["It rains. ␞ It is dry."], "source"), are_pairs(["It rains."], "source")
    (True, False)
    """
    of_pairs: dict[bool, list[str]] = {True: [], False: []}
    for text in texts:
        of_pairs[len(parts(text)) == 2].append(text)
    pairs, singles = of_pairs[True], of_pairs[False]
    if pairs and singles:
        fix = f"a second text is given as text_pair, or behind '{BETWEEN}' on the same line"
        odd = f"{shortened(min(pairs, singles, key=len)[0], 60)!r} is {'one' if len(pairs) < len(singles) else 'none'}"
        counted = f"{len(pairs)} of {len(pairs) + len(singles)} texts are pairs"
        raise ValueError(f"{which}: {counted}; expected all or none; {odd}; {fix}")
    return bool(pairs)
