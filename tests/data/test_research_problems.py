"""The same problems on the real corpora, where they are: sizes as the corpora's own README counts them."""

import os
from pathlib import Path

import pytest

import domadapt
from domadapt.data.corpora import (
    LAYOUTS,
    amazon_reviews,
    amazon_reviews_fdu,
    aspect_opinion,
    cross_ner,
    joint_absa,
    memd,
    xabsa,
)
from domadapt.data.texts import COPIES, identity

FOLDER = os.environ.get("DOMADAPT_BENCHMARK_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="DOMADAPT_BENCHMARK_DATA is unset: it names the folder of the benchmark corpora"
)


@pytest.mark.parametrize(
    ("pair", "train", "dev", "source_test", "unlabelled", "test", "clean"),
    [
        ("rest_to_laptop", 3489, 388, 2158, 3045, 800, 799),
        ("laptop_to_rest", 2741, 304, 800, 3877, 2158, 1457),  # 697 repeat rest train, 4 more a laptop review
        ("rest_to_device", 3489, 388, 2158, 2557, 1279, 1274),
        ("device_to_rest", 2301, 256, 1279, 3877, 2158, 1460),
    ],
)
def test_joint_absa(pair: str, train: int, dev: int, source_test: int, unlabelled: int, test: int, clean: int) -> None:
    domains = joint_absa(FOLDER, pair, dev_share=0.1, terms_only=False)
    assert (len(domains.source_train), len(domains.source_dev), len(domains.source_test)) == (train, dev, source_test)
    assert len(domains.unlabeled.texts) == unlabelled
    assert domains.test is not None
    records = domains.test.open()
    seen = {identity(r.text) for r in (*domains.unlabeled.texts, *domains.source_train)}  # as the final evaluation
    assert (len(records), sum(identity(r.text) not in seen for r in records)) == (test, clean)
    assert not {*domains.warnings} - {f"{pair.split('_')[0]}: {COPIES}"}
    held = {identity(r.text) for r in domains.source_dev}
    assert not held & {identity(r.text) for r in domains.source_train}


@pytest.mark.parametrize("target", LAYOUTS["memd"].domains)
def test_memd(target: str) -> None:
    train, dev, test = ({"books": (2092, 292, 583), "clothing": (1674, 233, 466), "hotel": (2481, 349, 696)} | {
        "laptop": (2852, 405, 818), "restaurant": (3622, 510, 1020)})[target]  # fmt: skip
    domains = memd(FOLDER, f"{'books' if target != 'books' else 'hotel'}_to_{target}")
    ceiling = domains.in_domain()
    assert (len(ceiling.source_train), len(ceiling.source_dev), len(domains.unlabeled.texts)) == (train, dev, train)
    assert ceiling.test is not None
    assert len(ceiling.test.open()) == test
    assert {span.type for record in domains.source_train for span in record.spans or ()} == {"aspect", "opinion"}
    assert not domains.warnings


@pytest.mark.parametrize(("target", "texts", "test"), [("politics", 741, 651), ("science", 650, 543)])
def test_cross_ner(target: str, texts: int, test: int) -> None:
    domains = cross_ner(FOLDER, f"{LAYOUTS['cross_ner'].domains[0]}_to_{target}", dev_share=0.1)
    assert (len(domains.source_train), len(domains.source_dev), len(domains.unlabeled.texts)) == (4000, 1500, texts)
    ceiling = domains.in_domain()
    assert len(ceiling.source_train) + len(ceiling.source_dev) == texts
    assert ceiling.test is not None
    assert len(ceiling.test.open()) == test


@pytest.mark.parametrize(
    ("target", "train", "dev", "test"),
    [
        ("es", 1656, 414, 881),
        ("fr", 1332, 332, 668),
        ("nl", 1378, 344, 575),
        ("ru", 2924, 731, 1209),
        ("tr", 986, 246, 144),
    ],
)
def test_xabsa(target: str, train: int, dev: int, test: int) -> None:
    for tags, types in (("terms", {"aspect"}), ("with_polarity", {"POS", "NEG", "NEU"})):
        domains = xabsa(FOLDER, f"en_to_{target}", tags)
        assert (len(domains.source_train), len(domains.source_dev), len(domains.source_test)) == (1600, 400, 676)
        assert {span.type for record in domains.source_train for span in record.spans or ()} == types
        ceiling = domains.in_domain()
        assert (len(ceiling.source_train), len(ceiling.source_dev), len(domains.unlabeled.texts)) == (train, dev, train)
        assert ceiling.test is not None and len(ceiling.test.open()) == test
        assert not domains.warnings


def test_another_language_runs(tmp_path: Path) -> None:
    small = ["backbone=tiny_random", "trainer.epochs=2", "trainer.least_steps=0", "trainer.device=cpu"]
    metrics = domadapt.train(
        ["experiment=xabsa", "adaptation=self_training", *small, f"data.root={FOLDER}", f"paths.runs={tmp_path}"]
    )
    assert (metrics["source"], metrics["target"]) == ("restaurants_en", "restaurants_es")
    assert metrics["headline"] == "span_f1" and metrics["target_test_sizes"]["all"] == 881


@pytest.mark.parametrize("source", ["device", "laptops", "restaurants"])
def test_aspect_opinion(source: str) -> None:
    target = "laptops" if source != "laptops" else "restaurants"
    kept, dropped = (aspect_opinion(FOLDER, f"{source}_to_{target}", 1, 0.1, "keep", e) for e in ("keep", "drop"))
    records = (*kept.source_train, *kept.source_dev)
    annotated = {r.id for r in records if r.spans}
    assert {r.id for r in (*dropped.source_train, *dropped.source_dev)} == annotated
    empty = "source sentence with neither aspect nor opinion, dropped"
    assert dropped.warnings[empty] == len(records) - len(annotated) > 0
    assert not {*kept.warnings} - {f"{source}: {COPIES}"}
    lower = aspect_opinion(FOLDER, f"{source}_to_{target}", 1, 0.1, "keep", lowercase=True)
    pairs = list(zip(kept.source_train, lower.source_train, strict=True))
    assert all(after.text == before.text.lower() for before, after in pairs)
    words = [(record.text[s.start : s.end], s.type) for pair in pairs for record in pair for s in record.spans or ()]
    assert {(word.lower(), kind) for word, kind in words} == {
        (r.text[s.start : s.end], s.type) for r in lower.source_train for s in r.spans or ()
    }
    cased = sum(before.text != before.text.lower() for before, _ in pairs) / len(pairs)
    assert cased < 0.01 if source == "device" else cased > 0.9


@pytest.mark.parametrize("target", LAYOUTS["amazon_reviews"].domains)
def test_amazon_reviews(target: str) -> None:
    sizes = {"books": 7463, "dvd": 6959, "electronics": 6299, "kitchen": 6983}
    source = next(name for name in LAYOUTS["amazon_reviews"].domains if name != target)
    domains = amazon_reviews(FOLDER, f"{source}_to_{target}", 0.2, 0.2, "all")
    assert (len(domains.source_train), len(domains.source_dev)) == (1600, 400)
    assert len(domains.unlabeled.texts) == sizes[target]
    ceiling = domains.in_domain()
    assert domains.test is not None
    assert ceiling.test is not None
    test, ceilings_test = domains.test.open(), ceiling.test.open()
    assert len(test) == 2000
    assert sum(r.label == "positive" for r in test) == 1000
    assert (len(ceiling.source_train), len(ceiling.source_dev), len(ceilings_test)) == (1280, 320, 400)
    assert not {t.text for t in domains.unlabeled.texts} & {r.text for r in test}


@pytest.mark.parametrize("target", LAYOUTS["amazon_reviews_fdu"].domains)
def test_amazon_reviews_fdu(target: str) -> None:
    train = {"camera_photo": 1359, "electronics": 1562, "software": 1300}
    sizes = {"camera_photo": (803, 383), "electronics": (1338, 397), "software": (372, 393)}
    source = next(name for name in LAYOUTS["amazon_reviews_fdu"].domains if name != target)
    domains = amazon_reviews_fdu(FOLDER, f"{source}_to_{target}", 0.1, lowercase=True)
    assert len(domains.source_train) + len(domains.source_dev) == train[source]
    assert len(domains.source_test) == sizes[source][1]
    assert domains.test is not None
    assert (len(domains.unlabeled.texts), len(domains.test.open())) == sizes[target]
    assert not any(" n't" in r.text for r in domains.source_train)
    ceiling = domains.in_domain()
    assert len(ceiling.source_train) + len(ceiling.source_dev) == train[target]
