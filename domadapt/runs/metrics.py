"""One run's ``metrics.json``, typed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

from annotated_types import Interval

FORMAT = 1  # of metrics.json, as domadapt.train writes it
# The bounds turn away NaN and infinity, too: one such score makes every p-value 0.
Share = Annotated[float, Interval(ge=0, le=1)]
Number = Annotated[float, Interval(ge=-3.5e38, le=3.5e38)]  # of float32
Positive = Annotated[float, Interval(gt=0, le=3.5e38)]
Whole = Annotated[int, Interval(ge=0, le=2**53)]
First = Annotated[int, Interval(ge=1, le=2**53)]
Score = Annotated[float, Interval(ge=0, le=2**53)]  # a share; only a class's support counts more
Seconds = Annotated[float, Interval(ge=0, le=1e10)]
Scores = dict[str, Score]


@cache
def schema(kind: type) -> Any:
    """What reads a record's content, and refuses another's."""
    from pydantic import TypeAdapter  # as wandb has it: 0.1 s that only a reader pays

    return TypeAdapter(kind)


def objective(metrics: Mapping[str, Any]) -> float | None:
    """The chosen validator's value at the epoch it chose; None of the oracle, which leads no search, and of rules.

    >>> lines = [{"epoch": 1, "selection": 0.2}, {"epoch": 2, "selection": 0.7}]
    >>> objective({"curve": lines, "selection": {"epoch": 2}})
    0.7
    """
    epoch = (metrics.get("selection") or {}).get("epoch")
    return next((line["selection"] for line in metrics.get("curve") or () if line["epoch"] == epoch), None)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One line of the learning curve."""

    epoch: First  #: from 1
    step: Whole = 0  #: steps done by its end
    losses: dict[str, Number | None] = field(default_factory=dict)  #: means, and their weighted sum as ``total``
    source_dev: Scores = field(default_factory=dict)
    validators: dict[str, Number | None] = field(default_factory=dict)  #: value of each; None where it had none
    selection: Number | None = None  #: the chosen one's; None of the oracle


@dataclass(frozen=True, slots=True)
class Choice:
    """The epoch that one validator would have kept, and its scores on the target test; None without target labels."""

    epoch: First
    target_test: Scores | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which epoch was kept."""

    validator: str | None = None  #: that chose it
    epoch: First | None = None  #: chosen
    gap: Share | None = None  #: the oracle's headline score less the chosen epoch's; None without target labels
    choices: dict[str, Choice] = field(default_factory=dict)  #: every validator's
    target_curve: tuple[Share, ...] = ()  #: by epoch, headline on the target test; empty where only choices were scored


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions of about the same confidence: its mean, the share of them that is right, how many they are."""

    confidence: Share
    accuracy: Share
    count: Whole


@dataclass(frozen=True, slots=True)
class Calibration:
    """Expected calibration error on the target test, and the bins it is summed over; None without labels."""

    error: Share | None = None  #: as the model predicts
    bins: tuple[Bin, ...] = ()
    scaled_error: Share | None = None  #: after temperature scaling on source dev
    source_dev_error: Share | None = None  #: of the in-domain ceiling, on its own dev
    source_dev_scaled_error: Share | None = None
    temperature: Positive | None = None  #: above 1 where the model is too sure on source dev


@dataclass(frozen=True, slots=True)
class Expected:
    """The headline score that was expected on the target without reading a label of it."""

    score: Share  #: expected, corrected by what the estimate is off on average elsewhere
    low: Share  #: to ``high`` the score lies nine times in ten
    high: Share
    estimate: str = ""  #: which of ``estimates`` it comes from
    usual_error: Share | None = None  #: mean absolute, on corpora that it was not fitted to; None: never measured
    temperature: Positive | None = None  #: that source dev calibrates the probabilities with
    texts: Whole = 0  #: unlabelled ones that were read
    estimates: dict[str, Scores] = field(default_factory=dict)  #: name → scores by name, uncorrected


@dataclass(slots=True)
class Truncation:
    """How many texts did not fit into ``max_length``, and how many of their words were lost: never in silence."""

    texts: Whole = 0
    words: Whole = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Sizes of what went in, and what was cut off or mended on the way."""

    source_train: Whole | None = None
    source_dev: Whole | None = None
    target_unlabelled: Whole | None = None
    target_labels: Whole | None = None
    target_labels_checksum: str | None = None
    parameters: Whole | None = None
    truncated: dict[str, Truncation] = field(default_factory=dict)
    warnings: dict[str, Whole] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Texts in the target test, and those among them that are no copies of training, dev or unlabelled text."""

    all: Whole
    clean: Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What ``metrics.json`` says of one run. Scores are shares (0.52 is 52 percent), None where there are no labels."""

    source: str = ""
    target: str = ""
    task: str = ""
    headline: str = ""  #: name of the score to compare by
    method: str = ""
    role: str = ""
    seed: int = 0
    key: str | None = None  #: fingerprint of settings, data and code
    data: str | None = None  #: fingerprint of what its files of data held
    training: str | None = None  #: key of the training that made the weights, where several cells share it
    ceiling: str | None = None  #: the same of an in-domain run, which pairs with one target share
    copied_from: str | None = None  #: folder of the run whose result this is a copy of; None where the cell was trained
    source_dev: Scores = field(default_factory=dict)
    source_test: Scores | None = None
    target_test: Scores | None = None
    target_test_clean: Scores | None = None
    target_test_sizes: Sizes | None = None  #: None without target labels
    expected: Expected | None = None  #: None for the in-domain ceiling, whose dev has target labels
    selection: Selection = Selection()
    curve: tuple[Epoch, ...] = ()
    calibration: Calibration = Calibration()
    counts: Counts = Counts()
    stages: dict[str, Any] = field(default_factory=dict)  #: what methods recorded of their preparation
    seconds: dict[str, Seconds] = field(default_factory=dict)  #: by stage, over all attempts
    attempts: Whole | None = None  #: how often it was started
    written: str = ""  #: when, in UTC; empty if a run of an earlier version
    config: dict[str, Any] = field(default_factory=dict)  #: as composed, without secrets
    versions: dict[str, Any] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    folder: str = ""  #: where the file lies; empty if it was never read from one

    @property
    def network(self) -> str:
        """Equal for runs whose weights are one network: by key, else by a learning curve that is the same to a digit.

        >>> curve = (Epoch(1, losses={"task": 0.8414709848}),)
        >>> one, other = (Metrics(target=name, curve=curve) for name in ("laptops", "devices"))
        >>> one.network == other.network, Metrics(target="a").network == Metrics(target="b").network
        (True, False)
        """
        if known := self.training or self.ceiling:
            return known
        content = (self.curve,) if self.curve else (self.source, self.target, self.folder)
        return hashlib.sha256(repr((self.method, self.seed, content)).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def tested(self) -> int | None:
        """How many texts of the target it was tested on; None where none is recorded."""
        return self.target_test_sizes.all if self.target_test_sizes else None

    def score(self, name: str = "") -> float | None:
        """A score on the target test, the headline unless named; None where it has none."""
        return (self.target_test or {}).get(name or self.headline)
