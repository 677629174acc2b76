"""One step of both sides: the losses of task and methods, the optimiser that follows them, and what it trains."""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
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
        self.seen = 0
        self.step: Step | None = None
        self.shown: dict[str, str] = {}  # beside the progress bar
        self.clock, self.texts = time.monotonic(), 0

    def training_step(self, batches: StepBatches, index: int) -> Tensor:
        """Losses of one step; methods read the very states the task was trained on."""
        session = self.session
        source = View(batches.source, session, batches.source_weight)
        target = View(batches.target, session, batches.target_weight) if batches.target is not None else None
        self.step = step = Step(source, target, self.current_epoch, self.global_step / max(1, self.steps))
        losses = {"task": source.weight * session.task.loss(source.output, source.batch)}
        for method in session.methods.values():
            losses |= method.losses(step)
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
        means = {name: value / max(1, self.seen) for name, value in self.sums.items()}
        self.sums, self.seen = {}, 0
        return means

    def _record(self, losses: dict[str, Tensor]) -> None:
        names = list(losses)
        values = dict(zip(names, torch.stack([losses[n].detach().float() for n in names]).tolist(), strict=True))
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.seen += 1
        self.shown["loss"] = f"{values['total']:.3f}"
        if self.logger:
            numbers = {STEP_LOSSES + name: value for name, value in values.items()}
            now = time.monotonic()
            numbers[f"{STEP}texts_per_second"] = self.texts / max(1e-9, now - self.clock)
            numbers[f"{STEP}learning_rate"] = self.trainer.optimizers[0].param_groups[0]["lr"]
            self.clock, self.texts = now, 0
            self.logger.log_metrics(numbers, self.global_step + 1)


class MetEmbedding(nn.Module):
    """The rows of an embedding that training meets, by their ids; any other is looked up as it was.

    They are more than half of a small encoder's parameters (11.7 of MiniLM's 22.7 million), an optimiser rewrites all
    of them in each step, and a corpus meets a few thousand pieces: a step costs a fifth less at batches of 8. Exact but
    for the weight decay of rows that are never met. To state dicts, the layer is the stock one.

    >>> whole = nn.Embedding(5, 2)
    >>> met = MetEmbedding(whole, [1, 3])
    >>> bool((met(torch.tensor([1, 4])) == whole(torch.tensor([1, 4]))).all()), list(met.state_dict()), len(met.rows)
    (True, ['weight'], 2)
    """

    ids: Tensor
    places: Tensor

    def __init__(self, whole: nn.Embedding, met: Collection[int]) -> None:
        super().__init__()
        self.whole = [whole]  # in a list: it is no part of this module
        ids = torch.tensor(sorted(set(met)), device=whole.weight.device)
        self.register_buffer("ids", ids, persistent=False)
        places = torch.full((whole.num_embeddings,), -1, device=whole.weight.device)
        places[ids] = torch.arange(len(ids), device=whole.weight.device)
        self.register_buffer("places", places, persistent=False)
        self.rows = nn.Parameter(whole.weight.detach()[ids].clone())
        self.padding = -1 if whole.padding_idx is None else int(places[whole.padding_idx])

    @property
    def weight(self) -> Tensor:
        """The whole table, with the trained rows in it."""
        whole: Tensor = self.whole[0].weight
        with torch.no_grad():
            whole[self.ids] = self.rows.to(whole.dtype)
        return whole

    def forward(self, ids: Tensor) -> Tensor:
        """(..., width) rows of (...) ids."""
        places = self.places[ids]
        unmet = places < 0
        found = F.embedding(places.clamp(min=0), self.rows, self.padding if self.padding >= 0 else None)
        if bool(unmet.any()):
            found = torch.where(unmet.unsqueeze(-1), F.embedding(ids, self.whole[0].weight.detach()), found)
        return found

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = self.weight.detach()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local: Any, strict: bool, *others: Any) -> None:
        name = f"{prefix}weight"
        if name in state_dict:
            with torch.no_grad():
                self.whole[0].weight.copy_(state_dict[name])
                self.rows.copy_(state_dict[name].to(self.rows.device)[self.ids])
        elif strict:
            others[0].append(name)


@contextmanager
def only_met_rows(encoder: Any, met: Collection[int]) -> Iterator[None]:
    """Within it, word embeddings of a plain table learn only where they are met; behind it, they are stock again."""
    base: Any = getattr(encoder, "base", None)
    whole = base.get_input_embeddings() if base is not None else None
    if not met or type(whole) is not nn.Embedding or not whole.weight.requires_grad:
        yield
        return
    layer = MetEmbedding(whole, met)
    layer.train(whole.training)
    base.set_input_embeddings(layer)
    try:
        yield
    finally:
        whole.weight.data.copy_(layer.weight.data)
        base.set_input_embeddings(whole)
