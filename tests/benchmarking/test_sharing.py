"""What cells share: one network for all targets where nothing reads them, one in-domain ceiling for all sources."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import domadapt
from domadapt.benchmarking.loop import benchmark
from domadapt.config.compose import compose
from domadapt.config.overrides import lengthen
from domadapt.data.domains import SealedTest
from domadapt.data.records import Record
from domadapt.methods.method import Method, Step
from domadapt.training.module import AdaptationModule
from tests.support import corpora, records, write_jsonl


class Shrink(Method):
    """A method of the source alone: small weights."""

    def losses(self, step: Step) -> dict[str, torch.Tensor]:
        return {"shrink": sum((p**2).sum() for p in self.session.encoder.parameters())}


class ReadsTarget(Shrink):
    reads = frozenset({"corpus_parses"})


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry a training step, whatever the run."""
    made: list[int] = []
    real = AdaptationModule.training_step

    def counted(self: AdaptationModule, *args: Any) -> torch.Tensor:
        made.append(self.global_step)
        return real(self, *args)

    monkeypatch.setattr(AdaptationModule, "training_step", counted)
    return made


def run(folder: Path, target: str, *more: str, cache: str = "cache") -> dict[str, Any]:
    """Metrics of a run to one of several targets, the source always the same."""
    given = [o for o in corpora(folder) if not o.startswith("data.target.")]
    for part, shift in (("path", 5), ("test_path", 6)):
        file = write_jsonl(folder / f"{target}-{part}.jsonl", records(target, 20, shift + len(target)))
        given.append(f"data.target.{part}={file}")
    given += [f"data.target.name={target}", "paths.share_networks=true", "trainer.precision=32", "trainer.threads=1"]
    given.append("trainer.regret=true")
    return domadapt.train([*given, f"paths.cache={folder}/{cache}", f"paths.run={folder}/{cache}-{target}", *more])


def method(name: str) -> str:
    return f"+injection.shrink={{_target_: {__name__}.{name}, weights: {{shrink: 0.001}}}}"


@pytest.mark.parametrize("more", [[], [method("Shrink")]], ids=["no method", "a method of the source"])
def test_two_targets_train_one_network_and_have_own_scores(tmp_path: Path, steps: list[int], more: list[str]) -> None:
    first = run(tmp_path, "laptop", *more)
    trained = len(steps)
    second = run(tmp_path, "phone", *more)
    assert trained and len(steps) == trained, "the second target trains nothing"
    alone = run(tmp_path, "phone", *more, cache="another")
    assert len(steps) == 2 * trained
    assert first["training"] == second["training"] == alone["training"]
    for one, other in zip(first["curve"], second["curve"], strict=True):
        assert one["losses"] == other["losses"] and one["source_dev"] == other["source_dev"]
        assert one["validators"]["entropy"] != other["validators"]["entropy"], "on its own target text"
    files = [tmp_path / name / "model/encoder/model.safetensors" for name in ("cache-laptop", "cache-phone")]
    weights = [load_file(file) for file in files]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    # It is what would have come of training.
    for name in ("curve", "selection", "target_test", "target_test_clean", "source_dev", "calibration", "counts"):
        assert second[name] == alone[name], name
    assert "fit" in first["seconds"] and "fit" not in second["seconds"]


@pytest.mark.parametrize("more", [["adaptation=masked_lm"], [method("ReadsTarget")], ["paths.share_networks=false"]])
def test_what_reads_the_target_is_trained_for_every_target(tmp_path: Path, steps: list[int], more: list[str]) -> None:
    first = run(tmp_path, "laptop", *more)
    trained = len(steps)
    second = run(tmp_path, "phone", *more)
    assert len(steps) == 2 * trained
    shared = "share_networks" not in more[0]
    assert (first["training"] is None) == shared == (second["training"] is None)
    assert len(list((tmp_path / "cache").glob("network-*"))) == 4 * shared


@pytest.mark.parametrize("changed", ["seed", "source", "damaged"])
def test_another_network_is_not_taken(tmp_path: Path, steps: list[int], changed: str, monkeypatch: Any) -> None:
    first = run(tmp_path, "laptop")
    trained, more = len(steps), []
    if changed == "seed":
        more = ["seed=2"]
    elif changed == "source":
        monkeypatch.setattr("tests.support.OPINIONS", ["fine", "dull", "superb", "weak", "lovely"])
    else:
        [*_, last] = sorted((tmp_path / "cache").glob("network-*"))
        last.write_bytes(last.read_bytes()[:-100])
    second = run(tmp_path, "phone", *more)
    assert len(steps) == 2 * trained
    assert (second["training"] == first["training"]) == (changed == "damaged")


def repaired(folder: Path, *more: str, cache: str) -> dict[str, Any]:
    """Metrics of a run with its own folder, as paths name it by its key."""
    given = [*corpora(folder), "trainer.threads=1", "task=classification", f"paths.cache={folder}/{cache}"]
    return domadapt.train([*given, f"paths.runs={folder}/{cache}-runs", *more])


@pytest.mark.parametrize("method", ["", "adaptation=masked_lm", "train_on=target"])
def test_a_repaired_test_needs_no_training(tmp_path: Path, steps: list[int], monkeypatch: Any, method: str) -> None:
    more = [method] if method else []
    share = ["paths.share_networks=true"]
    before = repaired(tmp_path, *more, *share, cache="cache")
    trained = len(steps)
    mended = records("laptop", 12, 6)
    mended[0]["label"] = "negative" if mended[0]["label"] == "positive" else "positive"
    monkeypatch.setattr("tests.support.records", lambda name, n, by=0: mended if n == 12 else records(name, n, by))
    scored = repaired(tmp_path, *more, *share, cache="cache")
    assert trained and len(steps) == trained
    assert len(list((tmp_path / "cache").glob("network-*-epoch=*"))) == 2
    alone = repaired(tmp_path, *more, cache="another")
    assert len(steps) == 2 * trained
    assert before["target_test"] != scored["target_test"]
    for name in ("curve", "selection", "target_test", "target_test_clean", "source_dev", "calibration", "key"):
        assert scored[name] == alone[name], name


def test_benchmarks_of_several_pairs_share_unasked(tmp_path: Path) -> None:
    run(tmp_path, "laptop", "paths.share_networks=null")
    assert not list((tmp_path / "cache").glob("network-*"))
    run(tmp_path, "phone", "paths.share_networks=null", "+benchmark.pairs=[a,b]")
    assert len(list((tmp_path / "cache").glob("network-*"))) == 2


def test_a_benchmark_that_is_over_leaves_no_network_in_the_cache(tmp_path: Path) -> None:
    """Each epoch's weights are shared by its pairs, and of no use after them."""
    pairs = 'benchmark.pairs=["data.target.name=laptop","data.target.name=phone"]'
    given = [*corpora(tmp_path), "experiment=my_matrix", "benchmark.seeds=[1]", "benchmark.only=[source_only]", pairs]
    given += [f"paths.cache={tmp_path}/cache", "paths.share_networks=true"]
    overrides = [lengthen(override) for override in given]
    done = benchmark(compose("benchmark", overrides), overrides)
    assert len(done) == 2 and done[0]["training"] == done[1]["training"]
    assert "fit" not in done[1]["seconds"], "the second took it from the first"
    assert not list((tmp_path / "cache").glob("network-*"))


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
def test_what_would_change_the_ceiling_is_not_taken(tmp_path: Path, changed: str, monkeypatch: Any) -> None:
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
