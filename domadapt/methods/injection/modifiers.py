r"""Where a span begins, by the parse: words that the source's annotation takes in with their head.

A network in a new domain finds 'drive' where 'dvd drive' is the term, having met neither word; that one is a compound
of the other the parser sees in any domain. On the source it is counted, for each span type k and relation r, how often
a word that stands before its head, which is in a span of the type, is in the span as well:

.. math:: \text{share}_{k,r} = \frac{\#\{\text{inside}\}}{\#\{\text{inside}\} + \#\{\text{directly before the span}\}}.

Where this is at least ``share``, a predicted span is extended to the left as long as the word before it hangs by such a
relation on a word in it, and is in no other span. In reviews of restaurants, laptops and devices this is so of
compounds (.92, .95 and .94 are in the term) and of next to nothing else (adjectives: .2 to .3).

No word is learnt, and no weight: the network is as it was without. Copies the logits of the span's first word to those
before it, after all that other methods add; so what learns from the model's own labels (``self_training``) learns from
these. Reads parses at prediction. Nothing for tasks without spans. Fails where source and target differ in what they
take in, and where the parser fails. Ours.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.data.records import Record
from domadapt.methods.method import Method, in_range
from domadapt.methods.units import with_word_logits
from domadapt.models.encoder import Output
from domadapt.syntax.parser import Parse
from domadapt.tasks.tagged import tagged


class Modifiers(Method):
    """Predicted spans with the modifiers that the source takes in.

    Args:
        share: of a relation's words inside the source's spans, from which on they are taken in.
        least: of such words, inside or directly before, for a relation to count.
    """

    reads = frozenset({"parses_at_prediction"})
    tasks = frozenset({"token"})
    used_at_prediction = True
    transforms_last = True

    def __init__(self, share: float, least: int) -> None:
        super().__init__()
        in_range("modifiers.share", share, 0.0, 1.0)
        in_range("modifiers.least", least, 1)
        self.share, self.least = share, least
        self.taken: dict[str, list[str]] = {}  # relations by span type

    def prepare(self) -> dict[str, Any]:
        """Count the source's modifiers."""
        setting, records = self.setting, self.setting.domains.source_train
        if setting.task.kind != "token":
            self.used_at_prediction = False
            return {}
        inside, before = modifier_counts(records, list(setting.parser.parse(records)))
        shares = {key: inside[key] / (inside[key] + before[key]) for key in inside | before}
        often = {key: inside[key] + before[key] >= self.least for key in shares}
        for kind, relation in sorted(key for key, share in shares.items() if often[key] and share >= self.share):
            self.taken.setdefault(kind, []).append(relation)
        return {f"modifiers/{kind} {name}": shares[kind, name] for kind, names in self.taken.items() for name in names}

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``taken``: (nodes, types) whether spans of the type take in a word of its relation; never without a parse."""
        names = [name for e in examples for name in (e.parse.relations if e.parse else [""] * len(e.words))]
        taken = [[name in self.taken.get(kind, ()) for kind in self.kinds] for name in names]
        return {"taken": torch.tensor(taken, dtype=torch.bool).view(len(names), len(self.kinds))}

    @property
    def kinds(self) -> list[str]:
        """Span types, in the order of their tags."""
        return [label[2:] for label in self.setting.task.labels if label.startswith("B-")]

    def transform(self, output: Output, batch: Batch) -> Output:
        """Spans extended, in scoring and prediction."""
        if self.training or not self.taken or batch.word_heads is None:
            return output
        read = batch.node_first_piece >= 0
        row = torch.where(read, read.cumsum(0) - 1, -1)  # of each word among those with a piece
        texts, above = batch.node_places()[0][read].cpu().numpy(), row[batch.word_heads[read]].cpu().numpy()
        taken = self.own(batch, "taken")[read].cpu().numpy()
        begins = np.diff(texts, prepend=-1) > 0
        joined = {self.kinds.index(kind) for kind in getattr(self.setting.task, "joined", None) or ()}

        def extended(rows: Tensor) -> Tensor:
            tags = rows.argmax(-1).cpu().numpy()
            for first, last, kind in tagged(tags, begins, joined):
                start = extent(first, last, tags == 0, begins, above, taken[:, kind])
                if start < first:
                    own = rows[first].clone()
                    inner = own.clone()
                    begin, inside = 2 * kind + 1, 2 * kind + 2
                    if tags[first] == begin:
                        inner[[begin, inside]] = own[[inside, begin]]
                    rows[start] = own
                    rows[start + 1 : first + 1] = inner
                    tags[start:first] = inside  # in no other span
            return rows

        return with_word_logits(output, batch, extended)

    def memory(self) -> dict[str, Any]:
        """The relations."""
        return {"taken": {kind: list(names) for kind, names in self.taken.items()}}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take them back."""
        self.taken = {str(kind): [*map(str, names)] for kind, names in memory["taken"].items()}


def extent(
    first: int,
    last: int,
    free: NDArray[np.bool_],
    begins: NDArray[np.bool_],
    above: NDArray[np.int64],
    taken: NDArray[np.bool_],
) -> int:
    """The first word of a span with the modifiers before it.

    Args:
        first, last: its words.
        free: (words,) in no span.
        begins: (words,) first of their text.
        above: (words,) each word's head.
        taken: (words,) whose relation is one of those that are taken in.

    >>> words = "my old dvd drive died".split()
    >>> above, taken = np.array([3, 3, 3, 4, 4]), np.array([False, False, True, False, False])
    >>> extent(3, 3, np.array([True] * 3 + [False] + [True]), np.array([True] + [False] * 4), above, taken)
    2
    """
    while not begins[first] and free[first - 1] and taken[first - 1] and first <= above[first - 1] <= last:
        first -= 1
    return first


def modifier_counts(
    records: Sequence[Record], parses: Sequence[Parse]
) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """By span type and relation, words before their head in a span: those in the span, and those directly before it.

    Spans that begin or end within a word are left out.
    """
    inside, before = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for record, parse in zip(records, parses, strict=True):
        starts, ends = ({int(place): word for word, place in enumerate(parse.words[:, side])} for side in (0, 1))
        spans = {(starts.get(s.start), ends.get(s.end), s.type) for s in record.spans or ()}
        for first, last, kind in spans:
            if first is None or last is None:
                continue
            heads, names = parse.heads, parse.relations
            inside.update((kind, names[word]) for word in range(first, last) if word < heads[word] <= last)
            if first and first <= heads[first - 1] <= last:
                before[kind, names[first - 1]] += 1
    return inside, before
