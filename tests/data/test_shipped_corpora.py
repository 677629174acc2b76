"""The shipped corpora: complete, annotated within their texts, and no sentence a near copy of another."""

from collections import Counter, defaultdict
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from domadapt.data.readers import read
from domadapt.data.records import Record
from domadapt.syntax.parser import SpacyParser

ROOT = Path(str(files("domadapt.shipped")))
DOMAINS = ("camera", "laptop", "hotel")
PARTS = ("train", "dev", "test", "unlabeled")


def corpus(domain: str, part: str) -> tuple[Record, ...]:
    read_corpus = read(ROOT / domain / f"{part}.jsonl", domain=domain)
    assert not read_corpus.warnings or part == "unlabeled"
    return read_corpus.records


EVERYTHING = [record for domain in DOMAINS for part in PARTS for record in corpus(domain, part)]


def five_grams(text: str) -> set[tuple[str, ...]]:
    words = ["".join(c for c in word if c.isalnum()) for word in text.lower().split()]
    words = [word for word in words if word]
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


@pytest.mark.parametrize("domain", DOMAINS)
def test_sizes(domain: str) -> None:
    labelled = [record for part in PARTS[:3] for record in corpus(domain, part)]
    assert len(labelled) >= 500
    assert len(corpus(domain, "unlabeled")) >= 400
    assert all(record.label in ("positive", "negative", "neutral") for record in labelled)
    assert all(record.spans is not None for record in labelled)
    assert {span.type for record in labelled for span in record.spans or ()} == {"aspect", "opinion"}


def test_ids_and_texts_are_unique() -> None:
    assert max(Counter(r.id for r in EVERYTHING).values()) == 1
    assert max(Counter(r.text.lower() for r in EVERYTHING).values()) == 1


def test_no_sentence_is_a_near_copy_of_another() -> None:
    """No two share a fifth of the shorter one's word 5-grams, or three of them; none is in more than three."""
    grams = [five_grams(r.text) for r in EVERYTHING]
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, found in enumerate(grams):
        for gram in found:
            holders[gram].append(index)
    assert max(len(indices) for indices in holders.values()) <= 3
    shared: Counter[tuple[int, int]] = Counter()
    for indices in holders.values():
        shared.update((a, b) for a in indices for b in indices if a < b)
    for (a, b), count in shared.items():
        assert count < 3, (EVERYTHING[a].text, EVERYTHING[b].text)
        assert count < 0.2 * min(len(grams[a]), len(grams[b])), (EVERYTHING[a].text, EVERYTHING[b].text)


def test_spans_lie_on_word_boundaries() -> None:
    labelled = [r for r in EVERYTHING if r.spans]
    off = 0
    for record, words in zip(labelled, SpacyParser().tokenize(labelled), strict=True):
        starts, ends = set(words[:, 0].tolist()), set(words[:, 1].tolist())
        off += sum(s.start not in starts or s.end not in ends for s in record.spans or ())
        ordered = sorted((s.start, s.end) for s in record.spans or ())
        assert all(before[1] <= after[0] for before, after in pairwise(ordered))
    assert off <= 0.005 * sum(len(r.spans or ()) for r in labelled)
