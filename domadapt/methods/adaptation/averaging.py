r"""The mean of the encoder's weights over training's steps is scored and saved.

From a share of training on, after each step k with weights :math:`w_k`,

.. math:: \bar w_k = \bar w_{k-1} + \max(1 - \alpha, \tfrac1k) \, (w_k - \bar w_{k-1}),

with a decay :math:`\alpha` an exponential moving average that begins as a plain mean, without one the uniform mean of
SWA (Izmailov et al. 2018, https://arxiv.org/abs/1803.05407; under domain shift SWAD, Cha et al. 2021,
https://arxiv.org/abs/2102.08604). What an injection folds into the encoder stays; what methods add is the last step's.

Costs a copy of the weights and an addition a step. It takes away the noise of the last steps, no shift: it fails where
the rate has decayed to nothing, or where averaging begins before training has settled.
"""

from typing import Any

from torch import Tensor

from domadapt.methods.method import Method, Step, in_range


class Averaging(Method):
    """A moving average of the encoder's weights."""

    def __init__(self, decay: float | None, start: float) -> None:
        super().__init__()
        if decay is not None:
            in_range("averaging.decay", decay, 0.0, 1.0)
        in_range("averaging.start", start, 0.0, 0.9, " (1 would average nothing)")
        self.decay, self.start = decay, start
        self.mean: dict[str, Tensor] = {}
        self.steps = 0

    def after_step(self, step: Step) -> None:
        if step.progress < self.start:
            return
        self.steps += 1
        share = 1 / self.steps if self.decay is None else max(1 - self.decay, 1 / self.steps)
        for name, weight in self.session.encoder.state_dict().items():
            if weight.is_floating_point():
                mean = self.mean.get(name)
                self.mean[name] = weight.clone() if mean is None else mean.to(weight.device).lerp_(weight, share)

    def final_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The mean, of all that no method before this one has changed."""
        current = self.session.encoder.state_dict()
        same = {name for name, weight in weights.items() if weight.data_ptr() == current[name].data_ptr()}
        return weights | {name: mean for name, mean in self.mean.items() if name in same}

    def memory(self) -> dict[str, Any]:
        return {"mean": {name: mean.cpu() for name, mean in self.mean.items()}, "steps": self.steps}

    def recall(self, memory: dict[str, Any]) -> None:
        self.mean, self.steps = dict(memory["mean"]), int(memory["steps"])
