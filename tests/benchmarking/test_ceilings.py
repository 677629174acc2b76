"""In-domain ceilings are trained once for all pairs with the same target, and only for these."""

import json
from pathlib import Path
from typing import Any

import pytest

import domadapt
from domadapt.data.domains import SealedTest
from domadapt.data.records import Record
from tests.support import corpora, records, write_jsonl


def ceiling(folder: Path, source: str, *more: str, cache: str = "cache") -> tuple[dict[str, Any], Path]:
    """Its metrics and its run folder, for a pair of this source and the one target."""
    if not (folder / f"{source}.jsonl").exists():
        corpora(folder)
        write_jsonl(folder / f"{source}.jsonl", records(source, 24, len(source)))
    run = folder / cache / f"{source}-run"
    given = [*corpora_of(folder, source), "train_on=target", f"paths.run={run}", f"paths.cache={folder}/{cache}", *more]
    return domadapt.train(given), run


def corpora_of(folder: Path, source: str) -> list[str]:
    kept = [o for o in corpora(folder) if not o.startswith("data.source.")]
    return [*kept, f"data.source.path={folder}/{source}.jsonl", f"data.source.name={source}", "trainer.epochs=1"]


def test_two_pairs_with_one_target_train_one_ceiling(tmp_path: Path) -> None:
    first, first_run = ceiling(tmp_path, "camera")
    second, second_run = ceiling(tmp_path, "phone")
    alone, alone_run = ceiling(tmp_path, "phone", cache="another_cache")
    assert "copied_from" not in first and "copied_from" not in alone
    assert second["copied_from"] == str(first_run)
    assert (first["source"], second["source"], alone["source"]) == ("camera", "phone", "phone")
    # It is what would have come of training.
    assert second["key"] == alone["key"] != first["key"]
    for name in ("target_test", "target_test_clean", "source_dev", "selection", "calibration", "counts", "role"):
        assert second[name] == alone[name], name
    for name in ("predictions.jsonl", "model/encoder/model.safetensors", "model/domadapt.json"):
        assert (second_run / name).read_bytes() == (alone_run / name).read_bytes(), name
    assert "fit" in first["seconds"] and "fit" not in second["seconds"]
    assert json.loads((second_run / "metrics.json").read_text())["config"]["data"]["source"]["name"] == "phone"


@pytest.mark.parametrize("changed", ["test.jsonl", "labelled.jsonl", "target.jsonl", "seed", "deleted", "damaged"])
def test_what_would_change_the_ceiling_is_not_taken(
    tmp_path: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first_run = ceiling(tmp_path, "camera")
    more = []
    if changed == "seed":
        more = ["seed=2"]
    elif changed == "deleted":
        (first_run / "metrics.json").unlink()
    elif changed == "damaged":
        with (first_run / "model" / "encoder" / "model.safetensors").open("r+b") as weights:
            weights.seek(-4, 2)
            weights.write(b"\0\0\0\0")
    else:
        written = write_jsonl

        def write(path: Path, rows: list[dict[str, Any]]) -> Path:
            return written(path, rows[:-1] if path.name == changed else rows)

        monkeypatch.setattr("tests.support.write_jsonl", write)
    second, _ = ceiling(tmp_path, "phone", *more)
    assert "copied_from" not in second


def test_a_fingerprint_opens_no_test() -> None:
    rows = (Record("1", "laptop", "Fast.", label="positive"),)
    tests = [SealedTest("laptop", lambda label=label: (Record("1", "laptop", "Fast.", label=label),)) for label in "ab"]
    assert tests[0].fingerprint() != tests[1].fingerprint()
    test = SealedTest("laptop", lambda: rows)
    assert test.fingerprint() == SealedTest("laptop", lambda: rows).fingerprint()
    assert test.open() == rows
