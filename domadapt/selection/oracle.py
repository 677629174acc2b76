"""The checkpoint that target labels would choose: a bound, never a way to select.

Training and validators see no target label. The oracle is found by the final evaluation, after training and selection
are over, when the sealed test is open; what the other validators lose against it is the selection gap.
"""

from domadapt.selection.validator import Evidence


class Oracle:
    """The bound. A run that asks for it is marked so everywhere."""

    name = "oracle"
    bound = True

    def __call__(self, evidence: Evidence) -> float:
        """Never called: there is nothing in the evidence that an oracle could read."""
        raise RuntimeError("the oracle reads target labels, which no evidence holds; the final evaluation finds it")
