"""What an encoder gives, and by which names it keeps more."""

from dataclasses import dataclass, field

from torch import Tensor

from domadapt.data.batches import Batch


@dataclass(frozen=True, slots=True)
class Output:
    """What an encoder says about a batch."""

    states: Tensor  #: (batch, pieces, width), of the last layer
    logits: Tensor  #: (batch, pieces, labels) for token tasks, (batch, labels) for sequence tasks
    kept: dict[str, Tensor] = field(default_factory=dict)  #: what this forward pass left for losses, by method and name


def word_logits(output: Output, batch: Batch) -> Tensor:
    """(nodes, labels) logits at each word's first piece; meaningless for words without one."""
    flat = output.logits.flatten(0, 1)
    return flat.index_select(0, batch.node_first_piece.clamp(min=0))


def layer_name(layer: int) -> str:
    """What a layer's output is called among what a pass keeps."""
    return f"layer/{layer}"


def scores_name(layer: int, head: int) -> str:
    """What a head's scores are called among what a pass keeps."""
    return f"scores/{layer}/{head}"
