"""The traps that are known of the research corpora are found in them unaided."""

import os
from functools import cache

import pytest

from domadapt.auditing.artefacts import annotation, artefacts
from domadapt.auditing.copies import conflicts, duplicates
from domadapt.auditing.finding import Finding, Parts, gather, paths
from domadapt.auditing.gap import gap
from domadapt.auditing.shift import encoding, preparation, shift, vocabulary
from domadapt.config.compose import compose, make
from domadapt.syntax.cache import ParseCache
from domadapt.syntax.parser import SpacyParser

FOLDER = os.environ.get("DOMADAPT_BENCHMARK_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="DOMADAPT_BENCHMARK_DATA is unset: it names the folder of the benchmark corpora"
)


@cache
def problem(*overrides: str) -> Parts:
    return gather(make(compose("audit", list(overrides)).data))


def aspects(pair: str) -> Parts:
    return problem("data=aspect_opinion", f"data.pair={pair}")


def one(findings: list[Finding], *words: str) -> Finding:
    found = [f for f in findings if all(word in f.text for word in words)]
    assert len(found) == 1, [f.text for f in found]
    return found[0]


def test_restaurants_repeat_themselves() -> None:
    found = one(list(duplicates(aspects("laptops_to_restaurants"))), "of the target test", "target unlabelled too")
    assert found.severity == "severe"
    assert found.numbers["of"] == 1461
    assert 430 <= found.numbers["texts"] <= 460
    parts = aspects("laptops_to_restaurants")
    again = one(list(conflicts(parts)), "in the target,")
    assert (again.severity, again.numbers["conflicting"] > 500) == ("severe", True)


def test_a_few_unlabelled_texts_stand_in_the_test() -> None:
    found = one(list(duplicates(aspects("restaurants_to_laptops"))), "of the target test", "target unlabelled too")
    assert (found.severity, found.numbers["verbatim"]) == ("warning", 3)


def test_rest_test_sentences_occur_in_rest_train() -> None:
    found = list(duplicates(problem("data=joint_absa", "data.pair=laptop_to_rest")))
    leak = one(found, "of the target test", "target unlabelled too")
    assert (leak.severity, leak.numbers["texts"], leak.numbers["of"]) == ("severe", 697, 2158)


@pytest.mark.parametrize("pair", ["laptop_to_rest", "device_to_rest"])
def test_neighbouring_aspects_were_merged(pair: str) -> None:
    found = [f for f in annotation(problem("data=joint_absa", f"data.pair={pair}")) if "touches" in f.text]
    assert len(found) == 2
    assert all(f.severity == "warning" for f in found)


@pytest.mark.parametrize("pair", ["laptops_to_device", "device_to_restaurants"])
def test_tags_with_b_and_i_are_no_trap_but_sentences_without_terms_are(pair: str) -> None:
    found = list(annotation(aspects(pair)))
    assert [f.text for f in found if "touches" in f.text] == []
    empty = one(found, "without any span")
    assert (empty.severity, empty.numbers["device empty"] > 1700) == ("warning", True)


def test_device_text_is_lower_cased() -> None:
    parts = aspects("laptops_to_device")
    assert one(list(preparation(parts)), "Source and target", "upper-case").severity == "warning"
    learnt = one(list(artefacts(parts)), "source train from target unlabelled")
    assert learnt.severity == "warning"
    assert learnt.numbers["surface as given auc"] > 0.95
    assert learnt.numbers["surface lower-cased auc"] < 0.7
    assert list(preparation(aspects("restaurants_to_laptops"))) == []


def test_fdu_unlabelled_text_is_raw_and_labelled_text_is_not() -> None:
    folder = f"{FOLDER}/amazon_reviews_fdu"
    parts = problem(
        "data=my_files",
        f"data.source.path={folder}/camera_photo.train.jsonl",
        f"data.target.path={folder}/software.unlabeled.jsonl",
        f"data.target.test_path={folder}/software.test.jsonl",
    )
    pair = ("Two parts of target", "target unlabelled", "target test")
    found = list(preparation(parts))
    assert one(found, *pair, "tokenised").severity == one(found, *pair, "upper-case").severity == "severe"
    learnt = one(list(artefacts(parts)), "target unlabelled from target test")
    assert (learnt.severity, learnt.numbers["surface as given accuracy"] > 0.98) == ("severe", True)
    assert learnt.numbers["explained by both"] > 0.8


def test_sentence_labels_shift_and_leave_a_gap() -> None:
    parts = problem("data=camera_laptop_sentences")
    found = one(list(shift(parts)), "Labels shift from camera to laptop")
    assert (found.severity, found.numbers["p"] < 0.001) == ("warning", True)
    assert found.numbers["positive source"] - found.numbers["positive target"] > 0.2
    assert one(list(gap(parts)), "There is a gap to close").numbers["in_domain"] > 0.8
    assert one(list(preparation(parts)), "tokenised").severity == "warning"


def test_amazon_reviews_repeat_and_are_damaged() -> None:
    parts = problem("data=amazon_reviews", "data.pair=books_to_dvd")
    found = list(duplicates(parts))
    assert 23 <= one(found, "of the target test", "repeat an earlier one").numbers["texts"] <= 46
    assert 23 <= one(found, "labelled texts of books").numbers["texts"] <= 46
    assert one(list(encoding(parts)), "U+FFFD", "target test").numbers["texts"] == 17


# Published: 7 to 12 % of the occurrences of aspect terms, devices and laptops 42 %; 87 to 97 % of paths.
@pytest.mark.parametrize(
    ("pair", "terms"), [("restaurants_to_laptops", (0.07, 0.14)), ("laptops_to_device", (0.38, 0.44))]
)
def test_terms_and_paths_are_shared_as_published(pair: str, terms: tuple[float, float], parse_cache: str) -> None:
    parts = aspects(pair)
    assert terms[0] <= one(list(vocabulary(parts)), "aspect terms of").numbers["tokens"] <= terms[1]
    parser = ParseCache(SpacyParser(), parse_cache)
    assert 0.87 <= one(list(paths(parts, parser)), "dependency paths").numbers["short"] <= 0.98
    parser.close()
