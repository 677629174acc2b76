r"""How often a few labelled target texts have spans, held to when the model predicts.

Guidelines differ between corpora: whether every judgement is marked, or only one of a feature that is named; whether a
feature counts that nobody judges. No unlabelled text tells. A few labelled ones do, as rates, which a network that has
read them among thousands of source texts hardly learns from them. With n labelled target texts
(``target_labels``), a rate is taken to be

.. math:: r = \frac{n \, r_{labels} + k \, r_{source}}{n + k},

and where more is found in the unlabelled target, a constant is taken off the log-odds until it is not. Only a rate that
the labels show to be below the source's is believed: where one draw in twenty or more of a source like this one would
have as few spans (Poisson), nothing is held. Two things are held so: spans per text of each type that judges, such as
opinions; and terms per text in those texts in which nothing judges. Terms beside a judgement are left alone, and so is
what is found too seldom: which words these are, no rate tells.

Nothing without target labels, nothing where texts are classified, and for terms nothing where no other type is
annotated. Costs a pass over target text after each epoch. Fails where the labelled texts were not drawn at random.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from domadapt.data.batches import Batch
from domadapt.methods.found_terms import found_terms, held_to, of_judged_texts, read_words, text_begins
from domadapt.methods.method import Method, in_range
from domadapt.methods.term_rates import of_the_source, terms_per_text
from domadapt.methods.term_types import term_kinds, term_labels
from domadapt.methods.units import with_word_logits
from domadapt.models.output import Output

CHANCE = 0.05  # of a draw with as few spans, below which it is no chance
UNJUDGED = "terms where nothing judges"  # beside the types, in ``most`` and ``held``


class LabelRates(Method):
    """Rates of the labelled target texts at decoding.

    Args:
        prior: how many labelled target texts the source's rate counts for.
        texts: target texts that are read after each epoch; a fixed sample.
        batch_size: of these.

    Attributes:
        most: spans a text, by type that judges, and :data:`UNJUDGED`, where the labels have fewer than the source.
        held: what is added to the logits of each, zero or below.
    """

    reads = frozenset({"target", "corpus_parses"})
    used_at_prediction = True

    def __init__(self, prior: float, texts: int, batch_size: int) -> None:
        super().__init__()
        in_range("label_rates.prior", prior, 0.0, 1e6)
        in_range("label_rates.texts", texts, 1)
        in_range("label_rates.batch_size", batch_size, 1)
        self.prior, self.texts, self.batch_size = prior, texts, batch_size
        self.terms: list[int] = []
        self.most: dict[str, float] = {}
        self.held: dict[str, float] = {}

    def prepare(self) -> dict[str, Any]:
        """Count the labels."""
        setting, labelled = self.setting, self.setting.domains.target_records
        kinds = term_kinds(setting) if setting.task.kind == "token" else frozenset()
        judging = sorted({kind for label in setting.task.labels if (kind := label[2:])} - kinds) if kinds else []
        self.used_at_prediction = bool(labelled and judging)
        if not self.used_at_prediction:
            return {"label_rates/texts": 0}
        source = of_the_source(setting.domains)
        self.terms = term_labels(setting)
        rates: dict[str, tuple[int, int, float]] = {}  # spans, texts, and the source's spans a text
        for kind in judging:
            spans = sum(span.type == kind for record in labelled for span in record.spans or ())
            theirs = sum(span.type == kind for record in source for span in record.spans or ()) / max(1, len(source))
            rates[kind] = spans, len(labelled), theirs
        silent = [record for record in labelled if all(span.type in kinds for span in record.spans or ())]
        terms = sum(len(record.spans or ()) for record in silent)
        rates[UNJUDGED] = terms, len(silent), terms_per_text(source, kinds).without
        self.most = {name: rate(*found, self.prior) for name, found in rates.items() if fewer(*found)}
        return {"label_rates/texts": len(labelled)} | {f"label_rates/{name}": most for name, most in self.most.items()}

    def after_epoch(self, epoch: int) -> None:
        """Read the target with the model as it is now, and count."""
        self.held = {}
        if not self.most:
            return
        examples = self.setting.target_sample(self.texts, seed=0)
        read = [read_words(*both)[:2] for both in self.setting.outputs(examples, self.batch_size, "count spans")]
        if not read:
            return
        logits, begins = (torch.cat(parts) for parts in zip(*read, strict=True))
        for kind in (name for name in self.most if name != UNJUDGED):  # in their order: a set's is another every time
            self.held[kind] = self.constant(logits, begins, self.labels(kind), self.most[kind])
            logits[:, self.labels(kind)] += self.held[kind]
        silent = ~of_judged_texts(logits, begins, self.terms)
        self.held[UNJUDGED] = self.constant(logits[silent], begins[silent], self.terms, self.most[UNJUDGED])

    def constant(self, logits: Tensor, begins: Tensor, labels: Sequence[int], most: float) -> float:
        """What brings some labels' spans down to so many a text."""

        def found(constant: float) -> float:
            moved = logits.clone()
            moved[:, labels] += constant
            return found_terms(moved, begins, labels)

        return held_to(most * float(begins.sum()), found) if len(begins) else 0.0

    def labels(self, kind: str) -> list[int]:
        """Of a span type."""
        return [place for place, label in enumerate(self.setting.task.labels) if label[2:] == kind]

    def transform(self, output: Output, batch: Batch) -> Output:
        """In scoring and prediction: first what judges, then terms where nothing does."""
        if self.training or not any(self.held.values()):
            return output

        def held(rows: Tensor) -> Tensor:
            for kind, constant in self.held.items():
                if kind != UNJUDGED:
                    rows[:, self.labels(kind)] += constant
            silent = ~of_judged_texts(rows, text_begins(batch), self.terms)
            rows[:, self.terms] += (self.held.get(UNJUDGED, 0.0) * silent).unsqueeze(1)
            return rows

        return with_word_logits(output, batch, held)

    def memory(self) -> dict[str, Any]:
        """The constants."""
        return {"terms": self.terms, "held": self.held, "most": self.most}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take them back."""
        self.terms, self.held, self.most = list(memory["terms"]), dict(memory["held"]), dict(memory["most"])


def fewer(spans: int, texts: int, source: float) -> bool:
    """Whether so few spans would be a rare draw of texts with the source's rate.

    >>> fewer(9, 32, 0.81), fewer(4, 8, 0.8)
    (True, False)
    """
    from scipy.stats import poisson  # a second, which prediction does not need

    return bool(poisson.cdf(spans, texts * source) < CHANCE)


def rate(spans: int, texts: int, source: float, prior: float) -> float:
    """Spans a text, of the labelled texts and so many of the source's.

    >>> rate(4, 8, 1.5, prior=8)
    1.0
    """
    return (spans + prior * source) / (texts + prior) if texts + prior else source
