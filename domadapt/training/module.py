"""The one LightningModule: source and target batches in, named losses out."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from domadapt.data.batches import Step
from domadapt.methods.method import Method
from domadapt.methods.setting import Setting
from domadapt.tracking.tracker import STEP_LOSSES


class Adapter(pl.LightningModule):
    """Trains an encoder on labelled source text with any methods on top.

    Args:
        setting: what :func:`domadapt.training.build.build` made.
        learning_rate: peak rate of encoder and methods.
        weight_decay: of matrices; biases and norms have none.
        warmup: share of steps with a rising rate; it falls linearly after.
        gradient_clip: largest norm of the gradient.
        steps: total steps.
    """

    def __init__(
        self,
        setting: Setting,
        learning_rate: float,
        weight_decay: float,
        warmup: float,
        gradient_clip: float,
        steps: int,
    ) -> None:
        super().__init__()
        self.encoder: nn.Module = setting.encoder
        self.methods = nn.ModuleList(setting.methods.values())
        self.added = list(setting.methods.values())
        self.task = setting.task
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.warmup, self.gradient_clip, self.steps = warmup, gradient_clip, steps
        self.weights = {"task": 1.0} | {name: w for m in self.added for name, w in m.weights.items()}
        # Only methods with a loss on encoded batches pay for encoding the target's.
        own = [m for m in self.added if type(m).batch_losses is not Method.batch_losses]
        self.target_readers = [m for m in own if m.reads_target]
        self.sums: dict[str, float] = {}
        self.seen = 0

    def training_step(self, step: Step, index: int) -> Tensor:
        """Losses of one step; methods read the very states the task was trained on."""
        source = self.encoder(step.source)
        losses = {"task": self.task.loss(source, step.source)}
        for method in self.added:
            losses |= method.batch_losses(source, step.source)
        losses = {name: step.source_weight * value for name, value in losses.items()}
        if step.target is not None and self.target_readers:
            target = self.encoder(step.target)
            for method in self.target_readers:
                for name, value in method.batch_losses(target, step.target).items():
                    losses[name] = losses.get(name, 0.0) + step.target_weight * value
        for method in self.added:
            own = method.step_losses(self.encoder, step)
            weight = step.source_weight if step.target is None else step.target_weight
            losses |= {name: weight * value for name, value in own.items()}
        total = torch.stack([self.weights[name] * value for name, value in losses.items()]).sum()
        self._record({**losses, "total": total})
        return total

    def configure_optimizers(self) -> Any:
        """Fused AdamW with linear warm-up and decay."""
        trained = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=self.learning_rate, fused=True)
        rising = max(1, round(self.warmup * self.steps))

        def rate(step: int) -> float:
            return min((step + 1) / rising, max(0.0, (self.steps - step) / max(1, self.steps - rising)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        """Clip here: Lightning refuses to beside a fused optimizer, which matters only with a gradient scaler."""
        torch.nn.utils.clip_grad_norm_(self.parameters(), self.gradient_clip)

    def mean_losses(self) -> dict[str, float]:
        """Mean of each unweighted loss since the last call."""
        means = {name: value / max(1, self.seen) for name, value in self.sums.items()}
        self.sums, self.seen = {}, 0
        return means

    def _record(self, losses: dict[str, Tensor]) -> None:
        names = list(losses)
        values = dict(zip(names, torch.stack([losses[n].detach().float() for n in names]).tolist(), strict=True))
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.seen += 1
        if self.logger:
            self.logger.log_metrics({STEP_LOSSES + name: value for name, value in values.items()}, self.global_step + 1)
