"""One step of both sides: the losses of task and methods, and the optimiser that follows them."""

import math
import time
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from domadapt.data.batches import StepBatches
from domadapt.methods.method import Step, View
from domadapt.methods.session import Session
from domadapt.tracking.tracker import STEP, STEP_LOSSES
from domadapt.training.options import TrainerOptions


class AdaptationModule(pl.LightningModule):
    """Trains an encoder on labelled source text with any methods on top, in so many steps in all."""

    def __init__(self, session: Session, options: TrainerOptions, steps: int) -> None:
        super().__init__()
        self.session, self.options, self.steps = session, options, steps
        self.encoder: nn.Module = session.encoder
        self.methods = nn.ModuleDict({name.replace(".", "_"): m for name, m in session.methods.items()})
        added = session.methods.values()
        self.weights = {"task": 1.0} | {name: w for method in added for name, w in method.weights.items()}
        self.sums: dict[str, float] = {}
        self.summed_steps = 0
        self.step: Step | None = None
        self.bar_values: dict[str, str] = {}  # beside the progress bar
        self.clock, self.texts = time.monotonic(), 0

    def training_step(self, batches: StepBatches, index: int) -> Tensor:
        """Losses of one step; methods read the very states the task was trained on."""
        session = self.session
        source = View(batches.source, session, batches.source_weight)
        target = View(batches.target, session, batches.target_weight) if batches.target is not None else None
        self.step = step = Step(source, target, self.current_epoch, self.global_step / max(1, self.steps))
        losses = {"task": source.weight * session.task.loss(source.output, source.batch)}
        for name, method in session.methods.items():
            given = method.losses(step)
            for key, value in given.items():
                if not isinstance(value, Tensor) or value.ndim:
                    raise ValueError(f"{name}.losses(): {key}={value!r:.60}; expected a tensor that is one number")
            if taken := sorted(given.keys() & losses.keys()):
                raise ValueError(f"{name}.losses(): {taken[0]!r} is the name of another loss; give it one of its own")
            losses |= given
        if unknown := sorted(losses.keys() - self.weights.keys()):
            fix = "its method gives one, super().__init__({NAME: WEIGHT})"
            raise ValueError(f"loss {unknown[0]!r} has no weight: {fix}")
        total = torch.stack([self.weights[name] * value for name, value in losses.items()]).sum()
        self.texts += sum(len(view.batch.input_ids) for view in step.views)
        self._record({**losses, "total": total})
        return total

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        """The optimiser's step is done: let methods follow it."""
        assert self.step is not None
        for method in self.session.methods.values():
            method.after_step(self.step)
        self.step = None  # and its graph with it

    def configure_optimizers(self) -> Any:
        """Fused AdamW with linear warm-up and decay; biases and norms keep all their weight."""
        rate, decay = self.options.learning_rate, self.options.weight_decay
        groups: list[dict[str, Any]] = [{"params": list(self.encoder.parameters()), "lr": rate}]
        for method in self.session.methods.values():
            groups += method.parameter_groups(rate)
        split = []
        for group in groups:
            trained = [p for p in group["params"] if p.requires_grad]
            split.append({**group, "params": [p for p in trained if p.ndim > 1], "weight_decay": decay})
            split.append({**group, "params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0})
        optimizer = torch.optim.AdamW([group for group in split if group["params"]], lr=rate, fused=True)
        schedule = get_linear_schedule_with_warmup(optimizer, round(self.options.warmup * self.steps), self.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        """Let the fused optimizer divide by how much too large the norm is, in its own pass over weights."""
        # Lightning refuses to clip beside a fused optimizer, which matters only with a gradient scaler.
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
        optimizer.grad_scale = ((norm + 1e-6) / self.options.gradient_clip).clamp(min=1.0)
        optimizer.found_inf = None

    def mean_losses(self) -> dict[str, float]:
        """Mean of each unweighted loss since the last call."""
        means = {name: value / max(1, self.summed_steps) for name, value in self.sums.items()}
        self.sums, self.summed_steps = {}, 0
        return means

    def _record(self, losses: dict[str, Tensor]) -> None:
        names = list(losses)
        values = dict(zip(names, torch.stack([losses[n].detach().float() for n in names]).tolist(), strict=True))
        if not math.isfinite(values["total"]):
            what = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
            fix = "lower trainer.learning_rate, or mend the loss that is not finite"
            raise ValueError(f"step {self.global_step + 1}: the loss is no number ({what}); {fix}")
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.summed_steps += 1
        self.bar_values["loss"] = f"{values['total']:.3f}"
        if self.logger:
            numbers = {STEP_LOSSES + name: value for name, value in values.items()}
            now = time.monotonic()
            numbers[f"{STEP}texts_per_second"] = self.texts / max(1e-9, now - self.clock)
            numbers[f"{STEP}learning_rate"] = self.trainer.optimizers[0].param_groups[0]["lr"]
            self.clock, self.texts = now, 0
            self.logger.log_metrics(numbers, self.global_step + 1)
