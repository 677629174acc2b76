"""Problems: several sources in one, whose records and whose target; a few target labels, given openly."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.config.compose import compose, make
from domadapt.data.corpora import IN_TEST, IN_TRAIN, joined, my_files, prefixes, several
from domadapt.data.domains import MOST, Ceiling, Domains, SealedTest, TargetUnlabelled
from domadapt.data.records import Record
from domadapt.training.build import build
from tests.support import Command, amazon_corpus, corpora, records, trained, write_csv, write_jsonl, write_texts

CONF = Path(__file__).parents[2] / "conf"


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
    assert not both.warnings
    assert both.ceiling is None
    assert len(bars.test.open()) == 2  # nobody had opened it


def test_copies_in_the_test_and_across_sources_are_kept_and_counted() -> None:
    hotels = problem("hotels", "the sauna is hot", "Bad beer!", "No beds.")
    bars = problem("bars", "Bad beer.", "Good beer.", "No beer.")
    bars.warnings["an oddity"] += 2
    both = several({"a": hotels, "b": bars})
    assert both.warnings == {IN_TRAIN: 1, "an oddity": 2}  # the test has not been looked at
    assert len(both.test.open()) == 2
    assert both.warnings[IN_TEST] == 1
    assert len(both.source_train) == len(both.source_dev) == 2


def test_the_ceiling_is_the_first_problems_and_compared_with_no_source() -> None:
    ceiling = Ceiling(some("spas", "Clean towels."), some("spas", "Damp towels."))
    both = several({"a": problem("hotels", "The sauna is hot.", *"bc", ceiling=ceiling), "b": problem("bars", *"def")})
    inside = both.in_domain()
    assert (inside.source_train, inside.source_dev) == (ceiling.train, ceiling.dev)
    assert [r.text for r in inside.test.open()] == ["The sauna is hot.", "A test for hotels."]
    assert not both.warnings


def test_other_targets_and_no_problems_are_told() -> None:
    with pytest.raises(ValueError, match=r"data\.problems\.b: its target is 'pubs', the first problem's is 'spas'"):
        several({"a": problem("hotels", *"abc"), "b": problem("bars", *"def", target="pubs")})
    with pytest.raises(ValueError, match=r"data\.problems is empty: give problems with the same target"):
        make(compose("train", ["data=several"]).data)


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True).map(tuple), max_size=4))
def test_ids_stay_unless_two_parts_share_one_and_are_unique_then(parts: list[tuple[str, ...]]) -> None:
    given_records = [tuple(Record(name, f"domain {i}", "text") for name in part) for i, part in enumerate(parts)]
    result = joined(given_records, prefixes(given_records))
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
    assert domains.source == "hotels+bars"
    assert (len(domains.source_train), len(domains.source_dev)) == (18, 6)
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


def test_the_example_in_the_yaml_trains(tmp_path: Path, command: Command) -> None:
    for name in ("hotels", "bars", "test"):
        write_csv(tmp_path / f"{name}.csv", records(name, 12, len(name)))
    write_texts(tmp_path / "spas.txt", records("spas", 9, 8))
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
    domains: Domains = make(domadapt.compose("train", overrides).data).with_target_labels(count, share, seed)
    return domains, [r.text for r in domains.source_train if r.domain == domains.target]


def test_more_labels_are_the_fewer_and_some_others(tmp_path: Path) -> None:
    overrides = corpora(tmp_path)
    few, four = with_labels(overrides, 4)
    _, eight = with_labels(overrides, 8)
    _, others = with_labels(overrides, 4, seed=2)
    every, _ = with_labels(overrides, "all")
    assert set(four) < set(eight) and set(four) != set(others)
    assert (few.target_labels, every.target_labels) == (4, 14)  # of 16, two are the ceiling's dev
    assert len({r.id for r in few.source_train}) == len(few.source_train)
    read = domadapt.read(tmp_path / "labelled.jsonl", domain="target").records
    assert set(four) <= {record.text for record in read}


@pytest.mark.parametrize(("share", "times"), [(0.0, 1), (0.2, 3), (0.9, MOST)])
def test_a_few_are_repeated_to_make_their_share(tmp_path: Path, share: float, times: int) -> None:
    _, texts = with_labels(corpora(tmp_path), 2, share=share)  # beside 22 of the source
    assert len(texts) == 2 * times


def test_the_run_says_so(tmp_path: Path) -> None:
    """And that the others change nothing, tests/test_label_lock.py."""
    metrics = trained(tmp_path, "run", "target_labels=all", "trainer.epochs=1")
    assert metrics["counts"]["target_labels"] == 14
    assert len(metrics["counts"]["target_labels_checksum"]) == 16
    assert (metrics["method"], metrics["role"]) == ("source_only+all_labels", "adapted")
    assert metrics["config"]["target_labels"] == "all"


def test_they_are_never_of_the_test(tmp_path: Path) -> None:
    """Where the published test is all that is labelled, the test is what the ceiling leaves of it."""
    data = ["data=amazon_reviews", "data.pair=books_to_dvd", f"data.root={amazon_corpus(tmp_path)}"]
    session, sealed = build(domadapt.compose("train", [*data, "backbone=tiny_random", "target_labels=all"]))
    learnt = {r.text for r in session.domains.source_train if r.domain == "dvd"}
    assert learnt and not learnt & {record.text for record in sealed.open()}
