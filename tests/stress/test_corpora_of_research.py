"""The research corpora, where they are: each file, each problem's parts, and the traps that the audit finds unaided."""

import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from domadapt.auditing.copies import annotation, conflicts, duplicates
from domadapt.auditing.finding import Finding, Parts, gather
from domadapt.auditing.shift import gap, shift, vocabulary
from domadapt.auditing.surface import artefacts, encoding, preparation
from domadapt.config.compose import compose, make
from domadapt.data.corpora import LAYOUTS, aspect_opinion
from domadapt.data.domains import Domains
from domadapt.data.readers import read
from domadapt.data.texts import COPIES, copy_key
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction

FOLDER = os.environ.get("DOMADAPT_BENCHMARK_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="DOMADAPT_BENCHMARK_DATA is unset: it names the folder of the benchmark corpora"
)
HERE = Path(FOLDER or "unset")

# Records in each file, as the folder's README and the owners' papers count them.
COUNTED = """
aspect_opinion device 3836 laptops 3848 restaurants 5844
camera_laptop_aspects camera.labeled 929 laptop.train 3048 laptop.test 800 other_device.labeled 2898
joint_absa device.train 2557 device.test 1279 laptop.train 3045 laptop.test 800 rest.train 3877 rest.test 2158
memd books.train 2092 books.dev 292 books.test 583 clothing.train 1674 clothing.dev 233 clothing.test 466
memd hotel.train 2481 hotel.dev 349 hotel.test 696 laptop.train 2852 laptop.dev 405 laptop.test 818
memd restaurant.train 3622 restaurant.dev 510 restaurant.test 1020
cross_ner conll2003.train 4000 conll2003.dev 1500 conll2003.test 1500
cross_ner politics.train 200 politics.dev 541 politics.test 651 science.train 200 science.dev 450 science.test 543
camera_laptop_sentences camera.labeled 395 laptop.labeled_train 1786 laptop.test_se14 284
camera_laptop_sentences camera.unlabeled 539 laptop.unlabeled 3037
amazon_reviews books.labeled 2000 dvd.labeled 2000 electronics.labeled 2000 kitchen.labeled 2000
amazon_reviews books.unlabeled_substitute 7463 dvd.unlabeled_substitute 6959
amazon_reviews electronics.unlabeled_substitute 6299 kitchen.unlabeled_substitute 6983
amazon_reviews_fdu camera_photo.train 1359 camera_photo.test 383 electronics.train 1562 electronics.test 397
amazon_reviews_fdu software.train 1300 software.test 393
amazon_reviews_fdu camera_photo.unlabeled 803 electronics.unlabeled 1338 software.unlabeled 372
"""
COUNTS = {
    f"{folder}/{name}.jsonl": int(count)
    for folder, *rest in map(str.split, COUNTED.strip().splitlines())
    for name, count in zip(rest[::2], rest[1::2], strict=True)
}
# Span types as in the files, which data=memd and the like rename; of the rest classes.
TYPES = {name: ["ASP", "OP"] for name in ("aspect_opinion", "camera_laptop_aspects", "memd")}
TYPES |= {"joint_absa": ["NEG", "NEU", "POS"], "cross_ner": ["LOC", "ORG", "PER"]}
DAMAGE = "text damaged by an earlier decoding (U+FFFD), kept"


@pytest.mark.parametrize("name", COUNTS)
def test_a_file_has_its_records_and_labels(name: str) -> None:
    folder, domain = name.split("/")[0], Path(name).name.split(".")[0]
    labelled = ".unlabeled" not in name
    corpus = read(HERE / name, domain=domain, labelled=labelled)
    assert len(corpus.records) == COUNTS[name]
    assert corpus.warnings.keys() <= (set() if folder in TYPES else {DAMAGE})
    if labelled:
        assert folder in TYPES or all(record.label for record in corpus.records)
        task = Extraction(TYPES[folder]) if folder in TYPES else Classification(["negative", "positive"])
        task.check(corpus.records)


def test_every_file_of_these_folders_is_counted_here() -> None:
    folders = {Path(name).parent for name in COUNTS}
    assert {str(path.relative_to(HERE)) for folder in folders for path in (HERE / folder).glob("*.jsonl")} == {*COUNTS}


ORIGINAL = {
    "semeval14_laptops_trial.xml": "semeval_xml",
    "semeval14_restaurants_trial.xml": "semeval_xml",
    "semeval15_restaurants_trial.xml": "semeval_xml",
    "blitzer_electronics_positive_sample.review": "blitzer_review",
    "hu_liu_canon_g3.txt": "hu_liu",
    "libert_conll_sample.txt": "conll",
}


def test_original_formats_are_told_by_their_content() -> None:
    # The readme in this folder describes the reviews beside it and holds none.
    assert {path.name for path in (HERE / "original_formats").iterdir()} - {"hu_liu_readme.txt"} == {*ORIGINAL}
    for name, format in ORIGINAL.items():
        corpus = read(HERE / "original_formats" / name, domain="any")
        assert corpus == read(HERE / "original_formats" / name, domain="any", format=format)
        assert any(record.spans or record.label for record in corpus.records)


def test_hu_liu_labels_are_those_of_the_derived_corpus() -> None:
    files = [HERE / "camera_laptop_sentences" / f"camera.{part}.jsonl" for part in ("labeled", "unlabeled")]
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").split("\n") if line]
    expected = {row["text"]: row["label"] for row in rows}
    corpus = read(HERE / "original_formats" / "hu_liu_canon_g3.txt", domain="camera")
    shared = [record for record in corpus.records if record.text in expected]
    assert len(shared) > 500
    assert [record.label for record in shared] == [expected[record.text] for record in shared]


# Of each: source train, dev and test, target texts and test, the ceiling's train and dev together, and its test.
SIZES = {
    "joint_absa rest_to_laptop": (3489, 388, 2158, 3045, 800, 3045, 800),
    "joint_absa laptop_to_rest": (2741, 304, 800, 3877, 2158, 3877, 2158),
    "joint_absa rest_to_device": (3489, 388, 2158, 2557, 1279, 2557, 1279),
    "joint_absa device_to_rest": (2301, 256, 1279, 3877, 2158, 3877, 2158),
    "memd hotel_to_books": (2481, 349, 696, 2092, 583, 2384, 583),
    "memd books_to_clothing": (2092, 292, 583, 1674, 466, 1907, 466),
    "memd books_to_hotel": (2092, 292, 583, 2481, 696, 2830, 696),
    "memd books_to_laptop": (2092, 292, 583, 2852, 818, 3257, 818),
    "memd books_to_restaurant": (2092, 292, 583, 3622, 1020, 4132, 1020),
    "cross_ner conll2003_to_politics": (4000, 1500, 1500, 741, 651, 741, 651),
    "cross_ner conll2003_to_science": (4000, 1500, 1500, 650, 543, 650, 543),
    "nli_genres fiction_to_travel": (2292, 255, 0, 2541, 1976, 2541, 1976),
    "nli_genres telephone_to_government": (2479, 275, 0, 2541, 1945, 2541, 1945),
    "amazon_reviews dvd_to_books": (1600, 400, 0, 7463, 2000, 1600, 400),
    "amazon_reviews books_to_dvd": (1600, 400, 0, 6959, 2000, 1600, 400),
    "amazon_reviews books_to_electronics": (1600, 400, 0, 6299, 2000, 1600, 400),
    "amazon_reviews books_to_kitchen": (1600, 400, 0, 6983, 2000, 1600, 400),
    "amazon_reviews_fdu electronics_to_camera_photo": (1406, 156, 397, 803, 383, 1359, 383),
    "amazon_reviews_fdu camera_photo_to_electronics": (1223, 136, 383, 1338, 397, 1562, 397),
    "amazon_reviews_fdu camera_photo_to_software": (1223, 136, 383, 372, 393, 1300, 393),
}
CLEAN = {"rest_to_laptop": 799, "laptop_to_rest": 1457, "rest_to_device": 1274, "device_to_rest": 1460}
# Of laptop_to_rest 697 repeat rest's train, 4 more a laptop review.


def problem(name: str) -> Domains:
    corpus, pair = name.split()
    domains: Domains = make(compose("train", [f"data={corpus}", f"data.pair={pair}", f"data.root={FOLDER}"]).data)
    return domains


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    domains, (corpus, pair) = problem(name), name.split()
    ceiling = problem(name).in_domain()
    test, learnt = domains.test.open(), (*ceiling.source_train, *ceiling.source_dev)
    parts = (domains.source_train, domains.source_dev, domains.source_test, domains.unlabelled.texts, test, learnt)
    assert (*map(len, parts), len(ceiling.test.open())) == SIZES[name]
    assert not {*domains.warnings} - {f"{pair.split('_to_')[0]}: {COPIES}"} or corpus.startswith("amazon")
    held = {copy_key(r.text) for r in domains.source_dev}
    assert corpus in ("memd", "cross_ner") or not held & {copy_key(r.text) for r in domains.source_train}
    seen = {copy_key(r.text) for r in (*domains.unlabelled.texts, *domains.source_train)}  # as the final evaluation
    if corpus == "joint_absa":
        assert sum(copy_key(r.text) not in seen for r in test) == CLEAN[pair]
    if corpus == "amazon_reviews":
        assert sum(r.label == "positive" for r in test) == 1000
        assert not {t.text for t in domains.unlabelled.texts} & {r.text for r in test}
    if corpus == "amazon_reviews_fdu":
        assert not any(" n't" in r.text for r in domains.source_train)
    if corpus == "memd":
        assert {span.type for r in domains.source_train for span in r.spans or ()} == {"aspect", "opinion"}


def test_every_layout_has_sizes_here() -> None:
    assert {name.split()[0] for name in SIZES} == {*LAYOUTS} - {"shipped", "sentences", "xabsa"}  # told of elsewhere


@pytest.mark.parametrize("source", ["device", "laptops", "restaurants"])
def test_aspect_opinion(source: str) -> None:
    target = "laptops" if source != "laptops" else "restaurants"
    pair = f"{source}_to_{target}"
    kept, dropped = (aspect_opinion(FOLDER, pair, 1, "keep", empty, dev_share=0.1) for empty in ("keep", "drop"))
    records = (*kept.source_train, *kept.source_dev)
    annotated = {r.id for r in records if r.spans}
    assert {r.id for r in (*dropped.source_train, *dropped.source_dev)} == annotated
    empty = "source sentence with neither aspect nor opinion, dropped"
    assert dropped.warnings[empty] == len(records) - len(annotated) > 0
    assert not {*kept.warnings} - {f"{source}: {COPIES}"}
    lower = aspect_opinion(FOLDER, pair, 1, "keep", lowercase=True, dev_share=0.1)
    pairs = list(zip(kept.source_train, lower.source_train, strict=True))
    assert all(after.text == before.text.lower() for before, after in pairs)
    words = [(record.text[s.start : s.end], s.type) for pair in pairs for record in pair for s in record.spans or ()]
    assert {(word.lower(), kind) for word, kind in words} == {
        (r.text[s.start : s.end], s.type) for r in lower.source_train for s in r.spans or ()
    }
    cased = sum(before.text != before.text.lower() for before, _ in pairs) / len(pairs)
    assert cased < 0.01 if source == "device" else cased > 0.9


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
def parts(corpora: str) -> Parts:
    data, *pair = corpora.split()
    folder = f"{FOLDER}/amazon_reviews_fdu"
    own = [f"source.path={folder}/camera_photo.train.jsonl", f"target.path={folder}/software.unlabeled.jsonl"]
    own = [*own, f"target.test_path={folder}/software.test.jsonl"] if corpora == FDU else []
    overrides = [f"data={data}", *(f"data.pair={name}" for name in pair), *(f"data.{setting}" for setting in own)]
    return gather(make(compose("audit", overrides).data))


@cache
def findings(corpora: str, look: Callable[..., Iterator[Finding]]) -> list[Finding]:
    return [*look(parts(corpora))]


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
