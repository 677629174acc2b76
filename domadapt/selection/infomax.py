"""Choose the checkpoint whose target predictions are sure one by one and diverse together (Musgrave et al. 2022,
https://arxiv.org/abs/2208.07360, after Shi and Sha 2012)."""

from domadapt.selection.entropy import entropy
from domadapt.selection.validator import Evidence


class InfoMax:
    """Largest mutual information between target text and predicted class."""

    name = "infomax"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """Entropy of the mean prediction less the mean entropy of predictions, in nats."""
        target = evidence.target.that_matter().probabilities
        if not len(target):  # it finds nothing anywhere
            return float("nan")
        together = entropy(target.mean(0, keepdims=True))[0]
        return float(together - entropy(target).mean())
