"""Choose the checkpoint with the best headline score on held-out source text: no target labels, no target text."""

from domadapt.selection.validator import Evidence


class SourceDev:
    """The default validator."""

    name = "source_dev"
    bound = False

    def __call__(self, evidence: Evidence) -> float:
        """The headline score on source dev."""
        return evidence.source_dev[evidence.headline]
