"""Choose the checkpoint with the best headline score on held-out source text: no target labels, no target text."""

from domadapt.tasks.scores import Scores


class SourceDev:
    """The default validator."""

    name = "source_dev"

    def __call__(self, source_dev: Scores, headline: str) -> float:
        """The value to maximise.

        Args:
            source_dev: scores on the source's dev part.
            headline: name of the task's headline score.

        >>> SourceDev()({"span_f1": 0.5}, "span_f1")
        0.5
        """
        return source_dev[headline]
