"""What a model gave out for the texts or words that are classified: probabilities, features, classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    from domadapt.syntax.alignment import IntArray

MATTERS = 0.05  # probability of being something from which on a word counts
FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Predicted:
    """Rows of one pass over texts, in no particular order: one a text, or one a word."""

    probabilities: FloatArray  #: (rows, classes)
    features: NDArray[np.float16]  #: (rows, width) what the task head reads, in half precision
    texts: IntArray  #: (rows,) place of the text in its list
    words: IntArray  #: (rows,) number of the word in its text; 0 where texts are classified
    classes: IntArray  #: (rows,) true classes; -1 where there are none
    o_class: int = -1  #: the class of words that are nothing; -1 where every row is something

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def labelled(self) -> bool:
        return bool(len(self) and (self.classes >= 0).all())

    def where(self, chosen: Any) -> Predicted:
        """Some of the rows, by a mask or by numbers."""
        return Predicted(**{name: getattr(self, name)[chosen] for name in ARRAYS}, o_class=self.o_class)

    def candidates(self) -> Predicted:
        """Rows that could be something, or are: most words are plainly nothing, and drown what is to be seen.

        >>> none, gold = np.zeros(3, np.int64), np.array([0, 0, 1])
        >>> sure = np.array([[0.99, 0.01], [0.6, 0.4], [0.99, 0.01]], np.float32)
        >>> len(Predicted(sure, none, none, none, gold, o_class=0).candidates())
        2
        """
        if self.o_class < 0:
            return self
        labelled = (self.classes >= 0) & (self.classes != self.o_class)  # which an epoch may surely miss
        return self.where((1 - self.probabilities[:, self.o_class] > MATTERS) | labelled)


ARRAYS = tuple(field.name for field in fields(Predicted) if field.name != "o_class")


def rows_of(
    logits: Tensor, features: Tensor, texts: Tensor, words: Tensor, classes: Tensor | None, o_class: int
) -> Predicted:
    """Tensors of a batch, (rows, ...) each, as :class:`Predicted`."""
    known = classes.cpu().numpy() if classes is not None else np.full(len(texts), -1, dtype=np.int64)
    sure, half = logits.float().softmax(-1).cpu().numpy(), features.half().cpu().numpy()
    return Predicted(sure, half, texts.cpu().numpy(), words.cpu().numpy(), known, o_class)


def joined(parts: Sequence[Predicted], classes: int) -> Predicted:
    if not parts:
        none = np.empty(0, np.int64)
        return Predicted(np.empty((0, classes), np.float32), np.empty((0, 0), np.float16), none, none, none)
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    return Predicted(**arrays, o_class=parts[0].o_class)


def spans_of_tags(tags: IntArray, begins: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Spans as (first word, last word, type) of BIO tags: 0 is O, 1 + 2 k a B and 2 + 2 k an I of type k.

    An I without its B begins one. Tags are of all texts in a row; ``begins`` says where a word can't go on with a span.

    >>> spans_of_tags(np.array([0, 1, 2, 4, 4]), np.array([True, False, False, False, True]))
    [(1, 2, 0), (3, 3, 1), (4, 4, 1)]
    """
    spans: list[tuple[int, int, int]] = []
    for place in np.flatnonzero(tags).tolist():
        kind, inside = divmod(int(tags[place]) - 1, 2)
        previous = 0 if begins[place] else int(tags[place - 1])
        if previous and (previous - 1) // 2 == kind and inside:
            spans[-1] = (spans[-1][0], place, kind)
        else:
            spans.append((place, place, kind))
    return spans
