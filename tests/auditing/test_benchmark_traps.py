"""The traps that are known of the research corpora are found in them unaided."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from domadapt.auditing.copies import annotation, conflicts, duplicates
from domadapt.auditing.finding import Finding, Parts, gather
from domadapt.auditing.shift import gap, shift, vocabulary
from domadapt.auditing.surface import artefacts, encoding, preparation
from domadapt.config.compose import compose, make

FOLDER = os.environ.get("DOMADAPT_BENCHMARK_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="DOMADAPT_BENCHMARK_DATA is unset: it names the folder of the benchmark corpora"
)
REST, LAPTOPS = "aspect_opinion laptops_to_restaurants", "aspect_opinion restaurants_to_laptops"
DEVICE, FDU = "aspect_opinion laptops_to_device", "my_files"
JOINT, SENTENCES, BOOKS = "joint_absa laptop_to_rest", "camera_laptop_sentences", "amazon_reviews books_to_dvd"
TWO = "Two parts of target/target unlabelled/target test"
MORE = 10**9
# Corpora, what is looked with, what the finding says, how bad it is, and its numbers or their ranges.
TRAPS: list[tuple[str, Any, str, str, dict[str, tuple[float, float]]]] = [
    (REST, duplicates, "of the target test/unlabelled too", "severe", {"texts": (430, 460), "of": (1461, 1461)}),
    (REST, conflicts, "in the target,", "severe", {"conflicting": (501, MORE)}),
    (LAPTOPS, duplicates, "of the target test/target unlabelled too", "warning", {"verbatim": (3, 3)}),
    (JOINT, duplicates, "of the target test/unlabelled too", "severe", {"texts": (697, 697), "of": (2158, 2158)}),
    (JOINT, annotation, "touches/In laptop", "warning", {}),
    (JOINT, annotation, "touches/In rest", "warning", {}),
    ("joint_absa device_to_rest", annotation, "touches/In device", "warning", {}),
    (DEVICE, annotation, "without any span", "warning", {"device empty": (1701, MORE)}),
    (DEVICE, preparation, "Source and target/upper-case", "warning", {}),
    (DEVICE, artefacts, "source train from target unlabelled", "warning", {"auc": (0.95, 1), "undone auc": (0, 0.7)}),
    (FDU, preparation, f"{TWO}/tokenised", "severe", {}),
    (FDU, preparation, f"{TWO}/upper-case", "severe", {}),
    (FDU, artefacts, "target unlabelled from target test", "severe", {"accuracy": (0.98, 1), "explained": (0.8, 1)}),
    (SENTENCES, shift, "Labels shift from camera to laptop", "warning", {"p": (0, 0.001), "positive source": (0.6, 1)}),
    (SENTENCES, shift, "Labels shift from camera to laptop", "warning", {"positive target": (0, 0.7)}),
    (SENTENCES, gap, "There is a gap to close", "note", {"in_domain": (0.8, 1)}),
    (SENTENCES, preparation, "tokenised", "warning", {}),
    (BOOKS, duplicates, "of the target test/repeat an earlier one", "note", {"texts": (23, 46)}),
    (BOOKS, duplicates, "labelled parts of books", "note", {"texts": (23, 46)}),
    (BOOKS, encoding, "U+FFFD/target test", "note", {"texts": (17, 17)}),
    # Published: 7 to 12 % of the occurrences of aspect terms, devices and laptops 42 %.
    (LAPTOPS, vocabulary, "aspect terms of", "note", {"tokens": (0.07, 0.14)}),
    (DEVICE, vocabulary, "aspect terms of", "note", {"tokens": (0.38, 0.44)}),
]


@cache
def problem(corpora: str) -> Parts:
    data, *pair = corpora.split()
    folder = f"{FOLDER}/amazon_reviews_fdu"
    own = [f"source.path={folder}/camera_photo.train.jsonl", f"target.path={folder}/software.unlabeled.jsonl"]
    own = [*own, f"target.test_path={folder}/software.test.jsonl"] if corpora == FDU else []
    overrides = [f"data={data}", *(f"data.pair={name}" for name in pair), *(f"data.{setting}" for setting in own)]
    return gather(make(compose("audit", overrides).data))


@cache
def findings(corpora: str, look: Callable[..., Iterator[Finding]]) -> list[Finding]:
    return [*look(problem(corpora))]


@pytest.mark.parametrize(("corpora", "look", "words", "severity", "numbers"), TRAPS)
def test_a_known_trap_is_found(corpora: str, look: Any, words: str, severity: str, numbers: dict[str, Any]) -> None:
    [found] = [f for f in findings(corpora, look) if all(word in f.text for word in words.split("/"))]
    assert found.severity == severity
    for key, (low, high) in numbers.items():
        assert low <= found.numbers[key] <= high, (key, found.numbers)


def test_what_is_no_trap_is_not_told() -> None:
    for corpora in (DEVICE, "aspect_opinion device_to_restaurants"):
        assert not [f for f in findings(corpora, annotation) if "touches" in f.text]
    assert findings(LAPTOPS, preparation) == []
