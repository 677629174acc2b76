"""A graph network over the words of a batch, along the arcs of their trees."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from domadapt.config.overrides import in_range
from domadapt.syntax.trees import edge_groups

CONVOLUTIONS = ("gatv2", "gcn", "relational")
HEADS = 4


class GraphNetwork(nn.Module):
    r"""Layers of :math:`z \leftarrow \mathrm{norm}(z + \mathrm{gelu}(C(z)))`, with C one of

    - ``gatv2`` (Brody, Alon, Yahav 2022, https://arxiv.org/abs/2105.14491): attention over neighbours, four heads, with
      embeddings of relations and directions on the edges;
    - ``gcn`` (Kipf & Welling 2017, https://arxiv.org/abs/1609.02907): the neighbours' sum, blind to relations;
    - ``relational`` (Schlichtkrull et al. 2018, https://arxiv.org/abs/1703.06103): a matrix for each of
      :func:`domadapt.syntax.trees.edge_groups`, :math:`\sum_r W_r \cdot \mathrm{mean}_{j \in N_r(i)} z_j`.

    Of encoder's states of width ``inputs``. Where it ``hides`` some nodes' inputs, a learned vector stands for them.
    """

    def __init__(
        self, convolution: str, inputs: int, width: int, depth: int, relations: Mapping[str, int], hides: bool = False
    ) -> None:
        super().__init__()
        from torch_geometric.nn import GATv2Conv, GCNConv, RGCNConv

        groups = edge_groups(relations)

        def made() -> Any:  # the collator's edges hold every self loop already
            if convolution == "gatv2":
                return GATv2Conv(width, width // HEADS, heads=HEADS, edge_dim=width, add_self_loops=False)
            if convolution == "gcn":
                return GCNConv(width, width, add_self_loops=False)
            return RGCNConv(width, width, max(groups) + 1, root_weight=False)

        self.convolution = convolution
        self.enter = nn.Linear(inputs, width)
        self.mask = nn.Parameter(torch.zeros(width)) if hides else None
        self.edge = nn.Embedding(len(groups), width) if convolution == "gatv2" else None
        self.groups: Tensor
        self.register_buffer("groups", torch.tensor(groups), persistent=False)
        self.layers = nn.ModuleList(made() for _ in range(depth))
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
