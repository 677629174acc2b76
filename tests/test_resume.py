"""Runs that were killed, stopped or robbed end with the weights they would have had; full disks, strangers, copies."""

import json
import os
import pickle
import re
import shutil
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import domadapt
from domadapt.runs.groups import read_runs
from domadapt.runs.key import cell_key
from domadapt.runs.status import Busy, read_status
from domadapt.training.build import make_validators, run_config
from domadapt.training.cell import forget_another, train
from domadapt.training.epochs import Epochs, resumable_epochs
from domadapt.training.options import read_options
from domadapt.utils import checkpoint
from domadapt.utils.files import replace_folder
from tests import trouble as troubles
from tests.support import corpora, edit, without_checksums
from tests.trouble import KILL, STOP, MakesFolder, Trouble, join, renamed, run, same_run, start, stopped, wait_until

METHODS = ["adaptation=masked_lm", "injection=[lisa,gnn]", "injection.lisa.layer=1"]
METHODS += ["trainer.regret=true", "trainer.epochs=3", "trainer.threads=1"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora, a warm cache and an undisturbed run ``whole``."""
    folder = tmp_path_factory.mktemp("shared")
    assert run(training(folder, folder / "whole"), folder / "log") == 0
    return folder


def settings_of(shared: Path, *more: str) -> list[str]:
    return [*corpora(shared), *METHODS, f"paths.cache={shared}/cache", *more]


def training(shared: Path, folder: Path, *more: str) -> list[str]:
    return ["train", *settings_of(shared, f"paths.run={folder}", *more)]


def own_cache(shared: Path, folder: Path) -> str:
    """Sets a cache with the parses alone: post-training is part of what is disturbed."""
    shutil.copytree(shared / "cache", folder / "cache", ignore=shutil.ignore_patterns("*masked-lm*"))
    return f"paths.cache={folder}/cache"


def cut(path: Path, mark: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path, mark: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3 * len(content) // 4] ^= 1  # among the numbers, behind the header
    path.write_bytes(content)


def plant(path: Path, mark: Path) -> None:
    path.write_bytes(pickle.dumps(MakesFolder(mark)))


def of_another_key(path: Path, mark: Path) -> None:
    content = checkpoint.load(path)
    content.get("callbacks", {"Epochs": content})["Epochs"]["key"] = "0123456789abcdef"
    checkpoint.save(content, path)


def of_another_version(path: Path, mark: Path) -> None:
    content = checkpoint.load(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", "domadapt checkpoint 1")
        checkpoint.save(content, path)


@pytest.fixture(scope="module")
def half(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed in its third epoch."""
    folder = tmp_path_factory.mktemp("half")
    command = training(shared, folder / "run", own_cache(shared, folder))
    death = Trouble("epoch=3.safetensors", signal=signal.SIGKILL)
    assert run(command, folder / "log", death) == -signal.SIGKILL
    found = {path.name for path in (folder / "run" / "checkpoint").glob("[!.]*")}
    assert found == {"last.safetensors", "epoch=1.safetensors", "epoch=2.safetensors"}
    return folder


DAMAGES = [(cut, "last"), (of_another_key, "last"), (of_another_version, "last")]
DAMAGES += [(damage, name) for damage in (flip, plant) for name in ("last", "epoch=1")]


@pytest.mark.parametrize(("damage", "name"), DAMAGES)
def test_a_damaged_checkpoint_is_told_once_and_nothing_of_it_is_left(
    shared: Path, half: Path, tmp_path: Path, damage: Callable[[Path, Path], None], name: str, caplog: Any
) -> None:
    shutil.copytree(half, tmp_path, dirs_exist_ok=True)
    cfg, folder = domadapt.compose("train", settings_of(shared)), tmp_path / "run"
    validators, options, key = [*make_validators(cfg)], read_options(cfg), read_status(folder)["key"]
    epochs: Any = Epochs(folder / "checkpoint", key, None, validators, options, None)
    assert resumable_epochs(epochs) == 2
    damage(folder / "checkpoint" / f"{name}.safetensors", tmp_path / "mark")
    assert resumable_epochs(epochs) == 0 and epochs.curve == []
    [told] = [message for message in caplog.messages if "can't be resumed" in message]
    assert f"{name}.safetensors" in told and "the run starts over" in told
    assert not (folder / "checkpoint").exists() and not (tmp_path / "mark").exists()


def test_a_checkpoint_without_regret_is_gone_on_with_but_for_regret(shared: Path, half: Path, tmp_path: Path) -> None:
    shutil.copytree(half / "run", tmp_path, dirs_exist_ok=True)
    path, key = tmp_path / "checkpoint" / "last.safetensors", read_status(tmp_path)["key"]
    content = checkpoint.load(path)
    state = content["callbacks"]["Epochs"]
    curve = json.loads(state["curve"])
    for line in curve:
        line["validators"] = {"source_dev": float(line["epoch"])}
    state["curve"] = json.dumps(curve)
    checkpoint.save(content, path)
    (path.parent / "epoch=1.safetensors").unlink()  # only the best one's is kept

    def epochs(regret: str, shared_network: bool = False) -> Any:
        cfg = domadapt.compose("train", settings_of(shared, f"trainer.regret={regret}"))
        validators: Any = [*make_validators(cfg)]
        return Epochs(path.parent, key, None, validators, read_options(cfg), None, shared_network)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"trainer.regret=true: the run .* after epoch 2 was made without it"):
        resumable_epochs(epochs("true"))
    assert resumable_epochs(epochs("false")) == 2
    assert resumable_epochs(sharing := epochs("false", True)) == 2 and not sharing.all_weights


def test_a_stopped_run_is_not_lost_to_another_command_in_its_folder(shared: Path, half: Path, tmp_path: Path) -> None:
    shutil.copytree(half / "run", tmp_path, dirs_exist_ok=True)
    for other in ("seed=7", "trainer.learning_rate=1e-3"):
        with pytest.raises(ValueError, match="holds the checkpoint of another run"):
            domadapt.train(settings_of(shared, f"paths.run={tmp_path}", other))
        with pytest.raises(ValueError, match="holds the checkpoint of another run"):
            forget_another(tmp_path, "0123456789abcdef")
    assert (tmp_path / "checkpoint" / "last.safetensors").is_file()
    same = settings_of(shared, "trainer.checkpoint_seconds=7", "trainer.regret=false")
    assert cell_key(domadapt.compose("train", same)) == read_status(tmp_path)["key"]


def test_a_run_with_a_damaged_checkpoint_starts_over(shared: Path, half: Path, tmp_path: Path) -> None:
    shutil.copytree(half, tmp_path, dirs_exist_ok=True)
    flip(tmp_path / "run" / "checkpoint" / "epoch=1.safetensors", tmp_path)
    assert run(training(shared, tmp_path / "run", f"paths.cache={tmp_path}/cache"), tmp_path / "again") == 0
    assert (tmp_path / "again").read_text().count("can't be resumed") == 1
    same_run(tmp_path / "run", shared / "whole")


STOPS = [
    (Trouble("last.safetensors", 2, signal=signal.SIGINT), 130),
    (Trouble("last.safetensors", 3, signal=signal.SIGTERM), 130),  # Lightning takes it for itself
    (Trouble("predictions.jsonl", signal=signal.SIGINT), 130),
    (Trouble("predictions.jsonl", signal=signal.SIGTERM), -signal.SIGTERM),
]


@pytest.mark.parametrize(("stop", "code"), STOPS)
def test_stopped_then_resumed(shared: Path, tmp_path: Path, stop: Trouble, code: int) -> None:
    """Ctrl-C and kill: no result from half-trained weights, one line, and the same weights in the end."""
    folder = tmp_path / "run"
    command = training(shared, folder, own_cache(shared, tmp_path))
    assert run(command, tmp_path / "log", stop) == code
    lines = (tmp_path / "log").read_text().splitlines()
    assert not any("Traceback" in line for line in lines)
    assert code < 0 or lines[-1].startswith(
        "domadapt train: stopped; the same command goes on from finished runs and from checkpoints"
    )
    assert not (folder / "metrics.json").exists()
    assert (folder / "checkpoint" / "epoch=1.safetensors").is_file()
    assert code < 0 or read_status(folder)["stage"] == "stopped"
    assert run(command, tmp_path / "again") == 0
    assert ": resumed after epoch" in (tmp_path / "again").read_text()
    assert json.loads((folder / "metrics.json").read_text())["attempts"] == 2
    same_run(folder, shared / "whole")


def read(folder: Path) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return metrics


FULL = [  # what is put in place when the disk fills up, and what can't be written after it
    (Trouble("last.safetensors", file_size=50_000), "epoch=2.safetensors"),
    (Trouble("epoch=3.safetensors", file_size=50_000), "last.safetensors"),
    (Trouble("last.safetensors", file_size=50_000), "model"),
    (Trouble("model", file_size=1_000), "predictions.jsonl"),
    (Trouble("predictions.jsonl", file_size=1_000), "metrics.json"),
]


def test_a_copy_that_meets_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    def copy(_: Path) -> None:
        raise shutil.Error([("a", "b", "[Errno 28] No space left on device: 'a' -> 'b'")])

    with pytest.raises(OSError, match=r"guided: could not be written \(No space left on device\); free space and run"):
        replace_folder(tmp_path / "guided", copy)


def test_of_two_that_replace_a_folder_at_once_one_is_left_whole(tmp_path: Path) -> None:
    both, to = threading.Barrier(2), tmp_path / "exported"

    def write(folder: Path, name: str) -> None:
        folder.mkdir()
        both.wait(timeout=60)
        (folder / name).write_text(name)
        both.wait(timeout=60)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: replace_folder(to, lambda folder: write(folder, name)), "ab"))
    assert [path.name for path in to.iterdir()] in (["a"], ["b"]) and [*tmp_path.iterdir()] == [to]


def test_a_full_disk_loses_no_epoch(shared: Path, tmp_path: Path) -> None:
    """One run meets five full disks; each time one line says what to do, and it goes on from there."""
    for attempt, (trouble, name) in enumerate(FULL):
        log = tmp_path / f"{attempt}.log"
        assert run(training(shared, tmp_path / "run"), log, trouble) == 2
        line = log.read_text().splitlines()[-1]
        assert f"{name}: could not be written (File too large); free space and run the same command again" in line
        assert line.endswith("; free space and run the same command again") and "Traceback" not in log.read_text()
        assert read_status(tmp_path / "run")["stage"] == "failed"
        assert attempt == 0 or f"resumed after epoch {min(attempt, 3)}" in log.read_text()
    assert run(training(shared, tmp_path / "run"), tmp_path / "log") == 0
    assert read(tmp_path / "run")["attempts"] == len(FULL) + 1
    same_run(tmp_path / "run", shared / "whole")


def test_a_cache_on_a_full_disk_is_told_in_one_line(shared: Path, tmp_path: Path) -> None:
    command = [*training(shared, tmp_path / "run"), f"paths.cache={tmp_path}/cache"]
    assert run(command, tmp_path / "log", Trouble("status.json", 1, file_size=10_000)) == 2
    line = (tmp_path / "log").read_text().splitlines()[-1]
    assert "sqlite: could not be used" in line and "free space" in line


def test_killed_between_the_result_and_tidying_up(shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(shared / "whole", folder)
    (folder / "checkpoint").mkdir()
    (folder / "status.json").write_text(json.dumps(STATUS))
    (folder / "metrics.json").touch()
    before = (folder / "metrics.json").stat().st_mtime_ns
    assert run(training(shared, folder), tmp_path / "log") == 0
    assert (folder / "metrics.json").stat().st_mtime_ns == before
    same_run(folder, shared / "whole")


STATUS = {"key": "", "process": 1, "host": "h", "attempts": 3, "seconds": {"fit": 1.0}, "updated": 1.0}


def test_a_status_of_another_version_is_ignored_and_its_results_are_read(shared: Path, tmp_path: Path) -> None:
    key = {"key": cell_key(domadapt.compose("train", settings_of(shared)))}
    others = ({"seconds": 4.0}, {"seconds": {"fit": "4"}}, {"host": None})
    for content in (*(STATUS | key | other for other in others), {"stage": "fit"} | key, []):
        (tmp_path / "status.json").write_text(json.dumps(content))
        assert read_status(tmp_path) == {}
    (tmp_path / "status.json").write_text(json.dumps(STATUS | key))
    assert read_status(tmp_path)["attempts"] == 3
    shutil.copy(Path(__file__).with_name("runs") / "finished_run.json", tmp_path / "metrics.json")
    assert len(read_runs(tmp_path).runs) == 1 and not read_runs(tmp_path).skipped


def test_nothing_stays_of_an_attempt_at_another_run(tmp_path: Path) -> None:
    """Of a network that was killed before its result, whose folder then takes rules: they have no model, nor a card."""
    labels, answers = tmp_path / "fifty_to_label.csv", "id,text,label\n1,Sharp.,positive\n"
    for name in (labels.name, "card.json", "predictions.jsonl"):
        (tmp_path / name).write_text(answers)
    (tmp_path / "model" / "encoder").mkdir(parents=True)
    (tmp_path / "status.json").write_text(json.dumps(STATUS))
    domadapt.train([*corpora(tmp_path / "data"), "rule_baseline=path_rules", f"paths.run={tmp_path}"])
    assert not (tmp_path / "model").exists() and not (tmp_path / "card.json").exists()
    assert (tmp_path / "predictions.jsonl").read_text() != answers
    assert not labels.exists() and labels.with_name(f"before.{labels.name}").read_text() == answers


def test_files_of_somebody_else_are_not_deleted(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domadapt.training.build.refuse_early", None)  # comes before the source-only network
    own = tmp_path / "model" / "thesis.tex"
    own.parent.mkdir()
    own.touch()
    with pytest.raises(ValueError, match=r"thesis.tex: not written by domadapt, which replaces model/"):
        domadapt.train(settings_of(shared, "adaptation=recipe", "trainer.epochs=4", f"paths.run={tmp_path}"))
    assert own.exists()
    for name in ("predictions.jsonl", "card.md", "model"):
        file = tmp_path / name.partition(".")[0] / "folder" / name
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        with pytest.raises(ValueError, match=rf"{name}: not written by domadapt, which replaces it"):
            domadapt.train(settings_of(shared, "adaptation=recipe", "trainer.epochs=4", f"paths.run={file.parent}"))
        assert file.read_text() == "mine"


def test_a_run_whose_folder_is_deleted_stops(shared: Path, tmp_path: Path) -> None:
    """Another process could by then have begun the same run in a new folder of that name."""
    process = start(training(shared, tmp_path / "run"), tmp_path / "log", Trouble("status.json", 3, signal=STOP))
    wait_until(lambda: stopped(process), "the beginning of training")
    (tmp_path / "run").rename(tmp_path / "away")
    (tmp_path / "run").mkdir()
    os.kill(int(process.pid or 0), signal.SIGCONT)
    assert join(process) == 2
    assert "was deleted or replaced meanwhile" in (tmp_path / "log").read_text()
    assert not (tmp_path / "run" / "metrics.json").exists()


@pytest.mark.parametrize(("moment", "killed"), [("last.safetensors", False), ("epoch=2.safetensors", True)])
def test_of_two_processes_on_one_run_the_second_waits_and_takes_over_from_a_killed_one(
    shared: Path, tmp_path: Path, moment: str, killed: bool
) -> None:
    command = training(shared, tmp_path / "run")
    first = start(command, tmp_path / "first", Trouble(moment, signal=STOP))
    wait_until(lambda: stopped(first), "the first checkpoint")
    with pytest.raises(Busy, match=f"process {first.pid} on "):
        train(run_config(domadapt.compose("train", command[1:])), wait=False)
    told = f"holds the checkpoint of another|process {first.pid} on .*, with other settings; choose another paths.run"
    with pytest.raises(ValueError, match=told):
        domadapt.train([*command[1:], "seed=9"])
    second = start(command, tmp_path / "second")
    wait_until(lambda: "waiting for its result" in troubles.printed(tmp_path / "second"), "the second")
    os.kill(int(first.pid or 0), KILL if killed else signal.SIGCONT)
    assert (join(first), join(second)) == (-KILL * killed, 0)
    assert [renamed(tmp_path / name).count("metrics.json") for name in ("first", "second")] == [not killed, killed]
    assert bool(renamed(tmp_path / "second")) == killed
    assert ("resumed after epoch 1" in (tmp_path / "second").read_text()) == killed
    assert read(tmp_path / "run")["attempts"] == 1 + killed
    same_run(tmp_path / "run", shared / "whole")


def test_two_sweeps_at_once_run_each_cell_once(shared: Path, tmp_path: Path) -> None:
    matrix = ["experiment=my_matrix", "benchmark.only=[source_only,masked_lm]", "benchmark.seeds=[1,2]"]
    own = ["task=extraction", f"paths.runs={tmp_path}/runs", own_cache(shared, tmp_path), "trainer.threads=1"]
    command = ["benchmark", *corpora(shared), *matrix, *own, "trainer.epochs=1"]
    sweeps = [start(command, tmp_path / name) for name in ("one", "other")]
    assert [join(sweep) for sweep in sweeps] == [0, 0]
    logs = [tmp_path / name for name in ("one", "other")]
    made = [name for log in logs for name in renamed(log)]
    assert made.count("metrics.json") == made.count("epoch=1.safetensors") == 4
    assert sum(name.startswith("masked-lm") for name in made) == 2  # one a seed
    found = [json.loads(path.read_text()) for path in (tmp_path / "runs").rglob("metrics.json")]
    assert [metrics["attempts"] for metrics in found] == [1] * 4
    tables = [log.read_text().split("method  ")[1].split("cells in")[0].splitlines()[:3] for log in logs]
    assert tables[0] == tables[1]
    assert [row.split()[0] for row in tables[0][1:]] == ["source_only", "masked_lm"]
    notes = (
        "95 % interval over test texts|so however items are drawn"  # as the report has them; of scores of 0 the latter
    )
    assert all(re.search(notes, log.read_text()) for log in logs)


def encoders(cache: Path) -> list[Path]:
    return list(cache.glob("masked-lm-*.safetensors"))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:]])
def test_a_damaged_post_trained_encoder_is_made_again(shared: Path, tmp_path: Path, damage: Any) -> None:
    shutil.copytree(shared / "cache", tmp_path / "cache")
    (path,) = encoders(tmp_path / "cache")
    sound = path.read_bytes()
    path.write_bytes(damage(sound))
    command = [*training(shared, tmp_path / "run"), f"paths.cache={tmp_path}/cache"]
    assert run(command, tmp_path / "log") == 0
    assert (tmp_path / "log").read_text().count(f"{path}: damaged; it is made again") == 1
    assert path.read_bytes() == sound
    same_run(tmp_path / "run", shared / "whole")


def test_one_process_post_trains_and_the_other_waits(shared: Path, tmp_path: Path) -> None:
    own = [own_cache(shared, tmp_path), "trainer.epochs=1"]
    other = training(shared, tmp_path / "a", *own, "selection=entropy")
    first = start(other, tmp_path / "first", Trouble("masked-lm", signal=STOP))
    wait_until(lambda: stopped(first), "the encoder")
    second = start(training(shared, tmp_path / "b", *own), tmp_path / "second")
    wait_until(lambda: read_status(tmp_path / "b").get("stage") == "prepare", "the second")
    os.kill(int(first.pid or 0), signal.SIGCONT)
    assert (join(first), join(second)) == (0, 0)
    assert not any(name.startswith("masked-lm") for name in renamed(tmp_path / "second"))
    assert len(encoders(tmp_path / "cache")) == 1
    assert read(tmp_path / "a")["stages"] == read(tmp_path / "b")["stages"]


def copied(shared: Path, to: Path) -> Path:
    return without_checksums(Path(shutil.copytree(shared / "whole" / "model", to / "model")))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pkl", "training_args.bin", "adapter_model.bin"])
def test_a_pickle_in_a_model_folder_is_not_read(shared: Path, tmp_path: Path, name: str) -> None:
    model = copied(shared, tmp_path)
    (model / "encoder" / name).write_bytes(pickle.dumps(MakesFolder(tmp_path / "mark")))
    assert domadapt.predict(model, ["The lens is great."])
    (model / "encoder" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=f"{name}: a pickle, which can run any code when it is read, and no model.saf"):
        domadapt.load(model)
    edit(model / "encoder" / "config.json", lambda config: config.update(transformers_weights=name))
    with pytest.raises(ValueError, match="a pickle"):
        domadapt.load(model)
    weights = (model / "encoder" / name).rename(model / "encoder" / "model.safetensors")
    with pytest.raises(ValueError, match="could not be loaded"):
        domadapt.load(model)
    with pytest.raises(ValueError, match="not a whole checkpoint"):
        checkpoint.load(weights)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_in_a_model_folder_is_not_run(shared: Path, tmp_path: Path, file: str) -> None:
    """Without asking, too: a question on a terminal can be answered wrongly."""
    model = copied(shared, tmp_path)
    (model / "encoder" / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'mark')!r})\n")
    names = ("AutoConfig", "AutoModelForTokenClassification")
    own = {name: f"evil.{name}" for name in names} | {"AutoTokenizer": ["evil.Tokenizer", "evil.FastTokenizer"]}
    kind = {"model_type": "evil"} if file == "config.json" else {"tokenizer_class": "EvilTokenizer"}
    edit(model / "encoder" / file, lambda config: config.update(auto_map=own, **kind))
    if file == "config.json":
        with pytest.raises(ValueError, match="could not be loaded .*contains custom code"):
            domadapt.load(model)
    else:  # the tokenizer is a stock one all the same
        assert domadapt.predict(model, ["The lens is great."])
    assert not (tmp_path / "mark").exists()
