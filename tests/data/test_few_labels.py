"""A few target labels, given openly: from the training part, as many as asked for, told everywhere, the rest locked."""

import json
from pathlib import Path
from typing import Any

import pytest

import domadapt
from domadapt.config.compose import make
from domadapt.data.domains import MOST, Domains, SealedTest
from domadapt.runs.key import cell_key
from domadapt.training.build import build
from tests.support import amazon_corpus, corpora, records, write_jsonl
from tests.trouble import weights


def given(overrides: list[str], count: int | str, seed: int = 1, share: float = 0.2) -> tuple[Domains, list[str]]:
    """The problem with some target labels, and the texts that carry them."""
    domains: Domains = make(domadapt.compose("train", overrides).data).with_target_labels(count, share, seed)
    return domains, [r.text for r in domains.source_train if r.domain == domains.target]


def test_more_labels_are_the_fewer_and_some_others(tmp_path: Path) -> None:
    overrides = corpora(tmp_path)
    few, four = given(overrides, 4)
    _, eight = given(overrides, 8)
    _, others = given(overrides, 4, seed=2)
    every, _ = given(overrides, "all")
    assert set(four) < set(eight) and set(four) != set(others)
    assert (few.target_labels, every.target_labels) == (4, 14)  # of 16, two are the ceiling's dev
    assert len({r.id for r in few.source_train}) == len(few.source_train)
    read = domadapt.read(tmp_path / "labelled.jsonl", domain="target").records
    assert set(four) <= {record.text for record in read}


@pytest.mark.parametrize(("share", "times"), [(0.0, 1), (0.2, 3), (0.9, MOST)])
def test_a_few_are_repeated_to_make_their_share(tmp_path: Path, share: float, times: int) -> None:
    _, texts = given(corpora(tmp_path), 2, share=share)  # beside 22 of the source
    assert len(texts) == 2 * times


def test_the_run_says_so_and_other_target_labels_change_nothing(tmp_path: Path) -> None:
    metrics: list[dict[str, Any]] = []
    for name in ("true", "scrambled"):
        folder = tmp_path / name
        overrides = [*corpora(folder), "target_labels=all", f"paths.cache={folder}/cache", f"paths.run={folder}/run"]
        if name == "scrambled":
            for file, rows in (("target", records("laptop", 20, 5)), ("test", records("laptop", 12, 6))):
                other = [row | {"spans": [{"start": 0, "end": 3, "type": "opinion"}]} for row in rows]
                write_jsonl(folder / f"{file}.jsonl", other)
        metrics.append(domadapt.train(overrides))
    assert weights(tmp_path / "true" / "run") == weights(tmp_path / "scrambled" / "run")
    assert metrics[0]["target_test"] != metrics[1]["target_test"]
    assert metrics[0]["counts"]["target_labels"] == 14
    assert len(metrics[0]["counts"]["target_labels_checksum"]) == 16
    assert (metrics[0]["method"], metrics[0]["role"]) == ("source_only+all_labels", "adapted")
    told = json.loads((tmp_path / "true" / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert told["config"]["target_labels"] == "all"


def test_they_are_never_of_the_test(tmp_path: Path) -> None:
    """Where the published test is all that is labelled, the test is what the ceiling leaves of it."""
    data = ["data=amazon_reviews", "data.pair=books_to_dvd", f"data.root={amazon_corpus(tmp_path)}"]
    session, sealed = build(
        domadapt.compose("train", [*data, "task=classification", "backbone=tiny_random", "target_labels=all"])
    )
    assert isinstance(sealed, SealedTest)
    learnt = {r.text for r in session.domains.source_train if r.domain == "dvd"}
    assert learnt and not learnt & {record.text for record in sealed.open()}


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (
            ["target_labels=15"],
            "target_labels=15: there are 14 labelled training records of 'target'; expected as many",
        ),
        (["target_labels=-1"], "target_labels=-1: expected a whole number from 0, or all"),
        (["target_labels=few"], "target_labels='few': expected a whole number from 0, or all"),
        (
            ["target_labels=1", "target_label_share=1.0"],
            "target_label_share=1.0: expected a number from 0 to less than",
        ),
        (["target_labels=1", "data.target.train_path=null"], "there is no labelled training data for 'target'; give"),
        (["target_labels=1", "train_on=target"], "train_on=target trains on all of them; leave one of the two out"),
    ],
)
def test_what_can_not_be_given_is_told(tmp_path: Path, own: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=f"^.*{told}"):
        build(domadapt.compose("train", [*corpora(tmp_path), *own]))


def test_their_number_is_part_of_the_key(tmp_path: Path) -> None:
    overrides = corpora(tmp_path)
    keys = {cell_key(domadapt.compose("train", [*overrides, f"target_labels={n}"])) for n in (0, 1, 2)}
    assert len(keys) == 3
