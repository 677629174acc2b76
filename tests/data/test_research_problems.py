"""The same problems on the real corpora, where they are: sizes as the corpora's own README counts them."""

import os

import pytest

from domadapt.config.compose import compose, make
from domadapt.data.corpora import LAYOUTS, aspect_opinion
from domadapt.data.domains import Domains
from domadapt.data.texts import COPIES, identity

FOLDER = os.environ.get("DOMADAPT_BENCHMARK_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="DOMADAPT_BENCHMARK_DATA is unset: it names the folder of the benchmark corpora"
)
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
    assert domains.test is not None and ceiling.test is not None
    test, learnt = domains.test.open(), (*ceiling.source_train, *ceiling.source_dev)
    parts = (domains.source_train, domains.source_dev, domains.source_test, domains.unlabelled.texts, test, learnt)
    assert (*map(len, parts), len(ceiling.test.open())) == SIZES[name]
    assert not {*domains.warnings} - {f"{pair.split('_to_')[0]}: {COPIES}"} or corpus.startswith("amazon")
    held = {identity(r.text) for r in domains.source_dev}
    assert corpus in ("memd", "cross_ner") or not held & {identity(r.text) for r in domains.source_train}
    seen = {identity(r.text) for r in (*domains.unlabelled.texts, *domains.source_train)}  # as the final evaluation
    if corpus == "joint_absa":
        assert sum(identity(r.text) not in seen for r in test) == CLEAN[pair]
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
