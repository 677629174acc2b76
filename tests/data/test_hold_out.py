"""Near copies are found exactly as an obvious search finds them, and no copy is on both sides of a split."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from domadapt.data.records import Record
from domadapt.data.texts import COPIES, SIMILAR, drawn, groups, hold_out, identity, shingles, similar_pairs

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
            for place, letters in edits:
                edited = edited[: place % len(edited)] + letters + edited[place % len(edited) + 1 :] or "a"
            texts.append(edited)
    return draw(st.permutations([text for text in texts if text.strip()] or ["a"]))


def by_comparing_all(keys: list[str]) -> list[tuple[int, int, float]]:
    found = []
    pieces = [{key.encode()[i : i + 5] for i in range(max(1, len(key.encode()) - 4))} for key in keys]
    for a in range(len(keys)):
        for b in range(a + 1, len(keys)):
            similarity = len(pieces[a] & pieces[b]) / len(pieces[a] | pieces[b])
            if similarity >= SIMILAR:
                found.append((a, b, similarity))
    return found


@given(alike())
def test_similar_pairs_are_those_that_comparing_all_finds(texts: list[str]) -> None:
    keys = [identity(text) for text in texts]
    assert similar_pairs(keys) == by_comparing_all(keys)


def test_nothing_is_similar_to_nothing() -> None:
    assert similar_pairs([]) == []
    assert groups([]) == []


def test_only_the_beginning_of_a_very_long_text_is_compared() -> None:
    beginning = "".join(map(str, range(4000)))[:10_000]
    assert similar_pairs([beginning + "a" * 9999, beginning + "b" * 9999]) == [(0, 1, 1.0)]
    assert len(shingles(beginning * 2)) == len(shingles(beginning))


@given(alike())
def test_groups_are_the_connected_components(texts: list[str]) -> None:
    keys = [identity(text) for text in texts]
    near = {(a, b) for a, b, _ in by_comparing_all(keys)}
    group = [*range(len(texts))]
    for _ in texts:  # the smaller number spreads until nothing changes
        for a in range(len(texts)):
            for b in range(a + 1, len(texts)):
                if keys[a] == keys[b] or (a, b) in near:
                    group[a] = group[b] = min(group[a], group[b])
    assert groups(texts) == [[i for i, g in enumerate(group) if g == number] for number in sorted({*group})]


def as_records(texts: list[str]) -> tuple[Record, ...]:
    return tuple(Record(str(i), "camera", text) for i, text in enumerate(texts))


@given(alike(), st.floats(0.05, 0.95), st.integers(0, 5))
def test_no_text_has_a_copy_on_the_other_side(texts: list[str], share: float, seed: int) -> None:
    records = as_records(texts)
    assume(len(groups(texts)) > 1)
    rest, held = hold_out(records, share, seed)
    assert sorted((*rest, *held), key=lambda r: int(r.id)) == [*records]
    assert rest and held
    assert [*rest] == [r for r in records if r not in held]  # the order is kept
    sides = {r.id: r in held for r in records}
    assert all(len({sides[str(i)] for i in group}) == 1 for group in groups(texts))
    assert hold_out(records, share, seed) == (rest, held)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=12), st.data())
def test_as_many_are_drawn_as_whole_groups_allow(sizes: list[int], data: st.DataObject) -> None:
    starts = np.cumsum([0, *sizes]).tolist()
    together = [[*range(a, b)] for a, b in pairwise(starts)]
    wanted = data.draw(st.integers(1, sum(sizes) - 1))
    chosen = drawn(together, wanted, data.draw(st.integers(0, 9)))
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
    with_the_large_one = sum(0 in drawn(together, 10, seed) for seed in range(300))
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
        (1.5, "text", ["a", "b"], "dev_share=1.5 of 2 records: expected a share between 0 and 1"),
        (0.5, "text", ["a"], "of 1 records: expected a share between 0 and 1, of at least 2"),
        (0.5, "group", ["a", "b"], "data.dev_by='group': expected text or record"),
        (0.5, "text", ["Good!", "good"], "all 2 labelled texts are copies or near copies of one; give dev data"),
    ],
)
def test_what_can_not_be_split_is_told(share: float, by: str, texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hold_out(as_records(texts), share, 0, by)
