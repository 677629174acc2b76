"""An invented adaptation problem with nothing wrong in it; tests plant a trap and look for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from domadapt.auditing.parts import Parts, gather
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


@pytest.fixture(scope="session")
def clean() -> Domains:
    """Two domains, prepared alike, none of whose texts occurs twice, with a gap between them."""
    language, rng = Language(), np.random.default_rng(3)

    def part(domain: str, name: str) -> tuple[Record, ...]:
        return tuple(language.record(rng, domain, f"{domain}-{name}-{i}") for i in range(SIZES[name]))

    test, ceiling = part("laptop", "test"), part("laptop", "ceiling")
    return Domains(
        "camera",
        "laptop",
        part("camera", "train"),
        part("camera", "dev"),
        (),
        TargetUnlabeled.from_records("laptop", part("laptop", "unlabelled")),
        SealedTest("laptop", lambda: test),
        lambda: Ceiling(ceiling, ()),
    )


Change = Callable[[tuple[Record, ...]], Sequence[Record]]


@pytest.fixture
def parts(clean: Domains) -> Parts:
    """The clean problem, opened."""
    assert clean.test is not None
    return gather(reopened(clean))


def reopened(domains: Domains, **changes: Change) -> Domains:
    """A copy whose test is sealed, with some parts changed: train, dev, unlabelled, test, ceiling."""

    def changed(name: str, records: tuple[Record, ...]) -> tuple[Record, ...]:
        return tuple(changes[name](records)) if name in changes else records

    key = id(domains)
    if key not in _OPENED:
        assert domains.test is not None
        assert domains.ceiling is not None
        _OPENED[key] = (domains.test.open(), domains.ceiling().train)
    test, ceiling = _OPENED[key]
    unlabelled = tuple(Record(t.id, t.domain, t.text, t.words) for t in domains.unlabeled.texts)
    return replace(
        domains,
        source_train=changed("train", domains.source_train),
        source_dev=changed("dev", domains.source_dev),
        unlabeled=TargetUnlabeled.from_records("laptop", changed("unlabelled", unlabelled)),
        test=SealedTest("laptop", lambda: changed("test", test)),
        ceiling=lambda: Ceiling(changed("ceiling", ceiling), ()),
    )


_OPENED: dict[int, tuple[tuple[Record, ...], tuple[Record, ...]]] = {}


@pytest.fixture
def planted(clean: Domains) -> Callable[..., Parts]:
    """Parts of the clean problem with a trap: `planted(test=lambda records: ...)`."""
    return lambda **changes: gather(reopened(clean, **changes))


def with_text(record: Record, text: str) -> Record:
    """The record with another text, its spans left out of it."""
    return replace(record, text=text, spans=())
