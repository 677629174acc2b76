"""Lower-casing: words and spans say the same after it, also where a character gets longer."""

from hypothesis import given
from hypothesis import strategies as st

from domadapt.data.records import Record, Span
from domadapt.data.texts import lowercased

# Characters that grow (İ), depend on their neighbours (Σ), or have a case beyond ASCII, among any others.
texts = st.text(st.one_of(st.sampled_from("İΣΑẞŉǅ aA."), st.characters(exclude_categories=["Cs"])), min_size=1)


def same(text: str) -> str:
    """Lower case of a stretch, whatever stands beside it: a final sigma is a sigma."""
    return text.lower().replace("ς", "σ")


@given(texts, st.data())
def test_offsets_follow_the_text(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    moved = lowercased(Record("1", "d", text, words=((start, end),), spans=(Span(start, end, "aspect"),)))
    assert moved.text == text.lower()
    assert moved.words == ((moved.spans[0].start, moved.spans[0].end),)  # type: ignore[index]
    assert same(moved.text[slice(*moved.words[0])]) == same(text[start:end])
    assert lowercased(moved).words == moved.words


def test_what_nobody_annotated_stays_so() -> None:
    record = lowercased(Record("1", "d", "Sharp", label="Positive"))
    assert record == Record("1", "d", "sharp", label="Positive")
