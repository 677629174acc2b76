r"""A graph network over the parse is read at prediction: its word states join the encoder's through a gate.

Each word's state :math:`h_i`, the mean of its pieces' last states, goes into the graph network
(:class:`~domadapt.methods.injection.gnn.GraphNetwork`); what comes out is added to the word's pieces, as far as a gate
opens:

.. math:: h'_p = h_p + \tanh(G\,[h_p; z_p] + g) \odot O z_p, \qquad z_i = \mathrm{GNN}(h, \text{tree})_i,

where :math:`z_p` is the z of the piece's word; of a piece without a word ([CLS], [SEP], whitespace), the mean of its
text's words that are read. G and g start at zero: step 0 is the plain model.
"""

import torch
from torch import Tensor, nn

from domadapt.data.batches import Batch
from domadapt.methods.injection.gnn import GraphNetwork, refuse_graph_settings
from domadapt.methods.method import Method, in_range
from domadapt.methods.session import Session
from domadapt.syntax.alignment import first_words, pool_words


class GraphFusion(Method):
    """A graph network between the encoder and the task head."""

    reads = frozenset({"parses", "parses_at_prediction"})
    used_at_prediction = True

    def __init__(self, convolution: str, width: int, depth: int, rate_factor: float) -> None:
        super().__init__()
        refuse_graph_settings("gnn_fusion", convolution, width, depth)
        in_range("gnn_fusion.rate_factor", rate_factor, 0.0, 1e6)
        self.convolution, self.width, self.depth, self.rate_factor = convolution, width, depth, rate_factor

    def attach(self, session: Session) -> None:
        super().attach(session)
        size = session.encoder.width
        self.graph = GraphNetwork(self.convolution, size, self.width, self.depth, session.relations)
        self.leave = nn.Linear(self.width, size)
        self.gate = nn.Linear(size + self.width, size)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        session.encoder.hook_states(self._fuse)

    def _fuse(self, states: Tensor, batch: Batch, kept: dict[str, Tensor]) -> Tensor:
        batch.tree()  # refuses texts without parses
        assert batch.edge_index is not None and batch.edge_type is not None
        nodes = len(batch.node_first_piece)
        with torch.autocast(states.device.type, enabled=False):  # scatters and softmaxes over nodes: float32
            graph = self.graph(batch.word_states(states.float()), batch.edge_index, batch.edge_type)
            texts, _ = batch.node_places()
            read = (batch.node_first_piece >= 0).nonzero().squeeze(1)  # neither cut off nor whitespace
            means = pool_words(graph.unsqueeze(0), read, texts[read], len(states))
            # One list of words' states, then texts' means, in which each piece finds its own.
            words = first_words(batch.pair_pieces, batch.pair_nodes, batch.input_ids.numel()).view_as(batch.input_ids)
            rows = torch.arange(nodes, nodes + len(states), device=states.device).unsqueeze(1)
            around = torch.cat([graph, means])[torch.where(words >= 0, words, rows)]
            gate = torch.tanh(self.gate(torch.cat([states.float(), around], dim=-1)))
            fused: Tensor = states + (gate * self.leave(around)).to(states.dtype)
            return fused
