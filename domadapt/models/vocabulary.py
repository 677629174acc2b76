"""Word embeddings of which only the rows that training meets are trained.

They are more than half of a small encoder's parameters (11.7 of MiniLM's 22.7 million), an optimiser rewrites all of
them in each step, and a corpus meets a few thousand pieces: a step costs a fifth less at batches of 8. Exact but for
the weight decay of rows that are never met, and pieces that a text has only once a phrase in it is replaced, with a
cased tokenizer: they stay as they are. To state dicts, the layer is the stock one.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MetEmbedding(nn.Module):
    """The rows of an embedding that training meets, by their ids; any other is looked up as it was.

    >>> whole = nn.Embedding(5, 2)
    >>> met = MetEmbedding(whole, [1, 3])
    >>> bool((met(torch.tensor([1, 4])) == whole(torch.tensor([1, 4]))).all()), list(met.state_dict()), len(met.rows)
    (True, ['weight'], 2)
    """

    ids: Tensor
    places: Tensor

    def __init__(self, whole: nn.Embedding, met: Collection[int]) -> None:
        super().__init__()
        self.whole = [whole]  # in a list: it is no part of this module
        ids = torch.tensor(sorted(set(met)), device=whole.weight.device)
        self.register_buffer("ids", ids, persistent=False)
        places = torch.full((whole.num_embeddings,), -1, device=whole.weight.device)
        places[ids] = torch.arange(len(ids), device=whole.weight.device)
        self.register_buffer("places", places, persistent=False)
        self.rows = nn.Parameter(whole.weight.detach()[ids].clone())
        self.padding = -1 if whole.padding_idx is None else int(places[whole.padding_idx])

    @property
    def weight(self) -> Tensor:
        """The whole table, with the trained rows in it."""
        whole: Tensor = self.whole[0].weight
        with torch.no_grad():
            whole[self.ids.to(whole.device)] = self.rows.to(whole)  # Lightning moves this module off a GPU, not that
        return whole

    def forward(self, ids: Tensor) -> Tensor:
        """(..., width) rows of (...) ids."""
        places = self.places[ids]
        unmet = places < 0
        embedded = F.embedding(places.clamp(min=0), self.rows, self.padding if self.padding >= 0 else None)
        if bool(unmet.any()):
            embedded = torch.where(unmet.unsqueeze(-1), F.embedding(ids, self.whole[0].weight.detach()), embedded)
        return embedded

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = self.weight.detach()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local: Any, strict: bool, *others: Any) -> None:
        name = f"{prefix}weight"
        if name in state_dict:
            with torch.no_grad():
                self.whole[0].weight.copy_(state_dict[name])
                self.rows.copy_(state_dict[name].to(self.rows.device)[self.ids])
        elif strict:
            others[0].append(name)


@contextmanager
def only_met_rows(encoder: Any, met: Collection[int]) -> Iterator[None]:
    """Within it, word embeddings of a plain table learn only where they are met; behind it, they are stock again."""
    base: Any = getattr(encoder, "base", None)
    whole = base.get_input_embeddings() if base is not None else None
    if not met or type(whole) is not nn.Embedding or not whole.weight.requires_grad:
        yield
        return
    layer = MetEmbedding(whole, met)
    layer.train(whole.training)
    base.set_input_embeddings(layer)
    try:
        yield
    finally:
        whole.weight.data.copy_(layer.weight.data)
        base.set_input_embeddings(whole)
