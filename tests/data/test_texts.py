"""Texts: normal form, near copies found exactly, splits that part none, edits and lower case that keep labels."""

from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from domadapt.auditing.surface import is_tokenised, shape
from domadapt.data.records import Record, Span, from_tokens
from domadapt.data.texts import (
    COPIES,
    SIMILAR,
    Edit,
    copy_key,
    draw_groups,
    edited,
    groups,
    hold_out,
    letters,
    lower_in_place,
    lowercased,
    shingles,
    similar_pairs,
    without_tokenisation,
    words,
)
from domadapt.statistics.resampling import components

TEXTS = st.text(max_size=60)


@given(TEXTS)
def test_identity_is_settled_and_never_empty(text: str) -> None:
    assert copy_key(text.strip()) == copy_key(text) and bool(copy_key(text)) == bool(text.strip())
    assert letters(letters(text)) == letters(text)


@given(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), min_size=1, max_size=8), st.sampled_from(".,!?"))
def test_tokenised_and_raw_text_are_one(parts: list[str], mark: str) -> None:
    raw, tokens = " ".join(parts) + mark, " ".join(parts) + f" {mark}"
    assert copy_key(raw.upper()) == copy_key(tokens)
    assert without_tokenisation(raw) == without_tokenisation(tokens) and words(raw.title()) == words(tokens)
    assert (is_tokenised(raw), is_tokenised(tokens)) == (False, True)


def test_penn_treebank_spelling() -> None:
    raw = "He said \"it isn't (much)\" and I've paid $5,000!"
    tokens = "He said `` it is n't -LRB- much -RRB- '' and I 've paid $ 5,000 !"
    for told in (copy_key, words, without_tokenisation):
        assert told(raw) == told(tokens)


@given(TEXTS)
def test_a_shape_holds_no_letter(text: str) -> None:
    assert {c for c in shape(text) if c.isalpha()} <= {"a", "A"}
    assert {c for c in shape(text) if c.isdigit()} <= {"0"}


# Few letters and edits of one text, so that many are alike.
LONG = st.text("abc", min_size=20, max_size=60)
EDITS = st.lists(st.tuples(st.integers(0, 59), st.sampled_from(["", "a", "xy", "é"])), max_size=3)


@st.composite
def alike(draw: st.DrawFn) -> list[str]:
    """Some texts, edited versions of them, and texts too short for a shingle."""
    texts = draw(st.lists(st.one_of(LONG, st.text("ab é", min_size=1, max_size=6)), min_size=1, max_size=5))
    for text in texts[:]:
        for edits in draw(st.lists(EDITS, max_size=3)):
            edited = text
            for place, other in edits:
                edited = edited[: place % len(edited)] + other + edited[place % len(edited) + 1 :] or "a"
            texts.append(edited)
    return draw(st.permutations([text for text in texts if text.strip()] or ["a"]))


def by_comparing_all(keys: list[str]) -> list[tuple[int, int, float]]:
    pieces = [{key.encode()[i : i + 5] for i in range(max(1, len(key.encode()) - 4))} for key in keys]
    pairs = combinations(range(len(keys)), 2)
    found = [(a, b, len(pieces[a] & pieces[b]) / len(pieces[a] | pieces[b])) for a, b in pairs]
    return [pair for pair in found if pair[2] >= SIMILAR]


@given(alike())
def test_similar_pairs_are_those_that_comparing_all_finds(texts: list[str]) -> None:
    keys = [copy_key(text) for text in texts]
    assert similar_pairs(keys) == by_comparing_all(keys)


def test_only_the_beginning_of_a_very_long_text_is_compared_and_nothing_with_nothing() -> None:
    assert similar_pairs([]) == groups([]) == []
    beginning = "".join(map(str, range(4000)))[:10_000]
    assert similar_pairs([beginning + "a" * 9999, beginning + "b" * 9999]) == [(0, 1, 1.0)]
    assert len(shingles(beginning * 2)) == len(shingles(beginning))


@given(alike())
def test_groups_are_the_connected_components(texts: list[str]) -> None:
    keys = [copy_key(text) for text in texts]
    near = [pair[:2] for pair in by_comparing_all(keys)]
    group = components([{key, *(pair for pair in near if i in pair)} for i, key in enumerate(keys)])
    assert groups(texts) == [[i for i, g in enumerate(group) if g == number] for number in sorted({*group})]


def as_records(texts: list[str]) -> tuple[Record, ...]:
    return tuple(Record(str(i), "camera", text) for i, text in enumerate(texts))


@given(alike(), st.floats(0.05, 0.95), st.integers(0, 5))
def test_no_text_has_a_copy_on_the_other_side(texts: list[str], share: float, seed: int) -> None:
    records = as_records(texts)
    assume(len(groups(texts)) > 1)
    rest, held = hold_out(records, share, seed)
    assert rest and held and sorted((*rest, *held), key=lambda r: int(r.id)) == [*records]
    assert [*rest] == [r for r in records if r not in held]  # the order is kept
    sides = {r.id: r in held for r in records}
    assert all(len({sides[str(i)] for i in group}) == 1 for group in groups(texts))
    assert hold_out(records, share, seed) == (rest, held)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=12), st.data())
def test_as_many_are_drawn_as_whole_groups_allow(sizes: list[int], data: st.DataObject) -> None:
    together = [[*range(a, b)] for a, b in pairwise(np.cumsum([0, *sizes]).tolist())]
    wanted = data.draw(st.integers(1, sum(sizes) - 1))
    chosen = draw_groups(together, wanted, data.draw(st.integers(0, 9)))
    assert 0 < len(chosen) < sum(sizes)
    assert all(chosen.issuperset(group) or chosen.isdisjoint(group) for group in together)
    off, outside = abs(len(chosen) - wanted), [len(group) for group in together if not chosen & {*group}]
    if len(outside) > 1:  # no group more would bring it nearer
        assert off <= min(abs(len(chosen) + size - wanted) for size in outside)
    if wanted <= sizes.count(1):  # small groups fill what large ones leave
        assert off == 0


def test_each_group_has_the_same_chance() -> None:
    """Large groups would otherwise crowd into dev: many of their members knock at the door."""
    together = [[0, 1, 2, 3], *([i] for i in range(4, 40))]
    with_the_large_one = sum(0 in draw_groups(together, 10, seed) for seed in range(300))
    assert 0.15 < with_the_large_one / 300 < 0.35  # a quarter of the records is drawn


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=30, unique=True), st.floats(0.05, 0.95), st.integers(0, 5))
def test_without_copies_the_split_is_that_by_record(numbers: list[int], share: float, seed: int) -> None:
    records = as_records([f"{number:b}".replace("0", "no").replace("1", "yes") + str(number) for number in numbers])
    assume(len(groups([r.text for r in records])) == len(records))
    warnings = Counter[str]()
    assert hold_out(records, share, seed, "text", warnings) == hold_out(records, share, seed, "record")
    assert not warnings


@given(st.integers(2, 60), st.floats(0.02, 0.98), st.integers(0, 2**31))
def test_by_record_reproduces_the_split_of_results_before_groups(count: int, share: float, seed: int) -> None:
    records = as_records(["Good."] * count)
    held = min(max(1, round(share * count)), count - 1)
    chosen = set(np.random.default_rng(seed).permutation(count)[:held].tolist())
    expected = [tuple(r for i, r in enumerate(records) if (i in chosen) == side) for side in (False, True)]
    assert [*hold_out(records, share, seed, "record")] == expected


def test_what_a_split_by_record_would_part_is_counted() -> None:
    texts = ["It works.", "it works", "Never again!", "The zoom is weak.", "The lens is sharp.", "Menus annoy me."]
    records, warnings = as_records(texts), Counter[str]()
    seed = next(s for s in range(99) if len({r.id for r in hold_out(records, 0.5, s, "record")[1]} & {"0", "1"}) == 1)
    hold_out(records, 0.5, seed, "text", warnings)
    assert warnings == {f"camera: {COPIES}": 1}


@pytest.mark.parametrize(
    ("share", "by", "texts", "message"),
    [
        (1.5, "text", ["a", "b"], "data.dev_share=1.5: expected a share between 0 and 1"),
        (0.5, "text", ["a"], "^1 labelled texts: expected 2 or more, of which a part is held out"),
        (0.5, "group", ["a", "b"], "data.dev_by='group': expected text or record"),
        (0.5, "text", ["Good!", "good"], "all 2 labelled texts are copies or near copies of one; give dev data"),
    ],
)
def test_what_can_not_be_split_is_told(share: float, by: str, texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hold_out(as_records(texts), share, 0, by)


WORD = st.text("aéß漢🙂b", min_size=1, max_size=4)


@st.composite
def edits_of_words(draw: st.DrawFn) -> tuple[list[str], list[int], dict[int, list[str]]]:
    """Words, a type for each (0 for none), and for some of them the words that replace them."""
    words = draw(st.lists(WORD, min_size=1, max_size=8))
    types = draw(st.lists(st.integers(0, 2), min_size=len(words), max_size=len(words)))
    places = draw(st.sets(st.integers(0, len(words) - 1)))
    return words, types, {place: draw(st.lists(WORD, min_size=1, max_size=3)) for place in places}


@given(edits_of_words(), st.booleans())
def test_against_rebuilding_the_sentence_word_by_word(case: Any, tokens: bool) -> None:
    words, types, new = case

    def record(parts: list[list[str]]) -> Record:
        flat = [word for part in parts for word in part]
        tags = [f"B-{t}" if i == 0 else f"I-{t}" for part, t in zip(parts, types) for i in range(len(part))]
        tags = ["O" if tag.endswith("-0") else tag for tag in tags]
        text, ranges, spans = from_tokens(flat, tags)
        return Record("1", "camera", text, ranges if tokens else None, spans=spans)

    before = record([[word] for word in words])
    after = record([new.get(i, [word]) for i, word in enumerate(words)])
    places = from_tokens(words)[1]
    made = edited(before, [Edit(*places[i], " ".join(parts)) for i, parts in new.items()])
    assert (made.text, made.words, made.spans) == (after.text, after.words, after.spans)


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ([Edit(0, 5, "a"), Edit(4, 8, "b")], r"the edits .* overlap, or are empty"),
        ([Edit(3, 3, "a")], r"the edits .* overlap, or are empty"),
        ([Edit(2, 6, "x")], "an edit cuts what begins or ends at character 4"),
    ],
)
def test_edits_that_can_not_be_made(edits: list[Edit], told: str) -> None:
    with pytest.raises(ValueError, match=f"record 1: {told}"):
        edited(Record("1", "camera", "The lens is sharp", spans=(Span(4, 8, "aspect"),)), edits)


# Characters that grow (İ), depend on their neighbours (Σ), or have a case beyond ASCII, among any others.
texts = st.text(st.one_of(st.sampled_from("İΣΑẞŉǅ aA."), st.characters(exclude_categories=["Cs"])), min_size=1)


@given(texts, st.data())
def test_lower_case_moves_no_offset(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    record = Record("1", "d", text, words=((start, end),), spans=(Span(start, end, "aspect"),))
    lower = lowercased(record)
    assert (lower.words, lower.spans, len(lower.text)) == (record.words, record.spans, len(text))
    assert all(low == one.lower()[0] for one, low in zip(text, lower.text, strict=True))
    assert lower.text == lower_in_place(text) == lower_in_place(lower.text)  # as a model reads it that predicts
