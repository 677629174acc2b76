"""An invented adaptation problem with nothing wrong in it; tests plant a trap and look for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from domadapt.auditing.finding import Parts, gather
from domadapt.data.domains import Ceiling, Domains, SealedTest, TargetUnlabeled
from domadapt.data.records import Record, Span

SIZES = {"train": 150, "dev": 50, "unlabelled": 200, "test": 120, "ceiling": 120}
LABELS = ("negative", "positive")


def pseudo_words(rng: np.random.Generator, count: int) -> list[str]:
    """Invented words of two or three syllables."""
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    found = {"".join(rng.choice(syllables, 2 + i % 2)) for i in range(4 * count)}
    return sorted(found)[:: max(1, len(found) // count)][:count]


class Language:
    """Common words, and words of each domain: things, and praise and blame that only this domain uses."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        words = pseudo_words(rng, 340)
        rng.shuffle(words)
        self.common, self.praise = words[:240], {"negative": words[240:250], "positive": words[250:260]}
        self.things = {"camera": words[260:280], "laptop": words[280:300]}
        self.own = {
            ("camera", "negative"): words[300:305],
            ("camera", "positive"): words[305:310],
            ("laptop", "negative"): words[310:315],
            ("laptop", "positive"): words[315:320],
        }

    def record(self, rng: np.random.Generator, domain: str, name: str) -> Record:
        """A sentence with a thing (the aspect), a judgement (the opinion), and marks here and there."""
        label = LABELS[int(rng.integers(2))]
        words = list(rng.choice(self.common, int(rng.integers(8, 16))))
        own = rng.random() < 0.7
        judgement = str(rng.choice(self.own[domain, label] if own else self.praise[label]))
        thing = str(rng.choice(self.things[domain]))
        at = int(rng.integers(2, len(words) - 2))
        words[at:at] = [thing, "isn't" if rng.random() < 0.2 else "is", judgement]
        text = " ".join(words)
        comma = words[0] + ("," if rng.random() < 0.3 else "")
        text = comma[0].upper() + comma[1:] + text[len(words[0]) :] + ("!" if rng.random() < 0.2 else ".")
        spans = [
            Span(text.index(f" {w} ") + 1, text.index(f" {w} ") + 1 + len(w), kind)
            if f" {w} " in text
            else Span(text.index(w), text.index(w) + len(w), kind)
            for w, kind in ((thing, "aspect"), (judgement, "opinion"))
        ]
        return Record(name, domain, text, None, label, tuple(spans))


Change = Callable[[tuple[Record, ...]], Sequence[Record]]


@cache
def corpora() -> dict[str, tuple[Record, ...]]:
    """Two domains, prepared alike, none of whose texts occurs twice, with a gap between them."""
    language, rng = Language(), np.random.default_rng(3)
    domains = {"train": "camera", "dev": "camera", "unlabelled": "laptop", "test": "laptop", "ceiling": "laptop"}
    return {
        part: tuple(language.record(rng, domain, f"{part}-{i}") for i in range(SIZES[part]))
        for part, domain in domains.items()
    }


def problem(**changes: Change) -> Domains:
    """The clean problem, with some parts changed: train, dev, unlabelled, test, ceiling."""
    part = {name: tuple(changes[name](r)) if name in changes else r for name, r in corpora().items()}
    return Domains(
        "camera",
        "laptop",
        part["train"],
        part["dev"],
        (),
        TargetUnlabeled.from_records("laptop", part["unlabelled"]),
        SealedTest("laptop", lambda: part["test"]),
        lambda: Ceiling(part["ceiling"], ()),
    )


@pytest.fixture
def parts() -> Parts:
    """The clean problem, opened."""
    return gather(problem())


@pytest.fixture
def planted() -> Callable[..., Parts]:
    """Parts of the clean problem with a trap: `planted(test=lambda records: ...)`."""
    return lambda **changes: gather(problem(**changes))


def with_text(record: Record, text: str) -> Record:
    """The record with another text, its spans left out of it."""
    return replace(record, text=text, spans=())
