"""Two copies of a text are one, however they were tokenised, cased and spaced."""

from hypothesis import given
from hypothesis import strategies as st

from domadapt.auditing.surface import is_tokenised, misread, shape
from domadapt.data.texts import identity, letters, without_tokenisation, words

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
