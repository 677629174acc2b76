"""What a comparison of methods says: plain frozen records, nothing computed here.

Scores and differences are shares (0.52 is 52 percent). Where a number is None, the ``reason`` beside it says why.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds and its 95 % interval."""

    mean: float
    low: float | None
    high: float | None
    over: str  #: what was drawn again: ``seeds and test items``, ``seeds`` or ``test items``; empty without ends
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Significance:
    """A paired permutation test, two-sided unless said otherwise."""

    p: float | None  #: None where none below 0.05 could be reached, or nothing could be tested
    p_holm: float | None  #: the same after Holm's correction over the table
    unit: str  #: what changes sides under the null hypothesis: ``seeds``, ``test items``, ``runs`` or ``pairs``
    count: int
    reason: str = ""  #: why ``p`` is None; beside a ``p``, why ``p_holm`` could not have been below 0.05


@dataclass(frozen=True, slots=True)
class Replicability:
    """On how many pairs a gain is real (Dror et al. 2017), by one-sided tests.

    ``count`` is a lower bound, right with 95 % confidence by Bonferroni's combination, which allows any dependence
    between pairs; None where the tests could not have found any.
    """

    count: int | None
    of: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One method less another, on one pair or over those that have both, at the seeds that both were run with."""

    other: str  #: name of the baseline or control (several where it differs by pair); empty where there is none
    interval: Interval | None  #: positive where the method is better; over pairs each counts the same
    #: Would training again show it? The test that a claim about a method needs. On one pair its unit is a seed; over
    #: pairs a (pair, seed), those that share a network being one: a gain on at least one of the pairs.
    again: Significance
    #: On one pair, do these trained models differ on other texts of this kind? It says nothing about training again.
    #: Over pairs, would other pairs of this kind show it? Those that share a network are one.
    elsewhere: Significance
    replicability: tuple[Replicability, ...] = ()  #: over pairs, by tests over seeds and by tests over test items
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """How much of the gap between source_only and in_domain a method closes."""

    score: str
    value: Interval | None  #: 1 is the ceiling; None where it would mean nothing
    gap: Interval | None  #: in_domain − source_only at the same seeds on the same items
    pairs: int  #: how many it is over: mean gain over mean gap
    reason: str = ""  #: why ``value`` is None, or has no interval


@dataclass(frozen=True, slots=True)
class Cell:
    """One method, on one pair or over those it was run on."""

    pairs: tuple[str, ...]  #: those with a score; where none has one, all
    method: str
    role: str
    score: Interval | None  #: headline on the target test; of methods run on different pairs not comparable
    baseline: Difference  #: against it
    controls: tuple[Difference, ...]  #: against each of its controls
    shares: tuple[Share, ...]  #: of the gap, by the headline and by F1 of each span type

    @property
    def differences(self) -> tuple[Difference, ...]:
        """To the baseline, and to each control."""
        return (self.baseline, *self.controls)


@dataclass(frozen=True, slots=True)
class Statistics:
    """All that is said about a report's runs."""

    baseline: str  #: role or name of what methods are compared with
    cells: tuple[Cell, ...]  #: every pair × method
    overall: tuple[Cell, ...]  #: every method over its pairs
    messages: tuple[str, ...] = ()  #: what could not be used, one line each, with counts

    def cell(self, pair: str, method: str) -> Cell:
        """One method on one pair."""
        for cell in self.cells:
            if (cell.pairs, cell.method) == ((pair,), method):
                return cell
        raise KeyError((pair, method))
