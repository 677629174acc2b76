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

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.methods.method import Method, View, in_range
from domadapt.methods.session import Session
from domadapt.methods.units import name_loss, word_head_loss
from domadapt.syntax.trees import edge_groups

CONVOLUTIONS = ("gatv2", "gcn", "relational")
HEADS = 4


class GraphNetwork(nn.Module):
    r"""Layers of :math:`z \leftarrow \mathrm{norm}(z + \mathrm{gelu}(C(z)))`, with C one of

    - ``gatv2`` (Brody, Alon, Yahav 2022, https://arxiv.org/abs/2105.14491): attention over neighbours, four heads, with
      embeddings of relations and directions on the edges;
    - ``gcn`` (Kipf & Welling 2017, https://arxiv.org/abs/1609.02907): the neighbours' sum, each
      weighted by its degree and the word's own, blind to relations;
    - ``relational`` (Schlichtkrull et al. 2018, https://arxiv.org/abs/1703.06103): a matrix for each of
      :func:`domadapt.syntax.trees.edge_groups`, :math:`\sum_r W_r \cdot \mathrm{mean}_{j \in N_r(i)} z_j`.

    Of encoder's states of width ``inputs``. With ``masking``, of some nodes' inputs, a learned vector stands for them.
    """

    def __init__(
        self, convolution: str, inputs: int, width: int, depth: int, relations: Mapping[str, int], masking: bool = False
    ) -> None:
        super().__init__()
        from torch_geometric.nn import GATv2Conv, GCNConv, RGCNConv

        groups = edge_groups(relations)

        def make_convolution() -> Any:  # the collator's edges hold every self loop already
            if convolution == "gatv2":
                return GATv2Conv(width, width // HEADS, heads=HEADS, edge_dim=width, add_self_loops=False)
            if convolution == "gcn":
                return GCNConv(width, width, add_self_loops=False)
            return RGCNConv(width, width, max(groups) + 1, root_weight=False)

        self.convolution = convolution
        self.enter = nn.Linear(inputs, width)
        self.mask = nn.Parameter(torch.zeros(width)) if masking else None
        self.edge = nn.Embedding(len(groups), width) if convolution == "gatv2" else None
        self.groups: Tensor
        self.register_buffer("groups", torch.tensor(groups), persistent=False)
        self.layers = nn.ModuleList(make_convolution() for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))

    def forward(self, words: Tensor, edge_index: Tensor, edge_type: Tensor, masked: Tensor | None = None) -> Tensor:
        """(nodes, width) states, of (nodes, inputs) word states and edges of :func:`domadapt.syntax.trees.tree_edges`;
        (nodes,) ``masked`` is True where the node's own input is hidden."""
        states: Tensor = self.enter(words)
        if masked is not None:
            assert self.mask is not None
            states = torch.where(masked.unsqueeze(1), self.mask, states)
        edges: tuple[Tensor, ...] = () if self.edge is None else (self.edge(edge_type),)
        if self.convolution == "relational":
            edges = (self.groups[edge_type],)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            states = norm(states + F.gelu(layer(states, edge_index, *edges)))
        return states


def refuse_graph_settings(name: str, convolution: str, width: int, depth: int) -> None:
    """Refuse what no :class:`GraphNetwork` can be made of.

    >>> refuse_graph_settings("gnn", "gcn", 6, 1)
    Traceback (most recent call last):
    ValueError: gnn.width=6: expected a whole multiple of 4, the number of attention heads
    """
    if convolution not in CONVOLUTIONS:
        raise ValueError(f"{name}.convolution={convolution!r}: expected {', '.join(CONVOLUTIONS)}")
    if type(width) is not int or width < HEADS or width % HEADS:
        raise ValueError(f"{name}.width={width!r}: expected a whole multiple of {HEADS}, the number of attention heads")
    in_range(f"{name}.depth", depth, 1)


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
        self.graph = GraphNetwork(self.convolution, encoder.width, self.width, self.depth, names, masking=True)
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
