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
    #: Of the layers that are kept, counted from 0: (batch, pieces, width) of what each gives out.
    layers: dict[int, Tensor] = field(default_factory=dict)
    #: Of the heads whose scores are kept, by layer and head: (batch, pieces, pieces).
    scores: dict[tuple[int, int], Tensor] = field(default_factory=dict)


def word_logits(output: Output, batch: Batch) -> Tensor:
    """(nodes, labels) logits at each word's first piece; meaningless for words without one."""
    flat = output.logits.flatten(0, 1)
    return flat.index_select(0, batch.node_first_piece.clamp(min=0))
