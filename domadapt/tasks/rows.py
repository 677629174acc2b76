"""What is classified, one row each: texts, or words of texts."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

MATTERS = 0.05  # probability of being something from which on a word counts
FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one pass over texts, in no particular order.

    Attributes:
        probabilities: (rows, classes).
        features: (rows, width) what the task head reads, in half precision.
        texts: (rows,) place of the text in its list.
        words: (rows,) number of the word in its text; 0 where texts are classified.
        classes: (rows,) true classes; -1 where there are none.
        outside: the class of words that are nothing; -1 where every row is something.
    """

    probabilities: FloatArray
    features: NDArray[np.float16]
    texts: IntArray
    words: IntArray
    classes: IntArray
    outside: int = -1

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def labelled(self) -> bool:
        """Whether the classes are known."""
        return bool(len(self) and (self.classes >= 0).all())

    def where(self, chosen: Any) -> "Rows":
        """Some of the rows, by a mask or by numbers."""
        arrays = {name: getattr(self, name)[chosen] for name in ARRAYS}
        return Rows(**arrays, outside=self.outside)

    def that_matter(self) -> "Rows":
        """Rows that could be something: most words of a text are plainly nothing, and drown what is to be seen.

        >>> rows = Rows(np.array([[0.99, 0.01], [0.6, 0.4]], np.float32), *np.zeros((4, 2), np.int64), outside=0)
        >>> len(rows.that_matter())
        1
        """
        return self if self.outside < 0 else self.where(1 - self.probabilities[:, self.outside] > MATTERS)


ARRAYS = tuple(field.name for field in fields(Rows) if field.name != "outside")


def rows(logits: Tensor, features: Tensor, texts: Tensor, words: Tensor, classes: Tensor | None, outside: int) -> Rows:
    """Tensors of a batch, (rows, ...) each, as :class:`Rows`."""
    known = classes.cpu().numpy() if classes is not None else np.full(len(texts), -1, dtype=np.int64)
    return Rows(
        logits.float().softmax(-1).cpu().numpy(),
        features.half().cpu().numpy(),
        texts.cpu().numpy(),
        words.cpu().numpy(),
        known,
        outside,
    )


def joined(parts: Sequence[Rows], classes: int) -> Rows:
    """Rows of several batches together.

    Args:
        parts: of the batches.
        classes: how many there are, for the shape of nothing.
    """
    if not parts:
        none = np.empty(0, np.int64)
        return Rows(np.empty((0, classes), np.float32), np.empty((0, 0), np.float16), none, none, none)
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    return Rows(**arrays, outside=parts[0].outside)
