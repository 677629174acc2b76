"""Spans in a text, such as aspect and opinion terms: BIO tags on words, by the backbone's stock token head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from domadapt.config.overrides import in_range, one_of
from domadapt.data.records import Record, Span, bio_tags
from domadapt.tasks.rows import Predicted, rows_of, spans_of_tags
from domadapt.tasks.task import Prediction, Scores, Targets, Task, check_annotated, check_known, set_scores, tempered
from domadapt.utils.pairs import are_pairs

if TYPE_CHECKING:  # labels are checked before torch is loaded
    from torch import Tensor

    from domadapt.data.batches import Batch, Example
    from domadapt.models.contracts import Output
    from domadapt.syntax.alignment import IntArray


def tag_names(types: Sequence[str]) -> list[str]:
    """BIO tags of span types.

    >>> tag_names(["aspect"])
    ['O', 'B-aspect', 'I-aspect']
    """
    return ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]


# Half a vote for how tags follow each other. On 22 networks of MEMD, SemEval and XABSA the mean F1 of aspects is 58.7
# word by word, 60.5 at .25, 60.6 at .5 and 60.2 at 1; opinions lose at 1.
TRANSITION_WEIGHT: Final = 0.5


class Extraction(Task):
    """Span extraction. Each word's class is read at its first piece, and scores are of exact spans.

    A saved model also gives (tags + 1, tags) scores of transitions and the temperature; training fits both.
    """

    kind = "token"
    field, annotation = "spans", "a list of spans"  # be it empty: where the list itself is missing, nobody has looked
    headline = "span_f1"

    def __init__(
        self,
        types: list[str] | None = None,
        average: str = "macro",
        transition_weight: float = TRANSITION_WEIGHT,
        transitions: list[list[float]] | None = None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(temperature)
        if isinstance(types, str):
            raise ValueError(f"task.types={types!r}: expected a list, such as task.types=[aspect,opinion]")
        one_of("task.average", average, "macro", "micro")
        in_range("task.transition_weight", transition_weight, 0, 10)
        self.average, self.transition_weight = average, float(transition_weight)
        self.types = [str(kind) for kind in types or []]
        if twice := [kind for kind in self.types if self.types.count(kind) > 1]:
            raise ValueError(f"task.types={self.types}: {twice[0]!r} is there twice, and would count so; name it once")
        self.labels = tag_names(self.types)
        self.transitions = np.zeros((len(self.labels) + 1, len(self.labels)), np.float32)
        if transitions is not None:
            self.transitions = np.array(transitions, np.float32)
            if self.transitions.shape != (len(self.labels) + 1, len(self.labels)):
                expected = f"expected one row more than the {len(self.labels)} tags of task.types, and a column a tag"
                raise ValueError(f"task.transitions: {self.transitions.shape} scores; {expected}")

    def learn_labels(self, records: Sequence[Record]) -> None:
        if are_pairs((record.text for record in records), "the source"):
            raise ValueError("task=extraction: pairs of texts take one label each; spans are found in single texts")
        self.types = self.types or sorted({s.type for r in records for s in r.spans or ()})
        if not self.types:
            raise ValueError("task=extraction: the source has no spans; give BIO tags or spans, or task=classification")
        self.labels = tag_names(self.types)
        self.transitions = np.zeros((len(self.labels) + 1, len(self.labels)), np.float32)

    def learn_transitions(self, examples: Sequence[Example]) -> None:
        """Count how tags follow each other in labelled examples of the source."""
        from domadapt.tasks.decoding import transition_scores

        tags = [example.word_tags for example in examples if example.word_tags is not None]
        self.transitions = transition_scores(tags, len(self.labels))

    def learnt(self) -> dict[str, Any]:
        transitions = [[round(v, 4) for v in row] for row in self.transitions.tolist()]
        return {"types": self.types, "transitions": transitions, "temperature": round(self.temperature, 4)}

    def check(self, records: Sequence[Record]) -> None:
        self.check_texts((record.text for record in records), "a labelled text")
        for record in records:
            check_annotated(record, "spans or tags", record.spans, "extraction")
            for span in record.spans or ():
                check_known(record, "span type", span.type, self.types)

    def targets(self, records: Sequence[Record], words: Sequence[IntArray], warnings: Counter[str]) -> Targets:
        """Tag ids of words; a span that starts or ends inside a word takes the whole word."""
        ids = {name: i for i, name in enumerate(self.labels)}
        tagged = [
            bio_tags(tuple((int(start), int(end)) for start, end in ranges), record.spans or (), warnings)
            for record, ranges in zip(records, words, strict=True)
        ]
        return {"word_tags": [np.array([ids[t] for t in tags], dtype=np.int64) for tags in tagged]}

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """Mean cross entropy over words that have a piece."""
        import torch.nn.functional as F

        from domadapt.models.encoder import word_logits
        from domadapt.syntax.alignment import IGNORED

        assert batch.word_tags is not None
        logits = word_logits(output, batch).float()
        total = F.cross_entropy(logits, batch.word_tags, ignore_index=IGNORED, reduction="sum")
        return total / (batch.word_tags != IGNORED).sum().clamp(min=1)

    def rows(self, output: Output, batch: Batch) -> Predicted:
        """One row a word that has a piece; probabilities are over all sequences of tags."""
        read = batch.node_first_piece >= 0
        features = output.states.flatten(0, 1).index_select(0, batch.node_first_piece.clamp(min=0))[read]
        texts, numbers = batch.node_places()
        classes = None if batch.word_tags is None else batch.word_tags[read]
        logs = self.log_probabilities(output, batch)
        return rows_of(logs, features, batch.index[texts[read]], numbers[read], classes, o_class=0)

    def log_probabilities(self, output: Output, batch: Batch) -> Tensor:
        """(words with a piece, tags) log-probability of each tag over all sequences."""
        from domadapt.tasks.decoding import marginals

        scores, lengths, inside, transitions = self._scores(output, batch)
        return marginals(scores, lengths, transitions)[inside]

    def best_tags(self, output: Output, batch: Batch) -> Tensor:
        """(words with a piece,) tag of each in its text's best sequence."""
        from domadapt.tasks.decoding import viterbi

        scores, lengths, inside, transitions = self._scores(output, batch)
        return viterbi(scores, lengths, transitions)[inside]

    def _scores(self, output: Output, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(texts, words, tags) of words that have a piece, how many each text has, where; and weighted transitions."""
        import torch

        from domadapt.models.encoder import word_logits

        read = batch.node_first_piece >= 0  # not whitespace, not truncated
        lengths = torch.bincount(batch.node_places()[0][read], minlength=len(batch.words))
        logits = word_logits(output, batch)[read].float().log_softmax(-1)
        inside = torch.arange(int(lengths.max()) if len(lengths) else 0, device=logits.device) < lengths.unsqueeze(1)
        scores = logits.new_zeros(*inside.shape, logits.shape[-1])
        scores[inside] = logits
        return scores, lengths, inside, self.transition_weight * torch.from_numpy(self.transitions).to(scores.device)

    def decode(self, output: Output, batch: Batch, words: Sequence[IntArray]) -> list[Prediction]:
        """Spans of the best sequence of tags; whitespace does not end a span."""
        from domadapt.tasks.decoding import marginals, viterbi

        scores, lengths, inside, transitions = self._scores(output, batch)
        best = viterbi(scores, lengths, transitions)[inside]
        probabilities = tempered(marginals(scores, lengths, transitions)[inside], self.temperature)
        sure = probabilities.gather(1, best.unsqueeze(1)).squeeze(1)
        read = (batch.node_first_piece >= 0).cpu().split(batch.words.tolist())
        parts = zip(*(t.cpu().split(lengths.tolist()) for t in (best, sure)), read, words, strict=True)
        predictions = []
        for tags, chances, seen, ranges in parts:
            spans = self.spans(tags.numpy(), ranges[seen.numpy()], chances.tolist())
            predictions.append(Prediction(spans=spans, confidence=float(chances.mean()) if len(chances) else 1.0))
        return predictions

    def spans(self, tags: IntArray, words: IntArray, sure: Sequence[float]) -> tuple[Span, ...]:
        """Spans of a text's tags, each with its probability; a span's confidence is the mean of its words'.

        >>> words = np.array([[0, 1], [2, 9], [10, 14]])
        >>> [span] = Extraction(["aspect"]).spans(np.array([0, 1, 2]), words, [0.9, 0.8, 0.6])
        >>> span, span.confidence
        (Span(start=2, end=14, type='aspect'), 0.7)
        """
        spans = []
        for first, last, kind in spans_of_tags(tags, np.arange(len(tags)) == 0):
            confidence = sum(sure[first : last + 1]) / (last + 1 - first)
            spans.append(Span(int(words[first, 0]), int(words[last, 1]), self.types[kind], confidence))
        return tuple(spans)

    def score(self, records: Sequence[Record], predictions: Sequence[Prediction]) -> Scores:
        """Exact-span F1 of each type, and the average of those in the gold; a span counts only with its type."""
        gold = {(i, s) for i, r in enumerate(records) for s in r.spans or ()}
        predicted = {(i, s) for i, p in enumerate(predictions) for s in p.spans}
        scores: Scores = {}
        for kind in self.types:
            own_gold, own_predicted = ({(i, s) for i, s in spans if s.type == kind} for spans in (gold, predicted))
            scores |= set_scores(own_gold, own_predicted, kind)
        present = [scores[f"{kind}_f1"] for kind in self.types if scores[f"{kind}_support"]]
        average = {"span_f1": float(np.mean(present or [0.0]))}
        if self.average == "micro":
            average = set_scores(gold, predicted, "span")
        return average | scores | average  # first, and not those of a type that is called span
