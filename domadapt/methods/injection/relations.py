r"""Word states of one layer must tell the parse: each word's head, its relation to it, and its part of speech.

Dozat & Manning 2017, https://openreview.net/forum?id=Hk95PK9le. Of a layer's word states :math:`h_i`, the means of
their pieces', four projections are made, a word being a dependent or a head, of an arc or of a relation:

.. math:: s_{ij} = [d_i; 1]^\top U e_j, \qquad
          t_{ijr} = [d'_i; 1]^\top U_r [e'_j; 1], \qquad
          u_i = W h_i + b,

the scores of word j being the head of i, of r being the relation between them, and of the parts of speech. All are
learnt by cross entropy on source and target text; relations are scored at the parser's head. A stock model is left.

A control (``control=``) changes trees and leaves tags: of a gain over it, none is due to parts of speech.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.data.batches import Example
from domadapt.methods.method import Method, View, in_range
from domadapt.methods.session import Session
from domadapt.methods.units import name_loss, word_head_loss
from domadapt.syntax.trees import UNKNOWN, relation_vocabulary


class Relations(Method):
    """Supervision by heads, relations and parts of speech."""

    reads = frozenset({"parses", "target"})

    def __init__(
        self, layer: int, width: int, relation_width: int, head_weight: float, relation_weight: float, tag_weight: float
    ) -> None:
        weights = {"relations/head": head_weight, "relations/relation": relation_weight, "relations/tag": tag_weight}
        super().__init__(weights)
        if type(layer) is not int:
            raise ValueError(f"relations.layer={layer!r}: expected a whole number; -1 is the last layer")
        in_range("relations.width", width, 1)
        in_range("relations.relation_width", relation_width, 1)
        self.layer, self.width, self.relation_width = layer, width, relation_width

    def attach(self, session: Session) -> None:
        super().attach(session)
        encoder, width, kinds = session.encoder, self.width, len(session.relations) + 1
        self.kept_layer = encoder.keep_layer(self.layer)
        parses = [e.parse for e in (*session.source, *session.target) if e.parse is not None]
        self.tags = relation_vocabulary(tag for parse in parses for tag in parse.tags if tag)
        self.sizes = [width, width, self.relation_width, self.relation_width]
        self.project = nn.Linear(encoder.width, sum(self.sizes))
        self.arc = nn.Parameter(torch.cat([torch.eye(width) / width**0.5, torch.zeros(1, width)]))
        size = self.relation_width + 1
        self.relation = nn.Parameter(torch.randn(kinds, size, size) / size)
        self.tag = nn.Linear(encoder.width, len(self.tags) + 1)

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``tags``: (nodes,) id of each word's part of speech, 0 where there is none."""
        if any(example.parse is None for example in examples):
            return {}
        tags = [self.tags.get(tag, UNKNOWN) for e in examples if e.parse is not None for tag in e.parse.tags]
        return {"tags": torch.tensor(tags, dtype=torch.int64)}

    def side_losses(self, view: View) -> dict[str, Tensor]:
        states, batch = view.encoded.layers[self.kept_layer], view.batch
        assert batch.word_heads is not None and batch.relations is not None
        with torch.autocast(states.device.type, enabled=False):  # sums over pieces and softmaxes over words: float32
            words = batch.word_states(states.float())
            seen = batch.node_first_piece >= 0
            known = seen & seen[batch.word_heads]
            arcs, heads, dependents, governors = F.gelu(self.project(words)).split(self.sizes, dim=-1)
            governing = append_one(governors)[batch.word_heads]
            relation_logits = ((append_one(dependents) @ self.relation) * governing).sum(-1).T  # (words, relations)
            return {
                "relations/head": word_head_loss(append_one(arcs), heads, self.arc, batch, known),
                "relations/relation": name_loss(relation_logits, batch.relations, known),
                "relations/tag": name_loss(self.tag(words), self.own_tensor(batch, "tags"), seen),
            }


def append_one(states: Tensor) -> Tensor:
    """States with a one behind each, so that a bilinear form of them is a biaffine one."""
    return F.pad(states, (0, 1), value=1.0)
