"""Least entropy on the target (Grandvalet & Bengio 2004): predictions on unlabelled text should be sure."""

from torch import Tensor

from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.units import logits_of


class LeastEntropy(Method):
    """Adds the mean entropy of predictions on target text to the loss.

    Args:
        weight: of the loss; 0 leaves the run as it is without this method.
        start: share of training after which it begins, from 0 to 1: an untrained model would be sure of nonsense.
    """

    reads = frozenset({"target"})  # so that every step has a batch of target text

    def __init__(self, weight: float, start: float) -> None:
        super().__init__({"entropy": weight})  # named losses and their weights: multiplied and logged by training
        in_range("least_entropy.start", start, 0.0, 1.0)
        self.start = start

    def losses(self, step: Step) -> dict[str, Tensor]:
        if step.target is None or step.progress < self.start:
            return {}
        logits = logits_of(step.target)  # (words, tags) of spans, (texts, labels) of labels: no padding
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
        return {"entropy": entropy.mean()}
