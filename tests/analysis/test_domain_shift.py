"""Measures of domain shift on domains whose shift is known."""

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.analysis.shift import compare, domain_shift, jensen_shannon, proxy_a_distance, text_states
from domadapt.analysis.subject import Side, Subject
from domadapt.data.records import Record, Span
from domadapt.reporting.analysis_page import shift_section as section
from domadapt.reporting.render import page
from domadapt.syntax.parser import SpacyParser
from domadapt.utils.text import plain_json
from tests.support import parsed_examples, setting_of, tiny_encoder

COUNTS = st.lists(st.sampled_from("abcde"), min_size=1).map(Counter)


@given(COUNTS, COUNTS)
def test_divergence_is_scipys(one: Counter[str], other: Counter[str]) -> None:
    from scipy.spatial.distance import jensenshannon

    items = sorted(one | other)
    expected = jensenshannon([one[i] for i in items], [other[i] for i in items], base=2) ** 2
    assert jensen_shannon(one, other) == pytest.approx(expected, abs=1e-6) == jensen_shannon(other, one)


@given(st.lists(COUNTS, min_size=1, max_size=6))
def test_a_domain_shares_all_with_itself(texts: list[Counter[str]]) -> None:
    found = compare(texts, texts[::-1])
    assert (found.types, found.tokens, found.new) == (1, 1, ())
    assert found.divergence == pytest.approx(0, abs=1e-9)
    strange = compare(texts, [Counter("xyz")])
    assert strange is not None and strange.tokens == 0 and strange.divergence == pytest.approx(1)


def test_what_moves_is_named() -> None:
    found = compare([Counter(a=3, b=1), Counter(a=1, b=3)], [Counter(a=1, c=3)])
    assert (found.types, found.tokens, found.different, found.occurrences) == (0.5, 0.25, 2, 4)
    assert found.moved[:2] == (("c", 0.0, 0.75), ("b", 0.5, 0.0)) and found.new == ("c",)
    assert found.divergence_within == pytest.approx(jensen_shannon(Counter(a=3, b=1), Counter(a=1, b=3)))
    assert compare([], [Counter("a")]) is None and compare([Counter("a")], [Counter()]) is None


def test_distances_of_known_domains() -> None:
    random = np.random.default_rng(0)
    one, same, other = (random.normal(loc, 1, (300, 8)) for loc in (0, 0, 100))
    near = proxy_a_distance(one, same)
    assert near is not None and near < 0.3
    assert proxy_a_distance(one, other) == 2
    halfway = proxy_a_distance(one, random.normal(0.5, 1, (300, 8)))
    assert halfway is not None and 0.5 < halfway < 1.5  # Bayes' error at distance √2 is 0.24, so 1.04


ASPECTS = {"camera": ("lens", "flash"), "laptop": ("screen", "lens")}


def side(domain: str, encoder: Any, count: int = 24) -> Side:
    nouns = [ASPECTS[domain][i % 2] for i in range(count)]
    texts = [f"The {noun} is sharp." for noun in nouns]
    examples, _ = parsed_examples(encoder, texts, 64)
    records = tuple(
        Record(str(i), domain, t, spans=(Span(4, 4 + len(noun), "aspect"), Span(len(t) - 6, len(t) - 1, "opinion")))
        for i, (t, noun) in enumerate(zip(texts, nouns, strict=True))
    )
    return Side(domain, examples, records)


def test_the_analysis_of_two_domains() -> None:
    encoder = tiny_encoder()
    session = setting_of(encoder)
    subject = Subject(session, session, side("camera", encoder), side("laptop", encoder), SpacyParser())
    found = domain_shift(subject)
    assert set(found.compared) == {"words", "parts of speech", "relations", "labels", "aspect terms", "opinion terms"}
    terms = found.compared["aspect terms"]
    assert (terms.types, terms.tokens, terms.new) == (0.5, 0.5, ("screen",))
    words = found.compared["words"]
    assert words.types == pytest.approx(4 / 5) and words.tokens == pytest.approx(7 / 8)
    assert found.compared["labels"].divergence == 0
    assert found.lengths is not None and (found.lengths.source, found.lengths.target, found.lengths.delta) == (4, 4, 0)
    assert found.layers == ("embeddings", "layer 0", "layer 1")
    assert found.a_distances["before"] == found.a_distances["after"]  # the same model twice
    assert all(0.5 < value < 1.5 for value in found.a_distances["before"])  # half of the texts are the other's
    written = page("Shift", [section(found, {"source": "camera", "target": "laptop"})])
    assert "words 87.5 %" in written and "commonest aspect terms that it lacks: screen" in written
    assert "proxy A-distance in the pretrained model" in written
    assert plain_json(asdict(found))["compared"]["words"]["different"] == 5

    bare = replace(subject, target=Side("laptop", side("laptop", encoder, 5).examples))
    less = domain_shift(bare)
    assert set(less.compared) == {"words", "parts of speech", "relations"} and less.a_distances == {}
    assert "No A-distance: fewer than 20 texts" in page("Shift", [section(less, {"source": "a", "target": "b"})])
    empty = domain_shift(replace(subject, target=Side("laptop", [])))
    assert empty.compared == {} and empty.lengths is None
    assert section(empty, {"source": "a", "target": "b"}).blocks


def test_states_come_back_in_the_order_of_the_texts() -> None:
    encoder = tiny_encoder()
    session = setting_of(encoder, texts=["Nope.", "The lens isn't sharp at all, is it?", "So it is."])
    together = text_states(session, session.source, 3, "look")
    alone = [text_states(session, [replace(e, index=0)], 1, "look") for e in session.source]
    for layer, states in enumerate(together):
        np.testing.assert_allclose(states, [one[layer][0] for one in alone], atol=1e-5)
