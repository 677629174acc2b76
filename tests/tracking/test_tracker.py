"""Training and its tracker: the same numbers with and without, and no failure of the one is one of the other."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

import domadapt
from domadapt.config.compose import to_builtin
from domadapt.tracking.tracker import Content, LightningTracker, Run, Tracker, describe, make_trackers, tracking
from tests.support import corpora, read_csv, trained

WEIGHTS = "model/encoder/model.safetensors"
TARGET = f"{LightningTracker.__module__}.LightningTracker"


class Fake(Tracker):
    """Remembers what it is told, and fails where it is asked to."""

    heard: list[Any]

    def __init__(self, fails: Sequence[str] = ()) -> None:
        super().__init__(every=2)
        self.fails = fails
        type(self).heard = []

    def start(self, run: Run) -> None:
        self._hear("start", run)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._hear("log", (step, dict(metrics)))

    def end(self, metrics: Content | None) -> None:
        self._hear("end", metrics)

    def _hear(self, what: str, content: Any) -> None:
        self.heard.append((what, content))
        if what in self.fails:
            raise OSError(28, "No space left on device")


def numbers(metrics: Content) -> Content:
    """What must not depend on who watches."""
    config = {k: v for k, v in metrics["config"].items() if k not in ("tracking", "paths")}
    return {**metrics, "config": config, "seconds": None, "written": None}


def test_a_tracker_hears_everything_and_changes_nothing(tmp_path: Path) -> None:
    plain = trained(tmp_path, "plain")
    watched = trained(tmp_path, "watched", f"+tracking._target_={Fake.__module__}.Fake")
    fake = Fake.heard
    in_files = trained(tmp_path, "csv", "tracking=csv")
    assert numbers(plain) == numbers(watched) == numbers(in_files)
    weights = [(tmp_path / name / WEIGHTS).read_bytes() for name in ("plain", "watched", "csv")]
    assert weights[0] == weights[1] == weights[2]

    kinds = [kind for kind, _ in fake]
    assert (kinds[0], kinds[-1]) == ("start", "end")
    run = fake[0][1]
    assert (run.name, run.method, run.key) == ("source_to_target/source_only/seed=1", "source_only", plain["key"])
    told = [content for kind, content in fake if kind == "log"]
    losses = [step for step, metrics in told if "loss/total" in metrics]
    assert losses == list(range(1, plain["curve"][-1]["step"] + 1, 2))
    epochs = [metrics for _, metrics in told if "source_dev/span_f1" in metrics]
    assert [m["source_dev/span_f1"] for m in epochs] == [line["source_dev"]["span_f1"] for line in plain["curve"]]
    assert fake[-1][1] == watched
    names = {name for _, metrics in told for name in metrics}
    assert not [(one, other) for one in names for other in names if other.startswith(f"{one}/")]  # MLflow's are files

    rows = read_csv(tmp_path / "csv/csv/attempt=1/metrics.csv")
    assert float(rows[-1]["final/target_test/span_f1"]) == plain["target_test"]["span_f1"]
    assert sum(bool(row["source_dev/span_f1"]) for row in rows) == len(plain["curve"])


@pytest.mark.parametrize("fails", ["start", "log", "end"])
def test_a_tracker_that_fails_is_told_of_once(tmp_path: Path, fails: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "domadapt.tracking")
    with tracking(_config(tmp_path, fails=[fails]), "0" * 16, tmp_path) as tracker:
        for step in range(1, 6):
            tracker.log_metrics({"source_dev/span_f1": 0.5}, step)
        tracker.metrics = {"target_test": None}
    told = [r.getMessage() for r in caplog.records if r.name.startswith("domadapt.tracking")]
    assert len(told) == 1
    assert "Fake has stopped: OSError: [Errno 28] No space left on device; the run goes on" in told[0]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_run_that_fails_or_is_stopped_is_closed(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), tracking(_config(tmp_path), "0" * 16, tmp_path):
        raise error
    assert Fake.heard[-1] == ("end", None)


def _config(folder: Path, **settings: Any) -> dict[str, Any]:
    target = {"_target_": f"{Fake.__module__}.Fake", **settings}
    cfg = domadapt.compose("train", [*corpora(folder), "tracking=none"])
    OmegaConf.update(cfg, "tracking", target, force_add=True)
    return to_builtin(cfg)


def test_a_run_is_described_without_secrets_and_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MY_TOKEN", "0123456789abcdef")
    cfg = domadapt.compose("train", [*corpora(tmp_path), "+data.source.password=0123456789abcdef", "max_length=16"])
    run = describe(to_builtin(cfg), "0" * 16, tmp_path / "run", 2)
    assert run.config["data"]["source"]["path"] == "~/source.jsonl"
    assert run.config["max_length"] == 16
    assert not {"paths", "tracking"} & run.config.keys()
    assert str(tmp_path) not in str(run.config) and "0123456789abcdef" not in str(run.config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"a": 1}, "expected settings with a _target_"),
        ({"_target_": TARGET, "logger": None, "every": 0}, "tracking.every=0: expected a"),
        (
            {"_target_": "domadapt.tracking.weights_and_biases.WeightsAndBiases", "models": "no"},
            "models='no': expected t",
        ),
        ({"_target_": TARGET, "logger": None, "needs": "nope"}, r"install 'domadapt\[nope\]'"),
    ],
)
def test_something_else_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_trackers(config)


def followed(name: str, home: Path, attempt: int = 1, **settings: Any) -> None:
    """A short run under the tracker of a choice."""
    config = to_builtin(domadapt.compose("train", [*corpora(home), f"tracking={name}"]))["tracking"]
    [tracker] = make_trackers({**config, **settings})
    content = {"seed": 1, "injection": {"lisa": {"layer": 2}}}
    tracker.start(Run("a_to_b", "lisa+gnn", 1, "0" * 16, attempt, content, home / "run", home))
    tracker.log({"loss/total": 2.0, "odd (name)": 1.0}, 1)
    tracker.end({"target_test": {"span_f1": 0.25}, "config": {"seed": 1}, "curve": [{"step": 3}, {"step": 6}]})


def test_several_follow_and_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    cfg = domadapt.compose("train", [*corpora(tmp_path), "tracking=[csv,tensorboard]", "tracking.csv.every=2"])
    config = to_builtin(cfg)
    config["tracking"]["fake"] = {"_target_": f"{Fake.__module__}.Fake", "fails": ["log"]}
    with tracking(config, "0" * 16, tmp_path / "run") as tracker:
        for step in (1, 2, 3):
            tracker.log_metrics({"loss/total": float(step)}, step)
        tracker.metrics = {"target_test": {"span_f1": 0.5}}
    rows = read_csv(next(tmp_path.rglob("metrics.csv")))
    assert [row["loss/total"] for row in rows if row["loss/total"]] == ["1.0", "3.0"]
    assert rows[-1]["final/target_test/span_f1"] == "0.5"
    assert list(tmp_path.rglob("events.out.tfevents*"))


def test_attempts_keep_their_csv_files(tmp_path: Path) -> None:
    followed("csv", tmp_path)
    followed("csv", tmp_path, attempt=2)
    assert sorted(p.parent.name for p in tmp_path.rglob("metrics.csv")) == ["attempt=1", "attempt=2"]
    for path in tmp_path.rglob("metrics.csv"):  # whichever attempt took the last step
        assert [row["step"] for row in read_csv(path)] == ["1", "6"]
    followed("csv", tmp_path, folder=str(tmp_path / "all"))
    assert (tmp_path / "all/a_to_b/lisa+gnn/run/csv/attempt=1/metrics.csv").is_file()


def test_mlflow_reads_what_was_written(tmp_path: Path) -> None:
    tracking_api = pytest.importorskip("mlflow.tracking")
    followed("mlflow", tmp_path)
    followed("mlflow", tmp_path, attempt=2)
    client = tracking_api.MlflowClient((tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("source_to_target")
    second, first = client.search_runs([experiment.experiment_id])
    assert (first.info.run_name, first.info.status) == ("a_to_b/lisa+gnn/seed=1", "FINISHED")
    assert second.info.run_name == "a_to_b/lisa+gnn/seed=1 (attempt 2)"
    assert first.data.metrics == {"loss/total": 2.0, "odd _name_": 1.0, "final/target_test/span_f1": 0.25}
    assert first.data.params == {"seed": "1", "injection/lisa/layer": "2"}
    assert first.data.tags["method"] == "lisa+gnn"
