"""Texts: normal form, near copies and splits that keep them together, edits that keep spans, lower case."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from domadapt.config.overrides import one_of
from domadapt.data.records import Record
from domadapt.utils.pairs import parts as parts_of

T = TypeVar("T")
# What the Penn Treebank writes for brackets and quotation marks, and typographers for quotation marks. A double mark
# becomes two single ones, so that `` '' " and “ are one thing.
BRACKETS: Final = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_BRACKET: Final = re.compile("|".join(BRACKETS), re.IGNORECASE)
_QUOTES: Final = str.maketrans({**dict.fromkeys("‘’‚‛`´", "'"), **dict.fromkeys('“”„‟"', "''")})
# Vowels and the like of one script (Hindi, Thai), which re takes for no part of a word; accents, which any letter may
# have, and signs that follow an emoji are none of them.
_MARKS: Final = "".join(
    c
    for c in map(chr, range(0x483, 0x20D0))
    if unicodedata.category(c)[0] == "M" and not unicodedata.name(c).startswith("COMBINING")
)
_NO_LETTER: Final = re.compile(f"(?:[^\\w{_MARKS}]|_)+")
_BEFORE_CONTRACTION: Final = re.compile(r" (?=n't\b)", re.IGNORECASE)
_AROUND_PUNCTUATION: Final = re.compile(f" ?([^\\w {_MARKS}]) ?")
_WORD: Final = re.compile(f"[\\w{_MARKS}]+(?:'[\\w{_MARKS}]+)*")


def letters(text: str) -> str:
    """The letters and digits of a text, without case."""
    return _NO_LETTER.sub("", unicodedata.normalize("NFKC", _BRACKET.sub(" ", text)).casefold())


def copy_key(text: str) -> str:
    """What two copies of a text share: its letters and digits without case; of a text without any, its signs.

    >>> copy_key("दाम कम है।") == copy_key("दाम कम है"), copy_key("दाम कम है") == copy_key("दम काम है")
    (True, False)
    """
    return letters(text) or "".join(text.split())


def without_tokenisation(text: str) -> str:
    """The text with no space beside any punctuation: raw and tokenised versions of it become the same string.

    >>> without_tokenisation("It is n't fast , but cheap .") == without_tokenisation("It isn't fast, but cheap.")
    True
    """
    plain = _BRACKET.sub(lambda m: BRACKETS[m[0].lower()], " ".join(text.split())).translate(_QUOTES)
    return _AROUND_PUNCTUATION.sub(r"\1", _BEFORE_CONTRACTION.sub("", plain))


def words(text: str) -> list[str]:
    """Lower-case words, the same whether the text came raw or tokenised.

    >>> words("It is n't FAST , but cheap ."), words("It isn't FAST, but cheap.")
    (['it', "isn't", 'fast', 'but', 'cheap'], ['it', "isn't", 'fast', 'but', 'cheap'])
    >>> words("कमरा अच्छा था।")
    ['कमरा', 'अच्छा', 'था']
    """
    return _WORD.findall(without_tokenisation(text).casefold())


COPIES: Final = "held-out texts that a split by record would leave copies of in train; kept on one side with them"
SHINGLE: Final = 5  # bytes, of the text without case and whitespace
SIMILAR: Final = 0.8  # Jaccard similarity of two texts' shingles from which they are near duplicates
COMPARED_BYTES: Final = 10_000  # bytes compared of a text

Shingles = NDArray[np.int64]


def shingles(key: str) -> Shingles:
    """(different pieces,) of a text's first 10,000 bytes, five bytes each as a number; of a shorter text its bytes.

    >>> [int(piece).to_bytes(5, "big") for piece in shingles("abcdef")]
    [b'abcde', b'bcdef']
    """
    content = key.encode()[:COMPARED_BYTES]
    if len(content) < SHINGLE:
        return np.array([int.from_bytes(content, "big") + ((len(content) + 1) << 8 * SHINGLE)])
    pieces = np.lib.stride_tricks.sliding_window_view(np.frombuffer(content, np.uint8), SHINGLE)
    return np.unique(pieces @ (1 << 8 * np.arange(SHINGLE)[::-1]))


def similar_pairs(keys: Sequence[str]) -> list[tuple[int, int, float]]:
    """Positions, and similarity, of all pairs of texts whose shingles' Jaccard similarity is at least 0.8; ascending.

    Two such texts share at least 0.8 of the larger one's shingles. So among the rarest fifth of each one's there is one
    that both have, and only texts that share one of these are compared (prefix filtering: Chaudhuri, Ganti and Kaushik
    2006; Bayardo, Ma and Srikant 2007, "Scaling Up All Pairs Similarity Search").

    >>> [(a, b) for a, b, _ in similar_pairs(["thebatterylastsfortwodays", "ahinge", "batterylastsfortwodays"])]
    [(0, 2)]
    """
    if not keys:
        return []
    cut = [shingles(key) for key in keys]
    _, number, often = np.unique(np.concatenate(cut), return_inverse=True, return_counts=True)
    rarity = np.argsort(np.argsort(often, kind="stable"))[number]
    pairs = []
    with_piece: dict[int, list[int]] = defaultdict(list)
    for position, ranks in enumerate(np.split(rarity, np.cumsum([len(c) for c in cut])[:-1])):
        most = len(ranks) - math.ceil(SIMILAR * len(ranks) - 1e-9) + 1  # so many without a common one: not similar
        candidates: set[int] = set()
        for piece in np.sort(ranks)[:most].tolist():
            candidates.update(with_piece[piece])
            with_piece[piece].append(position)
        for other in candidates:
            similarity = jaccard(cut[other], cut[position])
            if similarity >= SIMILAR:
                pairs.append((other, position, similarity))
    return sorted(pairs)


def jaccard(a: Shingles, b: Shingles) -> float:
    """Shared pieces among all of two texts; 0.0 where their numbers alone forbid 0.8.

    >>> jaccard(shingles("abcdefghi"), shingles("abcdefgh"))
    0.8
    """
    if min(len(a), len(b)) < SIMILAR * max(len(a), len(b)):
        return 0.0
    merged = np.sort(np.concatenate([a, b]), kind="stable")
    shared = int((merged[1:] == merged[:-1]).sum())
    return shared / (len(merged) - shared)


def groups(texts: Sequence[str]) -> list[list[int]]:
    """Positions of texts that are copies or near copies of each other, near copies of near copies included."""
    positions: dict[str, list[int]] = {}
    for position, text in enumerate(texts):
        positions.setdefault(copy_key(text), []).append(position)
    copies = [*positions.values()]
    member = {i: [i] for i in range(len(copies))}  # of the group that each kind of text is in; one list a group
    for a, b, _ in similar_pairs([*positions]):
        if member[a] is not member[b]:
            member[a] += member[b]
            member |= dict.fromkeys(member[b], member[a])
    merged = {id(group): group for group in member.values()}.values()
    return sorted(sorted(position for i in group for position in copies[i]) for group in merged)


def hold_out(
    records: tuple[Record, ...], share: float, seed: int, by: str = "text", warnings: Counter[str] | None = None
) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """Split off a random share, the same for the same seed: the rest, and the held-out part, both in their order.

    Copies of a text, near copies included (:func:`groups`), are on one side, all of them: groups of them are drawn at
    random, each with the same chance, until the share is reached. Groups that are larger than what is missing are
    passed over, so the share is met wherever there are enough small ones. Without copies, the split is that by record.
    ``by="record"`` draws each by itself, whoever has its copies; ``warnings`` counts those it would leave copies of.
    """
    if not (isinstance(share, float) and 0 < share < 1):
        raise ValueError(f"data.dev_share={share!r}: expected a share between 0 and 1, both excluded")
    if len(records) < 2:
        raise ValueError(f"{len(records)} labelled texts: expected 2 or more, of which a part is held out; label some")
    one_of("data.dev_by", by, "text", "record")
    wanted = min(max(1, round(share * len(records))), len(records) - 1)
    chosen = draw_groups([[i] for i in range(len(records))], wanted, seed)
    if by == "text":
        copy_groups = groups([record.text for record in records])
        if len(copy_groups) == 1:
            fix = "give dev data of its own (data.source.dev_path), or data.dev_by=record to hold out copies"
            same = f"all {len(records)} labelled texts are copies or near copies of one"
            raise ValueError(f"data.dev_by={by}: {same}; {fix}")
        if warnings is not None and (parted := sum(len(chosen & {*g}) for g in copy_groups if not {*g} <= chosen)):
            warnings[f"{records[0].domain}: {COPIES}"] += parted
        chosen = draw_groups(copy_groups, wanted, seed)
    rest = tuple(r for i, r in enumerate(records) if i not in chosen)
    return rest, tuple(r for i, r in enumerate(records) if i in chosen)


def draw_groups(member_groups: list[list[int]], count: int, seed: int) -> set[int]:
    """Members of whole groups, drawn at random so that there are as nearly as possible as many as wanted."""
    chosen: set[int] = set()
    left = []
    for position in np.random.default_rng(seed).permutation(len(member_groups)).tolist():
        group = member_groups[position]
        if len(chosen) + len(group) <= count:
            chosen.update(group)
        else:
            left.append(group)
    smallest = min(left, key=len)  # there is one: fewer are wanted than there are
    missing = count - len(chosen)
    if not chosen or (len(left) > 1 and len(smallest) - missing < missing):
        chosen.update(smallest)
    return chosen


def sampled(items: Sequence[T], count: int, seed: int | np.random.Generator) -> list[T]:
    """So many at most, in their order; the same seed draws the same ones, and more of them for a larger count."""
    chosen = np.random.default_rng(seed).permutation(len(items))[:count]
    return [items[i] for i in sorted(chosen.tolist())]


class Edit(NamedTuple):
    """A stretch of a text, in characters, end exclusive, and what stands there instead."""

    start: int
    end: int
    text: str


def edited(record: Record, edits: Iterable[Edit]) -> Record:
    """A record with other words in some places; spans and the owner's tokens move along.

    Edits overlap no other, and no span begins or ends within one. A token that one covers becomes its words, apart by
    spaces; a token that it covers in part stays one.

    >>> from domadapt.data.records import Span
    >>> record = Record("1", "camera", "The lens is good", spans=(Span(4, 8, "aspect"), Span(12, 16, "opinion")))
    >>> changed = edited(record, [Edit(4, 8, "battery life")])
    >>> changed.text, [changed.text[s.start : s.end] for s in changed.spans]
    ('The battery life is good', ['battery life', 'good'])
    """
    ordered = sorted(edits)
    parts, moves, end, grown = [], list[tuple[int, int, int]](), 0, 0
    for edit in ordered:
        if edit.start < end or edit.end <= edit.start:
            raise ValueError(f"record {record.id}: the edits {ordered} overlap, or are empty")
        parts += [record.text[end : edit.start], edit.text]
        end = edit.end
        moves.append((edit.start, edit.end, grown := grown + len(edit.text) - (edit.end - edit.start)))
    text = "".join([*parts, record.text[end:]])

    def moved(place: int) -> int:
        """Where a border between characters is now, if no edit has swallowed it."""
        if any(start < place < stop for start, stop, _ in moves):
            raise ValueError(f"record {record.id}: an edit cuts what begins or ends at character {place}")
        return place + next((by for _, stop, by in reversed(moves) if stop <= place), 0)

    spans = record.spans and tuple(replace(s, start=moved(s.start), end=moved(s.end)) for s in record.spans)
    words = None
    if record.words is not None:
        inside = {edit.start: edit for edit in ordered}
        ranges: list[tuple[int, int]] = []
        for start, stop in record.words:
            if start in inside and stop <= inside[start].end:
                place = moved(start)
                for word in inside[start].text.split():
                    place = text.index(word, place)
                    ranges.append((place, place + len(word)))
                    place += len(word)
            elif not any(edit.start < start < edit.end for edit in ordered):
                ranges.append((moved(start), moved(stop)))
        words = tuple(ranges)
    return replace(record, text=text, words=words, spans=spans)


_BEFORE: Final = re.compile(
    r" +(?=(?:[.,!?;:%)\]}]|\.{2,}|[!?]{2,}|''|n['’]t|['’](?:s|m|re|ve|ll|d))(?: |$))", re.IGNORECASE
)
_AFTER: Final = re.compile(r"(?:(?<=^[(\[{$#])|(?<= [(\[{$#])|(?<=``)) +")


def detokenised(record: Record) -> Record:
    """The same record without the spaces that a tokeniser put beside punctuation and contractions.

    >>> plain = detokenised(Record("1", "camera", "It is n't -LRB- too -RRB- big , `` honest '' ."))
    >>> plain.text
    'It isn\\'t (too) big, "honest".'
    """
    plain = edited(record, (Edit(m.start(), m.end(), BRACKETS[m[0].lower()]) for m in _BRACKET.finditer(record.text)))
    found = {m.span() for pattern in (_BEFORE, _AFTER) for m in pattern.finditer(plain.text)}
    # A pair is told by the spaces around its sign, which stay.
    between = [place for (_, end), (start, _) in pairwise(parts_of(plain.text)) for place in (end, start)]
    spaces = sorted(place for place in found if not any(place[0] <= border <= place[1] for border in between))
    apart = [place for previous, place in pairwise([(0, 0), *spaces]) if place[0] >= previous[1]]
    whole = edited(plain, (Edit(at, at + 1, "") for place in apart for at in range(*place)))  # a span may end between
    return edited(whole, (Edit(m.start(), m.end(), '"') for m in re.finditer("``|''", whole.text)))


def lowercased(record: Record) -> Record:
    """The same record in lower case, as texts are read that a model predicts for; no offset moves."""
    return replace(record, text=lower_in_place(record.text))


def lower_in_place(text: str) -> str:
    """Lower case, with every character where it was: 'İ', which would become two, is an 'i'.

    >>> lower_in_place("İzmir BAY")
    'izmir bay'
    """
    return "".join(character.lower()[:1] for character in text)
