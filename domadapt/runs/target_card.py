"""``card.json``: what a run's model says of a target that has no labels, for a person who wants to use it."""

import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from domadapt.runs.metrics import Expected, schema
from domadapt.utils.files import write_atomic

log = logging.getLogger(__name__)
FORMAT = 2
FILE = "card.json"


@dataclass(frozen=True, slots=True)
class ShownText:
    """One target text as the model labels it."""

    text: str  #: the beginning of it
    left_out: int = 0  #: characters that are not in ``text``
    label: str | None = None  #: of classification, as its confidence
    confidence: float = 0.0
    spans: tuple[tuple[int, int, str], ...] = ()  #: (start, end, type) of extraction, in characters of ``text``


@dataclass(frozen=True, slots=True)
class Kind:
    """One label or span type: how often the model finds it, and where."""

    name: str  #: of the label or type
    count: int  #: target texts with the label, or spans of the type
    source: int  #: the same of the source's labelled texts
    words: tuple[tuple[str, int], ...] = ()  #: that it finds most, or that set its texts apart, with counts


@dataclass(frozen=True, slots=True)
class ChangedWords:
    """Words that the source-only model finds much more often than this one, or much less often."""

    kind: str  #: span type
    words: str  #: in lower case
    before: int  #: times the source-only model finds them in the target
    now: int  #: times this model does
    text: ShownText | None = None  #: a target text in which one of the two finds them


@dataclass(frozen=True, slots=True)
class CardWarning:
    """Why not to believe predictions, and what to type: ``{run}`` and ``{source_only}`` in ``command`` are folders."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCard:
    """A run on a target without labels."""

    key: str  #: of the run
    source: str  #: as ``metrics.json`` says it, and so what follows
    target: str
    task: str
    backbone: str
    method: str
    seed: int
    headline: str
    source_dev: float  #: the headline score on the source's dev part, of ``dev_texts`` texts
    dev_texts: int
    source_texts: int  #: labelled texts of the source, trained on
    steps: int
    epochs: int
    texts: int  #: of the target, all of them labelled in ``predictions.jsonl``
    empty: int  #: of these, texts without a span; 0 in classification
    kinds: tuple[Kind, ...]  #: each label or span type
    samples: tuple[ShownText, ...]  #: some of the predictions, drawn at random
    warnings: tuple[CardWarning, ...] = ()  #: why not to believe them, the weightiest first
    questions: tuple[str, ...] = ()  #: on the target's annotation, which no text shows
    answer: str = ""  #: command that takes the answers, as a warning's
    expected: Expected | None = None  #: headline score on the target; None where nothing estimates it
    changes: tuple[ChangedWords, ...] = ()  #: against the source-only model; the largest first
    relabelled: int | None = None  #: texts with another label than by the source-only model
    pairs: bool = False  #: whether a text is two, as its predictions want it
    to_label: str = ""  #: file beside the card, for ``domadapt score``; empty where there is none
    target_labels: int = 0  #: labelled texts of the target, trained on beside the source's
    source_only: str = "source_only"  #: the source-only run's folder, as seen from ``folder``
    made_in: str = ""  #: where its commands are to be typed, as seen from ``folder``; empty if that is not above it
    folder: str = ""  #: the run's, where the card lies

    @property
    def model(self) -> str:
        return str(Path(self.folder, "model"))

    @property
    def before(self) -> str:
        """The source-only run's folder, which runs share that have no folder of their own in ``paths.run``."""
        return os.path.normpath(Path(self.folder, self.source_only))


def write_card(card: TargetCard, folder: Path) -> None:
    """Write ``card.json``; where it lies is not in it, so that the folder can be moved."""
    content = {"format": FORMAT, **asdict(card)}
    content.pop("folder")
    write_atomic(folder / FILE, json.dumps(content, indent=1, ensure_ascii=False))


def read_card(folder: Path | str, key: str | None = None) -> TargetCard | None:
    """A run folder's card, that of ``key`` if it is given; None if there is none that this version understands."""
    path = Path(folder, FILE)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT or key not in (None, content.get("key")):
            return None
        card: TargetCard = schema(TargetCard).validate_python({**content, "folder": str(path.parent)})
        return card
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        if path.exists():
            log.warning("left out: %s is damaged; copy it again", path)
        return None
