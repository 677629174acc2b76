"""The real corpora, where they are: DOMADAPT_BENCHMARK_DATA names the folder."""

import json
import os
from pathlib import Path

import pytest

from domadapt.data.readers import read
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction

FOLDER = os.environ.get("DOMADAPT_BENCHMARK_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="DOMADAPT_BENCHMARK_DATA is unset: it names the folder of the benchmark corpora"
)
HERE = Path(FOLDER or "unset")

# Records in each file, as the folder's README and the owners' papers count them.
TAGGED = {
    "aspect_opinion/device.jsonl": 3836,
    "aspect_opinion/laptops.jsonl": 3848,
    "aspect_opinion/restaurants.jsonl": 5844,
    "camera_laptop_aspects/camera.labeled.jsonl": 929,
    "camera_laptop_aspects/laptop.train.jsonl": 3048,
    "camera_laptop_aspects/laptop.test.jsonl": 800,
    "camera_laptop_aspects/other_device.labeled.jsonl": 2898,
    "joint_absa/device.train.jsonl": 2557,
    "joint_absa/device.test.jsonl": 1279,
    "joint_absa/laptop.train.jsonl": 3045,
    "joint_absa/laptop.test.jsonl": 800,
    "joint_absa/rest.train.jsonl": 3877,
    "joint_absa/rest.test.jsonl": 2158,
    **{
        f"memd/{domain}.{part}.jsonl": count
        for domain, counts in {
            "books": (2092, 292, 583),
            "clothing": (1674, 233, 466),
            "hotel": (2481, 349, 696),
            "laptop": (2852, 405, 818),
            "restaurant": (3622, 510, 1020),
        }.items()
        for part, count in zip(("train", "dev", "test"), counts, strict=True)
    },
    **{
        f"cross_ner/{domain}.{part}.jsonl": count
        for domain, counts in {
            "conll2003": (4000, 1500, 1500),
            "politics": (200, 541, 651),
            "science": (200, 450, 543),
        }.items()
        for part, count in zip(("train", "dev", "test"), counts, strict=True)
    },
}
TYPES = {"joint_absa": {"POS", "NEG", "NEU"}, "cross_ner": {"PER", "ORG", "LOC"}}  # of the others: aspect and opinion
LABELLED = {
    "camera_laptop_sentences/camera.labeled.jsonl": 395,
    "camera_laptop_sentences/laptop.labeled_train.jsonl": 1786,
    "camera_laptop_sentences/laptop.test_se14.jsonl": 284,
    **{f"amazon_reviews/{name}.labeled.jsonl": 2000 for name in ("books", "dvd", "electronics", "kitchen")},
    "amazon_reviews_fdu/camera_photo.train.jsonl": 1359,
    "amazon_reviews_fdu/camera_photo.test.jsonl": 383,
    "amazon_reviews_fdu/electronics.train.jsonl": 1562,
    "amazon_reviews_fdu/electronics.test.jsonl": 397,
    "amazon_reviews_fdu/software.train.jsonl": 1300,
    "amazon_reviews_fdu/software.test.jsonl": 393,
}
UNLABELLED = {
    "camera_laptop_sentences/camera.unlabeled.jsonl": 539,
    "camera_laptop_sentences/laptop.unlabeled.jsonl": 3037,
    "amazon_reviews/books.unlabeled_substitute.jsonl": 7463,
    "amazon_reviews/dvd.unlabeled_substitute.jsonl": 6959,
    "amazon_reviews/electronics.unlabeled_substitute.jsonl": 6299,
    "amazon_reviews/kitchen.unlabeled_substitute.jsonl": 6983,
    "amazon_reviews_fdu/camera_photo.unlabeled.jsonl": 803,
    "amazon_reviews_fdu/electronics.unlabeled.jsonl": 1338,
    "amazon_reviews_fdu/software.unlabeled.jsonl": 372,
}
DAMAGE = "text damaged by an earlier decoding (U+FFFD), kept"


def domain_of(name: str) -> str:
    return Path(name).name.split(".")[0]


@pytest.mark.parametrize("name", TAGGED)
def test_tagged(name: str) -> None:
    corpus = read(HERE / name, domain=domain_of(name))
    assert len(corpus.records) == TAGGED[name]
    assert not corpus.warnings
    types = TYPES.get(name.split("/")[0], {"ASP", "OP"})  # the files' own; data=memd and the like rename them
    Extraction(sorted(types)).check(corpus.records)


@pytest.mark.parametrize("name", LABELLED)
def test_labelled(name: str) -> None:
    corpus = read(HERE / name, domain=domain_of(name))
    assert len(corpus.records) == LABELLED[name]
    assert all(record.label for record in corpus.records)
    Classification(["negative", "positive"]).check(corpus.records)
    assert corpus.warnings.keys() <= {DAMAGE}


@pytest.mark.parametrize("name", UNLABELLED)
def test_unlabelled(name: str) -> None:
    corpus = read(HERE / name, domain=domain_of(name), labelled=False)
    assert len(corpus.records) == UNLABELLED[name]
    assert corpus.warnings.keys() <= {DAMAGE}


def test_every_file_of_these_folders_is_counted_here() -> None:
    folders = {Path(name).parent for name in (*TAGGED, *LABELLED, *UNLABELLED)}
    found = {str(path.relative_to(HERE)) for folder in folders for path in (HERE / folder).glob("*.jsonl")}
    assert found == {*TAGGED, *LABELLED, *UNLABELLED}


ORIGINAL = {
    "semeval14_laptops_trial.xml": "semeval_xml",
    "semeval14_restaurants_trial.xml": "semeval_xml",
    "semeval15_restaurants_trial.xml": "semeval_xml",
    "blitzer_electronics_positive_sample.review": "blitzer_review",
    "hu_liu_canon_g3.txt": "hu_liu",
    "libert_conll_sample.txt": "conll",
}


@pytest.mark.parametrize("name", ORIGINAL)
def test_original_formats(name: str) -> None:
    path = HERE / "original_formats" / name
    corpus = read(path, domain="any")
    assert corpus == read(path, domain="any", format=ORIGINAL[name])
    assert any(record.spans or record.label for record in corpus.records)


def test_every_original_format_is_read_here() -> None:
    # The readme in this folder describes the reviews beside it and holds none.
    found = {path.name for path in (HERE / "original_formats").iterdir()} - {"hu_liu_readme.txt"}
    assert found == set(ORIGINAL)


def test_hu_liu_labels_are_those_of_the_derived_corpus() -> None:
    expected: dict[str, str | None] = {}
    for name in ("camera.labeled.jsonl", "camera.unlabeled.jsonl"):
        for content in (HERE / "camera_laptop_sentences" / name).read_text(encoding="utf-8").split("\n"):
            if content:
                fields = json.loads(content)
                expected[fields["text"]] = fields["label"]
    corpus = read(HERE / "original_formats" / "hu_liu_canon_g3.txt", domain="camera")
    shared = [record for record in corpus.records if record.text in expected]
    assert len(shared) > 500
    assert [record.label for record in shared] == [expected[record.text] for record in shared]
