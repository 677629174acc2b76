"""Problems: several sources, a few target labels; research corpora, nobody in two parts; shipped corpora."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.config.compose import compose, make
from domadapt.data import corpora as known
from domadapt.data.corpora import amazon_reviews, amazon_reviews_fdu, aspect_opinion, joint_absa, my_files, several
from domadapt.data.domains import MOST_REPEATS, Ceiling, Domains, SealedTest, TargetUnlabelled
from domadapt.data.readers import read
from domadapt.data.records import Record
from domadapt.data.texts import lower_in_place
from domadapt.syntax.parser import SpacyParser
from domadapt.training.build import build
from domadapt.training.problem import read_problem
from domadapt.utils.files import shipped
from tests import support
from tests.support import CONF, aspect_corpus, corpora, fdu_corpus, joint_corpus, parted_corpus, records, write_jsonl


def some(domain: str, *texts: str) -> tuple[Record, ...]:
    return tuple(Record(str(i), domain, text) for i, text in enumerate(texts))


def problem(source: str, *texts: str, target: str = "spas", ceiling: Ceiling | None = None) -> Domains:
    train, dev, test = (some(source, text) for text in texts)
    return Domains(
        source,
        target,
        train,
        dev,
        test,
        TargetUnlabelled.from_records(target, some(target, f"text for {source}")),
        SealedTest(target, lambda: some(target, "The sauna is hot.", f"A test for {source}.")),
        (lambda: ceiling) if ceiling else None,
    )


def test_sources_are_joined_and_the_rest_is_the_first_problems() -> None:
    hotels = problem("hotels", "Big beds.", "Small beds.", "No beds.")
    bars = problem("bars", "Good beer.", "Bad beer.", "No beer.")
    both = several({"a": hotels, "b": bars})
    assert (both.source, both.target) == ("hotels+bars", "spas")
    assert both.source_train == (Record("1/0", "hotels", "Big beds."), Record("2/0", "bars", "Good beer."))
    assert [(r.domain, r.text) for r in both.source_dev] == [("hotels", "Small beds."), ("bars", "Bad beer.")]
    assert [(r.domain, r.text) for r in both.source_test] == [("hotels", "No beds."), ("bars", "No beer.")]
    assert [text.text for text in both.unlabelled.texts] == ["text for hotels"]
    assert [r.text for r in both.test.open()] == ["The sauna is hot.", "A test for hotels."]
    assert not both.warnings and both.ceiling is None
    assert len(bars.test.open()) == 2  # nobody had opened it


def test_copies_in_the_test_and_across_sources_are_kept_and_counted() -> None:
    hotels = problem("hotels", "the sauna is hot", "Bad beer!", "No beds.")
    bars = problem("bars", "Bad beer.", "Good beer.", "No beer.")
    bars.warnings["an oddity"] += 2
    both = several({"a": hotels, "b": bars})
    assert both.warnings == {known.IN_TRAIN: 1, "an oddity": 2}  # the test has not been looked at
    assert len(both.test.open()) == 2 and both.warnings[known.IN_TEST] == 1
    assert len(both.source_train) == len(both.source_dev) == 2


def test_the_ceiling_is_the_first_problems_and_compared_with_no_source() -> None:
    ceiling = Ceiling(some("spas", "Clean towels."), some("spas", "Damp towels."))
    both = several({"a": problem("hotels", "The sauna is hot.", *"bc", ceiling=ceiling), "b": problem("bars", *"def")})
    inside = both.in_domain()
    assert (inside.source_train, inside.source_dev) == (ceiling.train, ceiling.dev)
    assert [r.text for r in inside.test.open()] == ["The sauna is hot.", "A test for hotels."]
    assert not both.warnings


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True).map(tuple), max_size=4))
def test_ids_stay_unless_two_parts_share_one_and_are_unique_then(parts: list[tuple[str, ...]]) -> None:
    given_records = [tuple(Record(name, f"domain {i}", "text") for name in part) for i, part in enumerate(parts)]
    result = known.joined(given_records, known.prefixes(given_records))
    flat = [record for part in given_records for record in part]
    assert [r.domain for r in result] == [r.domain for r in flat]
    assert len({r.id for r in result}) == len(flat)
    if len({r.id for r in flat}) == len(flat):
        assert [*result] == flat


def files(folder: Path) -> dict[str, str]:
    paths = {f"{name}.jsonl": records(name, 12, shift) for name, shift in (("hotels", 0), ("bars", 3), ("spas", 7))}
    return {name: str(write_jsonl(folder / name, rows)) for name, rows in paths.items()}


def test_my_files_reads_a_list_of_sources(tmp_path: Path) -> None:
    path = files(tmp_path)
    sources = [path["hotels.jsonl"], path["bars.jsonl"]]

    def read(name: str | None) -> Domains:
        return my_files({"name": name, "path": sources}, {"name": "spas", "path": path["spas.jsonl"]}, 0.25)

    domains = read(None)
    assert (domains.source, len(domains.source_train), len(domains.source_dev)) == ("hotels+bars", 18, 6)
    assert all(r.id.startswith(r.domain) for r in (*domains.source_train, *domains.source_dev))
    assert {r.domain for r in domains.source_train} == {"hotels", "bars"}
    named = read("places")
    assert {named.source} == {r.domain for r in named.source_train} == {"places"}
    cfg = compose("train", ["data=my_files", f"data.source.path=[{','.join(sources)}]", "data.target.name=spas"])
    assert cfg.pair == "hotels+bars_to_spas"
    assert compose("train", ["data=my_files", f"data.source.path={sources[0]}"]).pair == "source_to_target"


def test_files_of_one_name_or_none_are_told(tmp_path: Path) -> None:
    here, there = (files(tmp_path / name)["bars.jsonl"] for name in ("here", "there"))
    target = {"name": "spas", "path": here}
    with pytest.raises(ValueError, match=r"two files are called bars, and so would be their domains; rename one, or"):
        my_files({"name": None, "path": [here, there]}, target, 0.25)
    named = my_files({"name": "bars", "path": [here, there]}, target, 0.25)
    assert len({r.id for r in (*named.source_train, *named.source_dev)}) == 24
    with pytest.raises(ValueError, match=r"data\.source\.path=gone\.jsonl: no such file"):
        my_files({"name": None, "path": [here, "gone.jsonl"]}, target, 0.25)


def test_a_target_among_the_files_of_a_pattern_is_told(tmp_path: Path) -> None:
    path = files(tmp_path)
    given = [f"source.path=[{tmp_path}/*s.jsonl]", f"target.path={path['spas.jsonl']}", "target.name=hotels"]
    with pytest.raises(ValueError, match="the target, 'hotels', is among the labelled sources"):
        read_problem(compose("train", given))


def test_a_dev_without_any_label_is_told(tmp_path: Path) -> None:
    rows = [{"text": f"Text {number} of {number}.", "label": "good" if number < 2 else None} for number in range(40)]
    source = {"path": str(write_jsonl(tmp_path / "few.jsonl", rows)), "name": "bars"}
    told = "2 of 40 texts of bars are labelled, and none of 4 that are held out as dev; drop those without labels, or g"
    with pytest.raises(ValueError, match=told):
        my_files(source, {"name": "spas", "path": files(tmp_path)["spas.jsonl"]}, 0.1, "record")


def test_a_setting_that_a_yaml_misspells_is_told(tmp_path: Path) -> None:
    path = files(tmp_path)
    source, target = {"path": path["bars.jsonl"]}, {"name": "spas", "path": path["spas.jsonl"]}
    with pytest.raises(ValueError, match=r"data\.target\.test_paths: there is no such setting; expected some of"):
        my_files(source, {**target, "test_paths": path["hotels.jsonl"]}, 0.25)
    with pytest.raises(ValueError, match=r"data\.source\.train_path: there is no such setting"):  # the target's
        my_files({**source, "train_path": path["hotels.jsonl"]}, target, 0.25)


def test_the_example_in_the_yaml_trains(tmp_path: Path, command: support.Command) -> None:
    for name in ("hotels", "bars", "test"):
        support.write_csv(tmp_path / f"{name}.csv", records(name, 12, len(name)))
    support.write_texts(tmp_path / "spas.txt", records("spas", 9, 8))
    (tmp_path / "own" / "data").mkdir(parents=True)
    lines = (CONF / "data" / "several.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    example = "".join(line.removeprefix("#   ") for line in lines if line.startswith("#   "))  # in its comment
    (tmp_path / "own" / "data" / "reviews.yaml").write_text(example, encoding="utf-8")
    small = ["task=classification", "backbone=tiny_random", "trainer.epochs=1", "trainer.min_steps=0"]
    command("train", "--config-dir", str(tmp_path / "own"), "data=reviews", *small, "paths.run=run")
    told = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (told["source"], told["target"], told["config"]["pair"]) == ("hotels+bars", "spas", "hotels+bars_to_spas")


def with_labels(overrides: list[str], count: int | str, seed: int = 1, share: float = 0.2) -> tuple[Domains, list[str]]:
    """The problem with some target labels, and the texts that carry them."""
    domains: Domains = make(domadapt.compose("train", overrides).data)
    domains = domains.with_target_labels(count, share, seed, "label")
    return domains, [r.text for r in domains.source_train if r.domain == domains.target]


def test_more_labels_are_the_fewer_and_some_others(tmp_path: Path) -> None:
    overrides = corpora(tmp_path)
    few, four = with_labels(overrides, 4)
    _, eight = with_labels(overrides, 8)
    _, others = with_labels(overrides, 4, seed=2)
    every, _ = with_labels(overrides, "all")
    assert set(four) < set(eight) and set(four) != set(others)
    assert (few.target_labels, every.target_labels) == (4, 16)  # two of which are the ceiling's dev
    assert len({r.id for r in few.source_train}) == len(few.source_train)
    read = domadapt.read(tmp_path / "labelled.jsonl", domain="target").records
    assert set(four) <= {record.text for record in read}


@pytest.mark.parametrize(("share", "times"), [(0.0, 1), (0.2, 3), (0.9, MOST_REPEATS)])
def test_a_few_are_repeated_to_make_their_share(tmp_path: Path, share: float, times: int) -> None:
    _, texts = with_labels(corpora(tmp_path), 2, share=share)  # beside 22 of the source
    assert len(texts) == 2 * times


def test_labels_that_are_not_learnt_are_not_judged(tmp_path: Path) -> None:
    given, path = corpora(tmp_path), tmp_path / "source.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    write_jsonl(path, [{**row, "label": f"mood {i}"} for i, row in enumerate(rows)])  # a label each
    for task, judged in (("extraction", False), ("classification", True)):
        told = read_problem(compose("train", [*given, f"task={task}", "data.target.test_path=null"])).domains.warnings
        assert any("labels: if these are no classes" in warning for warning in told) == judged


@pytest.mark.parametrize(("kind", "count"), [("unlabelled", 5), ("also spans", 18)])
def test_they_have_what_the_source_s_task_learns_from(tmp_path: Path, kind: str, count: int) -> None:
    """A text that nobody has given a label has an empty list of spans in doccano's files; others' texts have both."""
    rows = [{"text": f"{i} is fine.", "label": "good" if i % 2 else "bad"} for i in range(20)]
    target = [*rows[:6], *({"text": f"{i} is it?", "label": []} for i in range(30))]
    if kind == "also spans":
        target = [{**row, "spans": [[0, 1, "aspect"]]} for row in rows]
    source, path = write_jsonl(tmp_path / "a.jsonl", rows), write_jsonl(tmp_path / "b.jsonl", target)
    given = [f"source.path={source}", f"target.path={path}", f"target.train_path={path}", "data.dev_by=record"]
    known = read_problem(compose("train", [*given, "target_labels=4", "target_label_share=0"])).domains
    assert known.target_labels == 4 == len(known.source_train) - len(known.source_records)
    with pytest.raises(ValueError, match=f"there are {count} labelled training records of 'target'"):
        read_problem(compose("train", [*given, "target_labels=30"]))


def test_they_are_never_of_the_test(tmp_path: Path) -> None:
    """Where the published test is all that is labelled, the test is what the ceiling leaves of it."""
    data = ["data=amazon_reviews", "data.pair=books_to_dvd", f"data.root={support.amazon_corpus(tmp_path)}"]
    session, sealed = build(domadapt.compose("train", [*data, "backbone=tiny_random", "target_labels=all"]))
    learnt = {r.text for r in session.domains.source_train if r.domain == "dvd"}
    assert learnt and not learnt & {record.text for record in sealed.open()}


PAIR = "device_to_laptops"


def ids(domain: str, **parts: int) -> set[str]:
    return {f"{domain}-{name}-{i}" for name, count in parts.items() for i in range(count)}


def labelled(domains: Domains) -> set[str]:
    return {r.id for r in (*domains.source_train, *domains.source_dev)}


def parted(path: Path, name: str) -> str:
    return str(parted_corpus(path, name, known.LAYOUTS[name].domains))


def aspects(root: str, *more: Any, **settings: Any) -> Domains:
    return aspect_opinion(str(aspect_corpus(Path(root))), PAIR, 1, "keep", *more, **settings)


PARTS: dict[str, tuple[Callable[[Path], Domains], tuple[set[str], ...]]] = {
    # source train and dev together, test; target texts, test; the ceiling's train and dev together
    "joint_absa": (
        lambda path: joint_absa(str(joint_corpus(path)), "rest_to_device", False, dev_share=0.25),
        (ids("rest", train=12), ids("rest", test=6), ids("device", train=12), ids("device", test=6)),
    ),
    "memd": (
        lambda path: known.memd(parted(path, "memd"), "hotel_to_laptop"),
        (ids("hotel", train=12, dev=4), ids("hotel", test=6), ids("laptop", train=12), ids("laptop", test=6)),
    ),
    "cross_ner": (
        lambda path: known.cross_ner(parted(path, "cross_ner"), "conll2003_to_science", 0.25),
        tuple(
            ids(name, **part) for name in ("conll2003", "science") for part in ({"train": 12, "dev": 4}, {"test": 6})
        ),
    ),
}


@pytest.mark.parametrize("corpus", PARTS)
def test_parts_are_taken_as_published(tmp_path: Path, corpus: str) -> None:
    make, expected = PARTS[corpus]
    domains, ceiling = make(tmp_path), make(tmp_path).in_domain()
    parts = ((*domains.source_train, *domains.source_dev), domains.source_test, domains.unlabelled.texts)
    assert (*({r.id for r in part} for part in parts), {r.id for r in domains.test.open()}) == expected
    train, dev = ({r.id for r in part} for part in (ceiling.source_train, ceiling.source_dev))
    assert train | dev == expected[2] | (ids("laptop", dev=4) if corpus == "memd" else set()) and not train & dev
    assert len(domains.source_dev) == {"joint_absa": 3}.get(corpus, 4)


def test_terms_only_keeps_spans_and_drops_polarity(tmp_path: Path) -> None:
    root = str(joint_corpus(tmp_path))
    both = [joint_absa(root, "rest_to_device", terms_only, dev_share=0.25) for terms_only in (False, True)]
    with_polarity, terms = ([(s.start, s.end, s.type) for r in d.source_train for s in r.spans or ()] for d in both)
    assert {kind for *_, kind in with_polarity} == {"POS", "NEG", "NEU"}
    assert terms == [(start, end, "aspect") for start, end, _ in with_polarity]


def test_xabsa_reads_terms_or_terms_with_polarity(tmp_path: Path) -> None:
    root = parted_corpus(tmp_path, "xabsa", known.LAYOUTS["xabsa"].domains)
    for path in (root / "xabsa").iterdir():  # as published: tags of both kinds, and the review's kind in the domain
        lines = support.read_jsonl(path)
        polar = ["O", "B-POS", "I-POS", "O", "O", "O", "O"]
        write_jsonl(path, [{**r, "domain": f"restaurants_{r['domain']}", "tags_with_polarity": polar} for r in lines])
    for tags, types in (("terms", {"aspect", "opinion"}), ("with_polarity", {"POS"})):
        domains = known.xabsa(str(root), "en_to_es", tags)
        assert (domains.source, domains.target) == ("restaurants_en", "restaurants_es") and not domains.warnings
        assert {r.domain for r in domains.source_train} == {domains.source}
        assert {span.type for r in domains.source_dev for span in r.spans or ()} == types
        assert {t.id for t in domains.unlabelled.texts} == ids("es", train=12)
        assert domains.test is not None and {r.id for r in domains.test.open()} == ids("es", test=6)
        assert {r.id for r in domains.in_domain().source_dev} == ids("es", dev=4)


def test_the_reviews_ceiling_is_tested_on_what_it_did_not_learn(tmp_path: Path) -> None:
    def problem(test: str = "all") -> Domains:
        return amazon_reviews(str(support.amazon_corpus(tmp_path)), "books_to_dvd", 0.2, test, dev_share=0.2)

    domains, every = problem(), ids("dvd", labeled=20)
    assert (len(domains.source_train), len(domains.source_dev)) == (16, 4)
    assert {r.id for r in domains.test.open()} == every
    assert {t.id for t in domains.unlabelled.texts} == ids("dvd", unlabeled_substitute=10)
    ceiling = problem().in_domain()
    learnt, tested = labelled(ceiling), {r.id for r in ceiling.test.open()}
    assert len(tested) == 4 and learnt | tested == every and not learnt & tested
    assert {r.id for r in problem("ceiling").test.open()} == tested


def test_fdu_text_is_detokenised_and_gives_away_neither_tokens_nor_case(tmp_path: Path) -> None:
    domains = amazon_reviews_fdu(str(fdu_corpus(tmp_path)), "software_to_camera_photo", dev_share=0.2, lowercase=True)
    texts = [r.text for r in (*domains.source_train, *domains.source_dev, *domains.source_test)]
    assert len(texts) == 10 + 4 and all(text.endswith("isn't bad.") for text in texts)
    assert all(t.text == t.text.lower() for t in domains.unlabelled.texts)
    cased = amazon_reviews_fdu(str(tmp_path), "software_to_camera_photo", dev_share=0.2, lowercase=False)
    assert [t.text.lower() for t in cased.unlabelled.texts] == [t.text for t in domains.unlabelled.texts]
    assert any(t.text != t.text.lower() for t in cased.unlabelled.texts)
    path = fdu_corpus(tmp_path) / "amazon_reviews_fdu" / "software.train.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("text_detok", "title", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"train\.jsonl:1: list of columns is .*expected a column 'text_detok'"):
        amazon_reviews_fdu(str(tmp_path), "software_to_camera_photo", dev_share=0.2, lowercase=True)


def test_sentences_without_a_term_are_dropped_from_the_source_and_counted(tmp_path: Path) -> None:
    root = str(aspect_corpus(tmp_path))
    kept, dropped = (aspect_opinion(root, PAIR, 1, "keep", empty, dev_share=0.25) for empty in ("keep", "drop"))
    assert [[len(labelled(d)), len(d.unlabelled.texts)] for d in (kept, dropped)] == [[12, 8], [9, 8]]
    assert all(r.spans for r in (*dropped.source_train, *dropped.source_dev))
    assert dropped.warnings["source sentence with neither aspect nor opinion, dropped"] == 3
    assert not kept.warnings
    for domains in (kept, dropped):  # what is left of the target may not depend on its labels
        assert (len(domains.test.open()), len(labelled(domains.in_domain()))) == (4, 8)


def test_a_few_of_the_source_s_sentences_are_drawn_and_the_target_is_whole(tmp_path: Path) -> None:
    root = str(aspect_corpus(tmp_path))

    def problem(count: int | None) -> Domains:
        return aspect_opinion(root, PAIR, 1, "keep", source_texts=count, dev_share=0.25)

    whole, some, fewer = map(problem, (None, 8, 4))
    assert list(map(len, map(labelled, (whole, some, fewer)))) == [12, 8, 4]
    assert labelled(fewer) < labelled(some) < labelled(whole)
    assert some.source_dev
    assert [t.text for t in some.unlabelled.texts] == [t.text for t in whole.unlabelled.texts]
    assert labelled(some.in_domain()) == labelled(whole.in_domain())


def test_lower_case_keeps_spans_on_their_words(tmp_path: Path) -> None:
    root = str(aspect_corpus(tmp_path))
    as_is, lower = (aspect_opinion(root, PAIR, 1, "keep", "keep", on, dev_share=0.25) for on in (False, True))
    assert [t.text for t in lower.unlabelled.texts] == [lower_in_place(t.text) for t in as_is.unlabelled.texts]
    for before, after in zip(as_is.test.open(), lower.test.open(), strict=True):
        assert after.text == lower_in_place(before.text) != before.text
        for old, new in zip(before.spans or (), after.spans or (), strict=True):
            assert after.text[new.start : new.end] == lower_in_place(before.text[old.start : old.end])
    joint = joint_absa(str(joint_corpus(tmp_path)), "rest_to_device", False, True, dev_share=0.25)
    assert all(r.text == lower_in_place(r.text) for r in (*joint.source_train, *joint.unlabelled.texts))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: joint_absa(root, "rest_to_rest", False), "data.pair='rest_to_rest': expected SOURCE_to_T"),
        (lambda root: joint_absa(None, "rest_to_device", False), "DOMADAPT_BENCHMARK_DATA"),
        (lambda root: joint_absa(root, "rest_to_device", False), "joint_absa: no such folder"),
        (lambda root: joint_absa(root, "rest_to_device", "no"), "data.terms_only='no': expected true or false"),
        (lambda root: aspects(root, "some"), "data.empty='some': expected keep or drop"),
        (lambda root: aspects(root, source_texts=13), "source_texts=13: expected a whole number from 2 to 12, or null"),
        (lambda root: known.memd(root, "books_to_dvd"), "two of books, clothing, hotel, laptop, restaurant"),
        (lambda root: known.cross_ner(root, "politics"), "two of conll2003, politics, science"),
        (lambda root: known.xabsa(root, "en_to_de"), "two of en, es, fr, nl, ru, tr"),
        (lambda root: known.xabsa(root, "en_to_es", "polarity"), "expected terms or with_polarity"),
        (lambda root: amazon_reviews(root, "books", 0.2, "all"), "two of books, dvd, electronics, kitchen"),
        (lambda root: amazon_reviews(root, "books_to_dvd", 0.2, "half"), "data.test='half': expected all or"),
        (lambda root: amazon_reviews_fdu(root, "dvd_to_books", True), "two of camera_photo, electronics, softw"),
        (
            lambda root: read_problem(compose("train", [*corpora(Path(root)), "data.source.name=target"])),
            "data: the target, 'target', is among the labelled sources",
        ),
        (lambda _: make(compose("train", ["data=several"]).data), r"data\.problems is empty: give problems with"),
        (
            lambda _: several({"a": problem("hotels", *"abc"), "b": problem("bars", *"def", target="pubs")}),
            r"data\.problems\.b: its target is 'pubs', the first problem's is 'spas'",
        ),
    ],
)
def test_a_wrong_setting_is_told(tmp_path: Path, make: Callable[[str], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(str(tmp_path))


def test_clean_leaves_out_test_sentences_that_occur_in_training_text(tmp_path: Path) -> None:
    """As many restaurant test sentences do; the corpus here repeats two of its six."""
    settings = ["experiment=joint_absa", "data.pair=rest_to_device", f"data.root={joint_corpus(tmp_path, repeated=2)}"]
    metrics = domadapt.train([*settings, "backbone=tiny_random", "trainer.epochs=1", f"paths.run={tmp_path}/run"])
    assert metrics["target_test_sizes"] == {"all": 6, "clean": 4}
    assert metrics["target_test_clean"]["span_support"] == 4 and metrics["target_test"]["span_support"] == 6
    assert metrics["headline"] == "span_f1"


def test_dropped_copies_leave_the_ceiling_too(tmp_path: Path) -> None:
    root, copies = aspect_corpus(tmp_path), [f"laptops-{i}" for i in range(3)]
    also = {"target_unlabeled_text_also_in_test": copies}
    support.edit(root / "aspect_opinion" / "splits.json", lambda splits: splits["device_to_laptops_1"].update(also))
    kept, dropped = (aspect_opinion(str(root), PAIR, 1, how, dev_share=0.25).in_domain() for how in ("keep", "drop"))
    assert labelled(kept) - labelled(dropped) == {*copies}


def test_a_file_that_lacks_what_the_splits_name_is_refused(tmp_path: Path) -> None:
    root = aspect_corpus(tmp_path)
    path = root / "aspect_opinion" / "device.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    with pytest.raises(ValueError, match=r"device.jsonl: lacks 2 of the 12 records that splits.json names .*-10'"):
        aspect_opinion(str(root), PAIR, 1, "keep", dev_share=0.25)


DOMAINS = ("camera", "laptop", "hotel")
FILES = ("train", "dev", "test", "unlabeled")


def of_shipped(domain: str, part: str) -> tuple[Record, ...]:
    read_corpus = read(shipped() / domain / f"{part}.jsonl", domain=domain)
    assert not read_corpus.warnings or part == "unlabeled"
    return read_corpus.records


EVERYTHING = [record for domain in DOMAINS for part in FILES for record in of_shipped(domain, part)]


def five_grams(text: str) -> set[tuple[str, ...]]:
    words = ["".join(c for c in word if c.isalnum()) for word in text.lower().split()]
    words = [word for word in words if word]
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


@pytest.mark.parametrize("domain", DOMAINS)
def test_sizes_of_shipped_corpora(domain: str) -> None:
    labelled = [record for part in FILES[:3] for record in of_shipped(domain, part)]
    assert len(labelled) >= 500 and len(of_shipped(domain, "unlabeled")) >= 400
    assert all(record.label in ("positive", "negative", "neutral") for record in labelled)
    assert all(record.spans is not None for record in labelled)
    assert {span.type for record in labelled for span in record.spans or ()} == {"aspect", "opinion"}


def test_shipped_ids_and_texts_are_unique_and_none_is_a_near_copy_of_another() -> None:
    assert max(Counter(r.id for r in EVERYTHING).values()) == 1
    assert max(Counter(r.text.lower() for r in EVERYTHING).values()) == 1
    # No two share a fifth of the shorter one's word 5-grams, or three of them; none is in more than three.
    grams = [five_grams(r.text) for r in EVERYTHING]
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, found in enumerate(grams):
        for gram in found:
            holders[gram].append(index)
    assert max(len(indices) for indices in holders.values()) <= 3
    shared = Counter(pair for indices in holders.values() for pair in combinations(indices, 2))
    for (a, b), count in shared.items():
        assert count < 3, (EVERYTHING[a].text, EVERYTHING[b].text)
        assert count < 0.2 * min(len(grams[a]), len(grams[b])), (EVERYTHING[a].text, EVERYTHING[b].text)


def test_shipped_spans_lie_on_word_boundaries() -> None:
    labelled = [r for r in EVERYTHING if r.spans]
    off = 0
    for record, words in zip(labelled, SpacyParser().tokenize(labelled), strict=True):
        starts, ends = set(words[:, 0].tolist()), set(words[:, 1].tolist())
        off += sum(s.start not in starts or s.end not in ends for s in record.spans or ())
        ordered = sorted((s.start, s.end) for s in record.spans or ())
        assert all(before[1] <= after[0] for before, after in pairwise(ordered))
    assert off <= 0.005 * sum(len(r.spans or ()) for r in labelled)
