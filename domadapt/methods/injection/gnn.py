r"""A graph network over the parse supervises the encoder during training and is dropped at prediction.

Each word has two views: :math:`h_i`, the mean of its piece states, and what a graph network says of it from its
neighbours in the dependency tree. Of a random share M of words, a learned vector stands for :math:`W h_i`, so that

.. math:: z_i = \mathrm{GNN}(\{W h_j\}_{j \notin M}, \text{tree})_i, \quad i \in M

is what the tree around a word tells about it. The encoder is asked to agree, in contrast with the batch's other masked
words (InfoNCE, van den Oord et al. 2018):

.. math:: L_{agree} = -\frac1{|M|} \sum_{i \in M} \log
          \frac{\exp(\cos(P h_i, z_i) / \tau)}{\sum_{j \in M} \exp(\cos(P h_i, z_j) / \tau)}.

Agreement can be had from lexical neighbours, so states must also tell the tree itself (Dozat & Manning 2017): each
word's head among the words of its text, and the relation to it,

.. math:: L_{head} = -\log \mathrm{softmax}_j(a_i^\top U b_j)_{head(i)}, \qquad
          L_{relation} = -\log p(r_i \mid h_i, h_{head(i)}).

All three need parses and no labels, and run on source and target text. A stock model is left.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.methods.method import Method, View, in_range
from domadapt.methods.session import Session
from domadapt.methods.units import name_loss, word_head_loss
from domadapt.models.graph_network import GraphNetwork, refuse_graph_settings


class GraphSupervision(Method):
    """Graph-network auxiliary supervision."""

    reads = frozenset({"parses", "target"})

    def __init__(
        self,
        convolution: str,
        width: int,
        depth: int,
        masked: float,
        temperature: float,
        agreement_weight: float,
        head_weight: float,
        relation_weight: float,
    ) -> None:
        super().__init__({"gnn/agreement": agreement_weight, "gnn/head": head_weight, "gnn/relation": relation_weight})
        refuse_graph_settings("gnn", convolution, width, depth)
        if type(masked) not in (int, float) or not 0 < masked < 1:
            raise ValueError(f"gnn.masked={masked!r}: expected a share between 0 and 1, both excluded")
        in_range("gnn.temperature", temperature, 1e-3, 1e3)
        self.convolution, self.width, self.depth = convolution, width, depth
        self.masked, self.temperature = masked, temperature

    def attach(self, session: Session) -> None:
        super().attach(session)
        encoder, names = session.encoder, session.relations
        self.graph = GraphNetwork(self.convolution, encoder.width, self.width, self.depth, names, hides=True)
        self.project = nn.Linear(encoder.width, self.width)
        self.dependent = nn.Linear(encoder.width, self.width)
        self.governor = nn.Linear(encoder.width, self.width)
        self.bilinear = nn.Parameter(torch.eye(self.width) / self.width**0.5)
        self.relation = nn.Linear(2 * self.width, len(names) + 1)

    def side_losses(self, view: View) -> dict[str, Tensor]:
        states, batch = view.encoded.states, view.batch
        assert batch.word_heads is not None and batch.relations is not None
        assert batch.edge_index is not None and batch.edge_type is not None
        with torch.autocast(states.device.type, enabled=False):  # scatters and softmaxes over nodes: float32
            words = batch.word_states(states.float())
            seen = batch.node_first_piece >= 0
            masked = seen & (torch.rand(len(words), device=words.device) < self.masked)
            graph = self.graph(words, batch.edge_index, batch.edge_type, masked)
            dependent, governor = F.gelu(self.dependent(words)), F.gelu(self.governor(words))
            known = seen & seen[batch.word_heads]
            relation_logits = self.relation(torch.cat([dependent, governor[batch.word_heads]], dim=-1))
            return {
                "gnn/agreement": agreement_loss(self.project(words)[masked], graph[masked], self.temperature),
                "gnn/head": word_head_loss(dependent, governor, self.bilinear, batch, known),
                "gnn/relation": name_loss(relation_logits, batch.relations, known),
            }


def agreement_loss(words: Tensor, graph: Tensor, temperature: float) -> Tensor:
    """InfoNCE between two (masked words, width) views of the same words; zero of fewer than two.

    >>> same = torch.eye(3)
    >>> agreement_loss(same, same, 0.1).item() < agreement_loss(same, same.flip(0), 0.1).item()
    True
    """
    if len(words) < 2:
        return words.sum() * 0
    similarity = F.normalize(words, dim=-1) @ F.normalize(graph, dim=-1).T / temperature
    return F.cross_entropy(similarity, torch.arange(len(words), device=words.device))
