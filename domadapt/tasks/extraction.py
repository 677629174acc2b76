"""Spans in a text, such as aspect and opinion terms: BIO tags on words, by the backbone's stock token head."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.data.records import Record, Span, bio_tags
from domadapt.models.output import Output, word_logits
from domadapt.syntax.alignment import IGNORED, IntArray
from domadapt.tasks.decoding import marginals, transition_scores, viterbi
from domadapt.tasks.task import (
    Prediction,
    Rows,
    Scores,
    check_annotated,
    check_known,
    check_temperature,
    rows,
    set_scores,
    tempered,
)


def tag_names(types: Sequence[str]) -> list[str]:
    """BIO tags of span types.

    >>> tag_names(["aspect"])
    ['O', 'B-aspect', 'I-aspect']
    """
    return ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]


def tagged(
    tags: NDArray[np.int64], begins: NDArray[np.bool_], joined: Collection[int] = ()
) -> list[tuple[int, int, int]]:
    """Spans as (first word, last word, type); an I without its B begins one.

    Args:
        tags: (words,) of all texts, one after the other.
        begins: (words,) whether a word can't go on from the one before it: a text begins there.
        joined: types of which a B goes on with the span that ends at the word before it.

    >>> tagged(np.array([0, 1, 2, 4, 4]), np.array([True, False, False, False, True]))
    [(1, 2, 0), (3, 3, 1), (4, 4, 1)]
    >>> tagged(np.array([1, 1, 1]), np.array([True, False, True]), joined=[0])
    [(0, 1, 0), (2, 2, 0)]
    """
    found: list[tuple[int, int, int]] = []
    for place in np.flatnonzero(tags).tolist():
        kind, inside = divmod(int(tags[place]) - 1, 2)
        before = 0 if begins[place] else int(tags[place - 1])
        if before and (before - 1) // 2 == kind and (inside or kind in joined):
            found[-1] = (found[-1][0], place, kind)
        else:
            found.append((place, place, kind))
    return found


# Half a vote for how tags follow each other. On 22 networks of MEMD, SemEval and XABSA the mean F1 of aspects is 58.7
# word by word, 60.5 at .25, 60.6 at .5 and 60.2 at 1; opinions lose at 1.
TRANSITION_WEIGHT: Final = 0.5


class Extraction:
    """Span extraction. Each word's class is read at its first piece, a text's tags are decoded together
    (:mod:`domadapt.tasks.decoding`), and scores are of exact spans.

    Args:
        types: span types; None takes those of the source's training records.
        average: what ``span_f1`` is: ``macro``, the mean of each type's F1, or ``micro``, the F1 of all spans together.
        transition_weight: w, what the source's transitions between tags count for; 0 decodes word by word.
        temperature: of confidences, of a saved model; training fits it to source dev.
        transitions: their scores, (tags + 1, tags), of a saved model; training counts them.
    """

    kind = "token"
    headline = "span_f1"

    def __init__(
        self,
        types: list[str] | None = None,
        average: str = "macro",
        transition_weight: float = TRANSITION_WEIGHT,
        transitions: list[list[float]] | None = None,
        temperature: float = 1.0,
    ) -> None:
        if isinstance(types, str):
            raise ValueError(f"task.types={types!r}: expected a list, such as task.types=[aspect,opinion]")
        if average not in ("macro", "micro"):
            raise ValueError(f"task.average={average!r}: expected macro or micro")
        if type(transition_weight) not in (int, float) or not 0 <= transition_weight <= 10:
            raise ValueError(f"task.transition_weight={transition_weight!r}: expected a number from 0 to 10")
        self.average, self.transition_weight = average, float(transition_weight)
        self.temperature = check_temperature(temperature)
        self.types = [str(kind) for kind in types or []]
        if twice := [kind for kind in self.types if self.types.count(kind) > 1]:
            raise ValueError(
                f"task.types={self.types}: {twice[0]!r} is there twice, and would count twice; name it once"
            )
        self.labels = tag_names(self.types)
        self.transitions = torch.zeros(len(self.labels) + 1, len(self.labels))
        if transitions is not None:
            self.transitions = torch.tensor(transitions, dtype=torch.float32)
            if self.transitions.shape != (len(self.labels) + 1, len(self.labels)):
                raise ValueError(
                    f"task.transitions: {tuple(self.transitions.shape)} scores; expected one row more than the "
                    f"{len(self.labels)} tags of task.types, and a column a tag"
                )

    def learn_labels(self, records: Sequence[Record]) -> None:
        """Span types of the source, unless the configuration names them."""
        self.types = self.types or sorted({s.type for r in records for s in r.spans or ()})
        if not self.types:
            raise ValueError("task=extraction: the source has no spans; give BIO tags or spans, or task=classification")
        self.labels = tag_names(self.types)
        self.transitions = torch.zeros(len(self.labels) + 1, len(self.labels))

    def learn_transitions(self, examples: Sequence[Example]) -> None:
        """Count how tags follow each other in labelled examples of the source."""
        tags = [example.word_tags for example in examples if example.word_tags is not None]
        self.transitions = transition_scores(tags, len(self.labels))

    def learnt(self) -> dict[str, Any]:
        """What a saved model needs to be told of the task."""
        transitions = [[round(v, 4) for v in row] for row in self.transitions.tolist()]
        return {"types": self.types, "transitions": transitions, "temperature": round(self.temperature, 4)}

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
        """One row a word that has a piece; probabilities are over all sequences of tags."""
        read = batch.node_first_piece >= 0
        features = output.states.flatten(0, 1).index_select(0, batch.node_first_piece.clamp(min=0))
        texts, numbers = batch.node_places()
        classes = None if batch.word_tags is None else batch.word_tags[read]
        return rows(
            self.log_probabilities(output, batch), features[read], batch.index[texts[read]], numbers[read], classes, 0
        )

    def log_probabilities(self, output: Output, batch: Batch) -> Tensor:
        """(words with a piece, tags) log-probability of each tag over all sequences."""
        scores, lengths, inside = self._scores(output, batch)
        return marginals(scores, lengths, self._weighted(scores))[inside]

    def _weighted(self, scores: Tensor) -> Tensor:
        return self.transition_weight * self.transitions.to(scores.device)

    def _scores(self, output: Output, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(texts, words, tags) of the network's words that have a piece, how many each text has, where they are."""
        read = batch.node_first_piece >= 0  # not whitespace, not truncated
        lengths = torch.bincount(batch.node_places()[0][read], minlength=len(batch.words))
        logits = word_logits(output, batch)[read].float().log_softmax(-1)
        inside = torch.arange(int(lengths.max()) if len(lengths) else 0, device=logits.device) < lengths.unsqueeze(1)
        scores = logits.new_zeros(*inside.shape, logits.shape[-1])
        scores[inside] = logits
        return scores, lengths, inside

    def decode(self, output: Output, batch: Batch, words: Sequence[IntArray]) -> list[Prediction]:
        """Spans of the best sequence of tags; whitespace does not end a span."""
        scores, lengths, inside = self._scores(output, batch)
        weighted = self._weighted(scores)
        best = viterbi(scores, lengths, weighted)[inside]
        probabilities = tempered(marginals(scores, lengths, weighted)[inside], self.temperature)
        sure = probabilities.gather(1, best.unsqueeze(1)).squeeze(1)
        read = (batch.node_first_piece >= 0).cpu().split(batch.words.tolist())
        parts = zip(*(t.cpu().split(lengths.tolist()) for t in (best, sure)), read, words, strict=True)
        return [
            Prediction(
                spans=spans_of([self.labels[t] for t in tags.tolist()], ranges[seen.numpy()], own.tolist()),
                confidence=float(own.mean()) if len(own) else 1.0,
            )
            for tags, own, seen, ranges in parts
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


def spans_of(tags: Sequence[str], words: IntArray, sure: Sequence[float]) -> tuple[Span, ...]:
    """Spans of a predicted tag sequence; an I without its B begins a span.

    Args:
        words: (words, 2) character ranges.
        sure: probability of each tag; a span's confidence is the mean of its words', as in transformers' pipelines.

    >>> found = spans_of(["O", "B-aspect", "I-aspect"], np.array([[0, 1], [2, 9], [10, 14]]), [0.9, 0.8, 0.6])
    >>> found, found[0].confidence
    ((Span(start=2, end=14, type='aspect'),), 0.7)
    """
    groups: list[list[int]] = []
    previous = "O"
    for word, tag in enumerate(tags):
        if tag != "O" and previous[2:] == tag[2:] and tag[0] == "I":
            groups[-1].append(word)
        elif tag != "O":
            groups.append([word])
        previous = tag
    return tuple(
        Span(int(words[g[0], 0]), int(words[g[-1], 1]), tags[g[0]][2:], sum(sure[word] for word in g) / len(g))
        for g in groups
    )
