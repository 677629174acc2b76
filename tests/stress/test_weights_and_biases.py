"""What W&B is left with, read back by its own tools; each test in processes of their own, as W&B keeps to a process."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.support import corpora, write_jsonl

pytest.importorskip("wandb")
KEY = "0123456789abcdef0123456789abcdef01234567"
GIVEN = "fedcba9876543210fedcba9876543210fedcba98"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Without anything of W&B's but what a test gives."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    waits = {"WANDB__SERVICE_WAIT": "3600"}  # seconds for W&B's own service to begin: a busy machine is slow, not wrong
    return kept | waits | {"HOME": str(folder), "WANDB_ERROR_REPORTING": "false", **more}


def wandb(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "wandb", *arguments], env=environment(folder), capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def records(folder: Path, run: Path) -> list[dict[str, Any]]:
    """Everything in a run's file, as W&B reads it."""
    return [json.loads(line) for line in wandb(folder, "leet", "inspect", "--json", str(run)).splitlines()]


def of(kind: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record[kind] for record in found if record["type"] == kind]


def script(folder: Path, code: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Follow a short run that some code spoils."""
    head = f"""
        import logging, os, signal
        from pathlib import Path
        from dataclasses import replace
        from domadapt.tracking.tracker import Run, TrackerLogger
        from domadapt.tracking.weights_and_biases import WeightsAndBiases
        logging.basicConfig(format="%(message)s")
        folder = Path({str(folder)!r})
        run = Run("a_to_b", "lisa", 1, "0" * 16, 1, {{"seed": 1}}, folder / "run", folder)
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(code)],
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


FOLLOW = """
    begin, finish = globals().get("patience", (3600, 3600))  # seconds, short where a server is waited for in vain
    tracker = WeightsAndBiases(mode=mode, init_timeout=begin, finish_timeout=finish, every=1)
    watch = TrackerLogger([tracker])
    watch.tell(lambda one: one.start(run))
    for step in range(1, steps):
        watch.log_metrics({"source_dev/span_f1": 0.5, "pad": "x" * 1000}, step)
    watch.metrics = {"target_test": {"span_f1": 0.25}}
    watch.close()
"""


def test_a_sweep_leaves_an_offline_run_a_cell_and_no_secret(tmp_path: Path) -> None:
    given = [o for o in corpora(tmp_path) if "epochs" not in o]
    secret, theirs = (
        f"+tracking.api_key={GIVEN}",
        {"WANDB_PROJECT": "theirs", "WANDB_NOTES": "a note", "WANDB_TAGS": "a,b"},
    )
    sweep = ["train", "-m", *given, "trainer.epochs=2", f"paths.cache={tmp_path}/cache", "seed=1,2"]
    done = subprocess.run(
        [sys.executable, "-m", "domadapt", *sweep, *["tracking=wandb_offline", "tracking.tags=[mine]"], secret],
        env=environment(tmp_path, WANDB_API_KEY=KEY, MY_PASSWORD=KEY[::-1], **theirs),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    runs = sorted((tmp_path / "runs/wandb").glob("offline-run-*"))
    results = {m["seed"]: m for m in (json.loads(p.read_text()) for p in tmp_path.rglob("metrics.json"))}
    assert len(runs) == len(results) == 2
    for run in runs:
        found = records(tmp_path, run)
        about = of("run", found)[0]
        metrics = results[about["config"]["update"]["seed"]]
        assert about["run_group"] == "source_to_target"
        assert about["job_type"] == "source_only"
        assert about["display_name"] == f"source_to_target/source_only/seed={metrics['seed']}"
        assert about["run_id"].startswith(metrics["key"])
        assert about["config"]["update"]["data"]["source"]["path"] == "~/source.jsonl"
        history = [line["item"] for line in of("history", found)]
        scores = [line["eval/span_f1"] for line in history if "eval/span_f1" in line]
        assert scores == pytest.approx([line["source_dev"]["span_f1"] for line in metrics["curve"]])
        assert {"train/loss", "train/learning_rate", "train/texts_per_second"} <= history[0].keys()
        assert [line["score"] for line in history if "score" in line] == scores  # the validator's value
        assert {"source_only", "tiny_random", "mine", "a", "b"} == set(about["tags"])
        assert (about["project"], about["notes"]) == ("theirs", "a note")
        table = next(run.rglob("media/**/predictions*.json"))
        assert json.loads(table.read_text())["columns"] == ["text", "gold", "predicted", "confidence"]
        summary = json.loads(wandb(tmp_path, "leet", "inspect", "--summary", "--json", str(run)))
        assert summary["state"] == "finished"
        assert summary["summary"]["target_test/span_f1"] == pytest.approx(metrics["target_test"]["span_f1"])
        chosen = metrics["curve"][metrics["selection"]["epoch"] - 1]
        assert summary["summary"]["score"] == pytest.approx(chosen["selection"])
        assert of("files", found)
        assert socket.gethostname() not in str(found) and not list(run.rglob("requirements.txt"))
        assert metrics["config"]["tracking"]["api_key"] == "[hidden]"
    assert "Would sync 2 run(s)" in wandb(tmp_path, "sync", "--dry-run", "--yes", *map(str, runs))
    printed = done.stdout + done.stderr
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(written) > 20
    for secret in (KEY, GIVEN, KEY[::-1]):
        assert secret not in printed
        assert [path for path, content in written.items() if secret.encode() in content] == []


def test_of_classes_all_texts_are_in_the_confusion_matrix(tmp_path: Path) -> None:
    labels = [("bad", "good"), ("bad", "bad"), ("good", "good"), ("good", "good"), ("bad", "good")]
    rows = [
        {"text": f"number {i}", "gold": {"label": gold}, "predicted": {"label": predicted}, "confidence": 0.75}
        for i, (gold, predicted) in enumerate(labels)
    ]
    write_jsonl(tmp_path / "run" / "predictions.jsonl", rows)
    done = script(
        tmp_path,
        """
        tracker = WeightsAndBiases(mode="offline", predictions=2)
        tracker.start(run)
        tracker.end({"target_test": {"accuracy": 0.6}})
        """,
    )
    assert done.stderr == ""
    (run,) = (tmp_path / "wandb").glob("offline-run-*")
    shown = json.loads(next(run.rglob("media/**/predictions*.json")).read_text())
    assert shown["data"] == [["number 0", "bad", "good", 0.75], ["number 1", "bad", "bad", 0.75]]
    matrix = json.loads(next(run.rglob("media/**/confusion*.json")).read_text())
    counts = {(actual, predicted): count for actual, predicted, count in matrix["data"]}
    assert counts == {("bad", "bad"): 1, ("bad", "good"): 2, ("good", "bad"): 0, ("good", "good"): 2}


def test_predictions_of_an_unlabelled_target_are_shown(tmp_path: Path) -> None:
    spans = [{"start": 0, "end": 6, "type": "aspect", "text": "number", "confidence": 0.5}]
    for name, rows, shown in (
        ("spans", [{"id": "1", "text": "number 1", "spans": spans}], ["number 1", "aspect: number", None]),
        ("classes", [{"id": "1", "text": "1", "label": "good", "confidence": 0.5}], ["1", "good", 0.5]),
    ):
        home = tmp_path / name
        write_jsonl(home / "run" / "predictions.jsonl", rows)
        code = """
            tracker = WeightsAndBiases(mode="offline", predictions=2)
            tracker.start(run)
            tracker.end({"target_test": None})
        """
        assert script(home, code).stderr == ""
        table = json.loads(next(home.rglob("media/**/predictions*.json")).read_text())
        assert (table["columns"], table["data"]) == (["text", "predicted", "confidence"], [shown])


def test_wandb_is_imported_only_if_asked_for(tmp_path: Path) -> None:
    code = f"""
        import sys, domadapt
        domadapt.train({[*corpora(tmp_path), f"paths.cache={tmp_path}/cache", "tracking=csv", "trainer.epochs=1"]!r})
        from domadapt.benchmarking import loop
        print(sorted({{"wandb", "mlflow"}} & set(sys.modules)))
    """
    done = script(tmp_path, code.replace("        ", "    "))
    assert "WeightsAndBiases" not in done.stderr
    assert done.stdout.strip().endswith("[]"), done.stderr


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        ("mode, steps = 'online', 3", "no key (set WANDB_API_KEY, or `wandb login`); runs are kept offline in"),
        (
            f"mode, steps, patience = 'online', 3, (2, 3600); os.environ.update(WANDB_API_KEY={KEY!r}, WANDB_BASE_URL='http://127.0.0.1:9')",
            "connection refused; runs are kept offline in",
        ),
    ],
    ids=["no key", "no server"],
)
def test_trouble_is_told_once_and_stops_nothing(tmp_path: Path, spoil: str, told: str) -> None:
    done = script(tmp_path, spoil + textwrap.dedent(FOLLOW) + "print('the run went on')")
    assert done.stdout == "the run went on\n", done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert KEY not in done.stderr
    if "kept offline" in told:
        (run,) = (tmp_path / "wandb").glob("offline-run-*")
        assert of("exit", records(tmp_path, run))


def test_wandb_can_be_turned_off(tmp_path: Path) -> None:
    done = script(tmp_path, "mode, steps = 'online', 3" + textwrap.dedent(FOLLOW), WANDB_MODE="disabled")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "wandb").exists()


def test_a_server_that_goes_away_leaves_the_run_on_disk(tmp_path: Path) -> None:
    """It answers what a run needs to begin, and nothing after."""
    server = """
        import http.server, json, threading
        class Server(http.server.BaseHTTPRequestHandler):
            def log_message(self, *a): pass
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                project = {"name": "p", "entity": {"name": "e"}}
                bucket = {"id": "x", "name": asked["variables"]["name"], "displayName": "n", "project": project}
                begun = "upsertBucket" in asked["query"]
                body = {"upsertBucket": {"bucket": bucket, "inserted": True}} if begun else {"model": None}
                self.send_response(200); self.end_headers(); self.wfile.write(json.dumps({"data": body}).encode())
                if begun: threading.Thread(target=gone).start()
        serving = http.server.HTTPServer(("127.0.0.1", 0), Server)
        def gone(): serving.shutdown(); serving.server_close()
        threading.Thread(target=serving.serve_forever).start()
        os.environ["WANDB_BASE_URL"] = f"http://127.0.0.1:{serving.server_port}"
        mode, steps, patience = "online", 3, (3600, 2)
    """
    code = textwrap.dedent(server) + textwrap.dedent(FOLLOW) + "print('the run went on')"
    done = script(tmp_path, code, WANDB_API_KEY=KEY)
    assert done.stdout == "the run went on\n", done.stderr
    assert "W&B has not taken everything: `wandb sync --include-online " in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    (run,) = (tmp_path / "wandb").glob("run-*")
    assert len(of("history", records(tmp_path, run))) == 2


KILLED = """
    import time
    (kept,) = folder.glob("wandb/offline-run-*/*.wandb")
    while kept.read_bytes().count(b"span_f1") < 2:  # both steps are on the disk
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_goes_on_under_its_id(tmp_path: Path) -> None:
    follow = "mode, steps = 'offline', 3" + textwrap.dedent(FOLLOW)
    killed = follow.partition("watch.finish")[0] + textwrap.dedent(KILLED)
    assert script(tmp_path, killed).returncode == -signal.SIGKILL
    assert script(tmp_path, follow).stderr == ""
    first, second = sorted((tmp_path / "wandb").glob("offline-run-*"))
    before, after = records(tmp_path, first), records(tmp_path, second)
    assert of("run", before)[0]["run_id"] == of("run", after)[0]["run_id"]
    assert [len(of("history", found)) for found in (before, after)] == [2, 2]
    assert "Would sync 2 run(s)" in wandb(tmp_path, "sync", "--dry-run", "--yes", str(first), str(second))


def test_a_run_that_fails_is_marked_and_its_model_is_kept_if_asked(tmp_path: Path) -> None:
    (tmp_path / "run/model").mkdir(parents=True)
    (tmp_path / "run/model/weights").write_bytes(b"1")
    done = script(
        tmp_path,
        """
        for metrics in ({"target_test": None}, None):
            tracker = WeightsAndBiases(mode="offline", models=True)
            tracker.start(replace(run, folder=folder / "run") if metrics else replace(run, folder=folder / "failed"))
            tracker.end(metrics)
        """,
    )
    assert done.stderr == ""
    kept, failed = (
        records(tmp_path, run) for run in sorted((tmp_path / "wandb").glob("offline-run-*"), key=os.path.getmtime)
    )
    codes = sorted(of("exit", found)[0].get("exit_code", 0) for found in (kept, failed))
    assert codes == [0, 1]
    artifacts = [*of("artifact", kept), *of("artifact", failed)]
    assert [(a["type"], a["name"]) for a in artifacts] == [("model", "model-" + "0" * 16)]
