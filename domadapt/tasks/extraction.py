"""Spans in a text, such as aspect and opinion terms: BIO tags on words, by the backbone's stock token head."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from domadapt.data.batches import Batch
from domadapt.data.records import Record, Span, bio_tags
from domadapt.models.output import Output, word_logits
from domadapt.syntax.alignment import IGNORED, IntArray
from domadapt.tasks.known import check_annotated, check_known
from domadapt.tasks.rows import Rows, rows
from domadapt.tasks.scores import Scores, set_scores
from domadapt.tasks.tagged import tag_names
from domadapt.tasks.task import Prediction

# Of words of one type that stand side by side, the share that is one span in the source: from here on they always are.
ONE_SPAN: Final = 0.96
NEVER_MET: Final = 3  # how often what was never met may still come (95 % sure, the rule of three): few tell nothing


class Extraction:
    """Span extraction. Each word's class is read at its first piece; scores are of exact spans.

    Annotators hardly ever put two terms side by side, networks in a new domain do ('hot' and 'dogs'). Where the source
    has next to none of a type, what is predicted side by side is one span.

    Args:
        types: span types; None takes those of the source's training records.
        average: what ``span_f1`` is: ``macro``, the mean of each type's F1, or ``micro``, the F1 of all spans together.
        joined: types whose spans never stand side by side; None asks the source (:func:`never_adjoin`).
    """

    kind = "token"
    headline = "span_f1"

    def __init__(self, types: list[str] | None = None, average: str = "macro", joined: list[str] | None = None) -> None:
        for name, value in (("types", types), ("joined", joined)):
            if isinstance(value, str):
                raise ValueError(f"task.{name}={value!r}: expected a list, such as task.{name}=[aspect,opinion]")
        if average not in ("macro", "micro"):
            raise ValueError(f"task.average={average!r}: expected macro or micro")
        self.average = average
        self.types = [str(kind) for kind in types or []]
        if twice := [kind for kind in self.types if self.types.count(kind) > 1]:
            raise ValueError(
                f"task.types={self.types}: {twice[0]!r} is there twice, and would count twice; name it once"
            )
        self.joined = None if joined is None else [str(kind) for kind in joined]
        self._check_joined()
        self.labels = tag_names(self.types)

    def _check_joined(self) -> None:
        if self.types and (unknown := sorted({*(self.joined or ())} - {*self.types})):
            raise ValueError(f"task.joined={self.joined}: {unknown[0]!r} is no span type; known: {self.types}")

    def learn_labels(self, records: Sequence[Record]) -> None:
        """Span types of the source, and which of them never adjoin, unless the configuration names them."""
        self.types = self.types or sorted({s.type for r in records for s in r.spans or ()})
        if not self.types:
            raise ValueError("task=extraction: the source has no spans; give BIO tags or spans, or task=classification")
        self._check_joined()
        if self.joined is None:
            self.joined = [kind for kind in self.types if never_adjoin(records, kind)]
        self.labels = tag_names(self.types)

    def check(self, records: Sequence[Record]) -> None:
        """Every record is annotated, with known types.

        Raises:
            DataError: naming file, line and the known types.
        """
        for record in records:
            check_annotated(record, "spans or tags", record.spans, "extraction")
            for span in record.spans or ():
                check_known(record, "span type", span.type, self.types)

    def usable(self, records: tuple[Record, ...], warnings: Counter[str]) -> tuple[Record, ...]:
        """All: a record without annotation is an error, told by :meth:`check`."""
        return records

    def targets(
        self, records: Sequence[Record], words: Sequence[IntArray], warnings: Counter[str]
    ) -> dict[str, list[Any]]:
        """Tag ids of words; a span that starts or ends inside a word takes the whole word."""
        ids = {name: i for i, name in enumerate(self.labels)}
        tagged = [
            bio_tags(tuple((int(start), int(end)) for start, end in ranges), record.spans or (), warnings)
            for record, ranges in zip(records, words, strict=True)
        ]
        return {"word_tags": [np.array([ids[t] for t in tags], dtype=np.int64) for tags in tagged]}

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """Mean cross entropy over words that have a piece."""
        assert batch.word_tags is not None
        logits = word_logits(output, batch).float()
        total = F.cross_entropy(logits, batch.word_tags, ignore_index=IGNORED, reduction="sum")
        return total / (batch.word_tags != IGNORED).sum().clamp(min=1)

    def rows(self, output: Output, batch: Batch) -> Rows:
        """One row a word that has a piece."""
        read = batch.node_first_piece >= 0
        features = output.states.flatten(0, 1).index_select(0, batch.node_first_piece.clamp(min=0))
        texts, numbers = batch.node_places()
        classes = None if batch.word_tags is None else batch.word_tags[read]
        logits = word_logits(output, batch)[read]
        return rows(logits, features[read], batch.index[texts[read]], numbers[read], classes, outside=0)

    def decode(self, output: Output, batch: Batch, words: Sequence[IntArray]) -> list[Prediction]:
        """The likeliest tag of each word, joined to spans; whitespace does not end a span."""
        joined = self.joined or ()
        confidence, best = word_logits(output, batch).float().softmax(-1).max(-1)
        read = batch.node_first_piece >= 0  # not whitespace, not truncated
        parts = zip(*(t.cpu().split(batch.words.tolist()) for t in (best, confidence, read)), words, strict=True)
        return [
            Prediction(
                spans=spans_of(
                    [self.labels[t] for t in tags[seen].tolist()], ranges[seen.numpy()], sure[seen].tolist(), joined
                ),
                confidence=float(sure[seen].mean()) if seen.any() else 1.0,
            )
            for tags, sure, seen, ranges in parts
        ]

    def score(self, records: Sequence[Record], predictions: Sequence[Prediction]) -> Scores:
        """Exact-span F1 of each type, and their average; a span counts only with its type."""
        gold = {(i, s) for i, r in enumerate(records) for s in r.spans or ()}
        found = {(i, s) for i, p in enumerate(predictions) for s in p.spans}
        scores: Scores = {}
        for kind in self.types:
            own_gold, own_found = ({(i, s) for i, s in spans if s.type == kind} for spans in (gold, found))
            scores |= set_scores(own_gold, own_found, kind)
        if self.average == "micro":
            return set_scores(gold, found, "span") | scores
        return {"span_f1": float(np.mean([scores[f"{kind}_f1"] for kind in self.types]))} | scores


def never_adjoin(records: Sequence[Record], kind: str) -> bool:
    """Whether words of a span type that stand side by side are one span in nearly all cases (:data:`ONE_SPAN`).

    It takes 72 cases to tell; with fewer it is False.

    >>> text = "hot dogs and battery life"
    >>> two = Record("1", "food", text, spans=(Span(0, 8, "aspect"), Span(13, 25, "aspect")))
    >>> never_adjoin([two] * 50, "aspect"), never_adjoin([two] * 50, "opinion"), never_adjoin([two] * 9, "aspect")
    (True, False, False)
    >>> apart = Record("1", "food", text, spans=(Span(0, 3, "aspect"), Span(4, 8, "aspect")))
    >>> never_adjoin([two] * 50 + [apart] * 3, "aspect")
    False
    """
    inside = between = 0
    for record in records:
        own = sorted((s.start, s.end) for s in record.spans or () if s.type == kind)
        inside += sum(len(record.text[start:end].split()) - 1 for start, end in own)
        between += sum(not record.text[first[1] : second[0]].strip() for first, second in pairwise(own))
    return inside >= ONE_SPAN * (inside + between + NEVER_MET)


def spans_of(
    tags: Sequence[str], words: IntArray, sure: Sequence[float], joined: Collection[str] = ()
) -> tuple[Span, ...]:
    """Spans of a predicted tag sequence; an I without its B begins a span.

    Args:
        tags: one a word.
        words: (words, 2) character ranges.
        sure: probability of each tag; a span's confidence is the mean of its words', as in transformers' pipelines.
        joined: types of which a B goes on with the span that ends at the word before it.

    >>> found = spans_of(["O", "B-aspect", "I-aspect"], np.array([[0, 1], [2, 9], [10, 14]]), [0.9, 0.8, 0.6])
    >>> found, found[0].confidence
    ((Span(start=2, end=14, type='aspect'),), 0.7)
    """
    groups: list[list[int]] = []
    previous = "O"
    for word, tag in enumerate(tags):
        if tag != "O" and previous[2:] == tag[2:] and (tag[0] == "I" or tag[2:] in joined):
            groups[-1].append(word)
        elif tag != "O":
            groups.append([word])
        previous = tag
    return tuple(
        Span(int(words[g[0], 0]), int(words[g[-1], 1]), tags[g[0]][2:], sum(sure[word] for word in g) / len(g))
        for g in groups
    )
