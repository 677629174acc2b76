"""Weights & Biases: runs and predictions."""

import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from domadapt.config.overrides import one_of
from domadapt.runs.metrics import objective
from domadapt.tracking.tracker import Content, Run, Tracker, final, reason
from domadapt.utils.files import write_atomic
from domadapt.utils.text import read_json_lines

log = logging.getLogger(__name__)
# Of metrics.json, what W&B's summary shows of a run beside the last values of its curves.
SUMMARY = ("target_test/", "source_test/", "source_dev/", "selection/epoch", "selection/gap", "calibration/error")
# Names that W&B's users look for.
USUAL = {
    "loss/total": "train/loss",
    "loss/": "train/loss_",
    "step/": "train/",
    "losses/": "train/epoch_loss_",
    "source_dev/": "eval/",
    "validators/": "eval/validator_",
    "selection": "score",
}
# WANDB_…
FROM_ENVIRONMENT = {"mode": "MODE", "project": "PROJECT", "entity": "ENTITY", "group": "RUN_GROUP", "notes": "NOTES"}
UNNAMED = "not told"  # in place of the machine's name, which W&B asks for itself if it is given none
UNREACHABLE: set[str] = set()  # servers that this process has waited for in vain: the sweep's next runs do not


@dataclass(eq=False, kw_only=True)
class WeightsAndBiases(Tracker):
    """One W&B run a run: group is the benchmark, job type the method, name the pair, method and seed.

    ``score`` is the chosen validator's value, which reads no target label, so that a sweep may search by it. The
    target's test is in the summary alone. A run that was killed goes on under the same id, kept in the run folder.
    Offline, each attempt is a folder of its own, which `wandb sync` joins by the id.
    """

    mode: str = "offline"
    project: str = "domadapt"
    entity: str | None = None
    group: str | None = None
    models: bool = False
    predictions: int = 100
    notes: str | None = None
    tags: Sequence[str] = ()
    system: bool = False
    folder: str | None = None
    init_timeout: float = 30.0
    finish_timeout: float = 60.0
    api_key: str | None = field(default=None, repr=False)  # better left to WANDB_API_KEY or `wandb login`
    run: Any = field(default=None, init=False)
    tracked_run: Run | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("tracking.mode", self.mode, "online", "offline")
        try:
            import wandb
        except ImportError as error:
            raise ValueError(f"tracking=wandb: {error}: pip install 'wandb>=0.31'") from None
        self.wandb: Any = wandb
        for name, variable in FROM_ENVIRONMENT.items():
            setattr(self, name, os.environ.get(f"WANDB_{variable}", getattr(self, name)))

    def start(self, run: Run) -> None:
        self.tracked_run = run
        backbone = Path(str((run.config.get("backbone") or {}).get("name", ""))).name
        tags = [*self.tags, *os.environ.get("WANDB_TAGS", "").split(","), run.role, run.method, backbone]
        names = {"id": run_id(run.folder, run.key), "name": run.name, "job_type": run.method, "notes": self.notes}
        config = {**run.config, "role": run.role, "method": run.method, "pair": run.pair}
        self._open(run.home, **names, config=config, tags=list(dict.fromkeys(each[:64] for each in tags if each)))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Numbers of a step. W&B's own counter of calls is no step: an attempt begins it anew."""
        if self.run:
            self.run.log({**{usual_name(name): value for name, value in metrics.items()}, "step": step})

    def end(self, metrics: Content | None) -> None:
        """The summary holds the results of the chosen epoch; then finish, so that no other run goes on in this one."""
        try:
            if self.run and metrics and self.tracked_run:
                results = final(metrics)
                self.run.summary.update({name: value for name, value in results.items() if name.startswith(SUMMARY)})
                self.run.summary.update({"score": objective(metrics)})  # W&B's own would be the last epoch's
                if self.predictions:
                    self._show_predictions(self.tracked_run.folder / "predictions.jsonl")
                if self.models:
                    artifact = self.wandb.Artifact(f"model-{self.tracked_run.key}", type="model")
                    artifact.add_dir(str(self.tracked_run.folder / "model"), skip_cache=True, policy="immutable")
                    self.run.log_artifact(artifact)
        finally:
            self._finish(failed=metrics is None)

    def _open(self, home: Path, **described: Any) -> None:
        if self.mode == "disabled":
            return
        folder = Path(self.folder or os.environ.get("WANDB_DIR") or home).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):  # W&B would take the folder of temporary files, and say nothing
            raise PermissionError(f"{folder}: can't be written to")
        described |= {"project": self.project, "entity": self.entity, "group": self.group, "dir": str(folder)}
        server = os.environ.get("WANDB_BASE_URL", "the W&B server")
        mode = "offline" if server in UNREACHABLE else self.mode
        try:
            self._begin(mode, described)
        except Exception as error:
            if mode != "online":
                raise
            UNREACHABLE.add(server)
            log.warning("%s: %s; runs are kept offline in %s", server, reason(error), folder)
            self.wandb.teardown()  # it holds the run that it could not begin
            self._begin("offline", described)
        self.run.define_metric("step", hidden=True)
        self.run.define_metric("*", step_metric="step")

    def _begin(self, mode: str, described: dict[str, Any]) -> None:
        wandb = self.wandb
        wandb.setup(settings=wandb.Settings(silent=True))
        if mode == "online" and not (self.api_key or wandb.login(prompt=False, verify=False)):
            raise ValueError("no key (set WANDB_API_KEY, or `wandb login`)")
        settings = wandb.Settings(
            mode=mode,
            api_key=self.api_key,
            reinit="create_new",  # never write into a run that somebody has left open
            init_timeout=self.init_timeout,
            finish_timeout=self.finish_timeout,
            finish_timeout_raises=True,
            silent=True,
            # Nothing of the machine, the command line, the repository or the terminal goes along.
            console="off",
            disable_code=True,
            disable_git=True,
            x_disable_meta=True,
            x_disable_machine_info=not self.system,
            x_disable_stats=not self.system,
            x_save_requirements=self.system,
            host=None if self.system else UNNAMED,
            x_transaction_log_flush_interval=2.0,  # seconds that a killed run may lose
        )
        self.run = wandb.init(resume="allow", settings=settings, **described)
        if mode == "online":
            log.info("W&B: %s", self.run.url)

    def _show_predictions(self, path: Path) -> None:
        """Some of them as a table; of classes the confusion matrix, too."""
        if not path.is_file():
            return
        rows = read_json_lines(path)
        sides = ("gold", "predicted") if any("gold" in row for row in rows) else ("predicted",)  # or without labels
        data = [[row["text"], *(in_words(row, side) for side in sides), row.get("confidence")] for row in rows]
        columns = ["text", *sides, "confidence"]
        shown = {"predictions": self.wandb.Table(columns=columns, data=data[: self.predictions])}
        labels = [[row.get(side, {}).get("label") for row in rows] for side in sides]
        if len(sides) > 1 and all(isinstance(label, str) for side in labels for label in side):
            names = sorted({label for side in labels for label in side})
            gold, predicted = ([names.index(label) for label in side] for side in labels)
            shown["confusion"] = self.wandb.plot.confusion_matrix(y_true=gold, preds=predicted, class_names=names)
        self.run.log(shown)

    def _finish(self, failed: bool) -> None:
        run, self.run = self.run, None
        if run is None:
            return
        folder = Path(run.settings.sync_dir)
        try:
            run.finish(exit_code=int(failed))
        except TimeoutError:
            log.warning("W&B has not taken everything: `wandb sync --include-online %s` sends the rest", folder)
        except Exception:
            with suppress(Exception):
                self.wandb.teardown()  # its service has died; the next run gets another
            raise


def in_words(row: dict[str, Any], side: str) -> str:
    """A label, or spans as ``type: words``; of a text without labels of its own the row is the prediction.

    >>> in_words({"text": "Fast.", "spans": [{"start": 0, "end": 4, "type": "opinion"}]}, "predicted")
    'opinion: Fast'
    """
    labels = row.get(side, row)
    if labels.get("label") is not None:
        return str(labels["label"])
    return "; ".join(f"{s['type']}: {row['text'][s['start'] : s['end']]}" for s in labels.get("spans", ()))


def usual_name(name: str) -> str:
    """What W&B's users call a number.

    >>> [usual_name(name) for name in ("loss/total", "loss/mlm", "source_dev/span_f1", "selection", "epoch")]
    ['train/loss', 'train/loss_mlm', 'eval/span_f1', 'score', 'epoch']
    """
    start = next((start for start in USUAL if name.startswith(start)), "")
    return USUAL.get(start, "") + name.removeprefix(start)


def run_id(folder: Path, key: str) -> str:
    """The W&B id of a run folder: the cell's key, and a part of its own, so that a run made anew is a new run."""
    path = folder / "wandb-id"
    if path.is_file() and (known := path.read_text(encoding="utf-8").strip()).startswith(key):
        return known
    made = f"{key}-{uuid.uuid4().hex[:6]}"  # from the system: the seed's random numbers are the training's
    write_atomic(path, made)
    return made
