"""What an encoder gives."""

from dataclasses import dataclass, field

from torch import Tensor

from domadapt.data.batches import Batch


@dataclass(frozen=True, slots=True)
class Output:
    """What an encoder says about a batch."""

    states: Tensor  #: (batch, pieces, width), of the last layer
    logits: Tensor  #: (batch, pieces, labels) for token tasks, (batch, labels) for sequence tasks
    kept: dict[str, Tensor] = field(default_factory=dict)  #: what methods' hooks left for losses, by method and name
    layers: dict[int, Tensor] = field(default_factory=dict)  #: (batch, pieces, width) of kept layers, counted from 0
    scores: dict[tuple[int, int], Tensor] = field(default_factory=dict)  #: by layer and head: (batch, pieces, pieces)


def word_logits(output: Output, batch: Batch) -> Tensor:
    """(nodes, labels) logits at each word's first piece; meaningless for words without one."""
    return output.logits.flatten(0, 1).index_select(0, batch.node_first_piece.clamp(min=0))
