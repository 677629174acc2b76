"""Two copies of a text are one, however they were tokenised, cased and spaced."""

from hypothesis import given
from hypothesis import strategies as st

from domadapt.auditing.artefacts import shape
from domadapt.auditing.encoding import misread
from domadapt.auditing.near import shingles, similar_pairs
from domadapt.auditing.surface import is_tokenised
from domadapt.data.normal import identity, letters, without_tokenisation, words

TEXTS = st.text(max_size=60)


@given(TEXTS)
def test_identity_is_settled_and_never_empty(text: str) -> None:
    assert identity(text.strip()) == identity(text)
    assert bool(identity(text)) == bool(text.strip())
    assert letters(letters(text)) == letters(text)


@given(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), min_size=1, max_size=8), st.sampled_from(".,!?"))
def test_tokenised_and_raw_text_are_one(parts: list[str], mark: str) -> None:
    raw, tokens = " ".join(parts) + mark, " ".join(parts) + f" {mark}"
    assert identity(raw.upper()) == identity(tokens)
    assert without_tokenisation(raw) == without_tokenisation(tokens)
    assert words(raw.title()) == words(tokens)
    assert (is_tokenised(raw), is_tokenised(tokens)) == (False, True)


def test_penn_treebank_spelling() -> None:
    raw = "He said \"it isn't (much)\" and I've paid $5,000!"
    tokens = "He said `` it is n't -LRB- much -RRB- '' and I 've paid $ 5,000 !"
    assert identity(raw) == identity(tokens)
    assert words(raw) == words(tokens)
    assert without_tokenisation(raw) == without_tokenisation(tokens)


@given(TEXTS)
def test_a_shape_holds_no_letter(text: str) -> None:
    assert {c for c in shape(text) if c.isalpha()} <= {"a", "A"}
    assert {c for c in shape(text) if c.isdigit()} <= {"0"}


@given(TEXTS)
def test_misread_text_is_found(text: str) -> None:
    accents = f"{text} café"
    assert misread(accents.encode().decode("latin-1")) is not None
    assert misread("plain, naïve “text”") is None


@given(st.lists(st.text(alphabet="abcdefgh", min_size=8, max_size=40), unique=True, max_size=12))
def test_near_duplicates_are_what_they_are_called(keys: list[str]) -> None:
    found = similar_pairs(keys)
    for first, second, similarity in found:
        a, b = shingles(keys[first]), shingles(keys[second])
        assert first < second
        assert similarity == len(a & b) / len(a | b) >= 0.8


@given(st.integers(0, 2**32 - 1))
def test_a_near_duplicate_is_found_whatever_the_seed(seed: int) -> None:
    key = "thebatterylastsfortwodaysandthescreenisbrightenoughforthegarden"
    assert [pair[:2] for pair in similar_pairs([key, "somethingelse", key + "s"], seed)] == [(0, 2)]
