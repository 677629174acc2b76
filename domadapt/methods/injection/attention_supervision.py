r"""Pretrained attention heads are pulled towards the relations that they nearly follow already.

Some heads look from a verb to its object, or from a noun to its adjective, untold (Clark et al. 2019,
https://aclanthology.org/W19-4828). Each chosen head h is given one relation in one direction, and learns that the first
piece of a word attends to the first pieces S(i) of the words that it is so related with,

.. math:: L_h = -\frac1{|P|} \sum_{i \in P} \log \sum_{j \in S(i)} A^h_{ij},

on source and target text; the loss is the mean over heads. Of a head's own layer only queries and keys learn, and all
beneath it does; a stock model is left.

A is read before dropout where attention can be replaced. Other models, such as DeBERTa, return theirs, in training
after dropout: of what it has taken nothing is learned in that step.

Which head for which relation is measured before training, in parses of the source: the pair of a relation and a head
with the highest mean attention along the relation, in whichever direction, comes first, then the best pair of another
relation and another head, and so on. Such a head need not know syntax: one that looks at the word before it looks from
nouns to adjectives, too. Trees of a control that have one relation, ``linear`` and ``self_loops``, stand in for all:
their best heads are supervised, as many as there are relations.
"""

import logging
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from domadapt.data.batches import Example
from domadapt.data.texts import sampled
from domadapt.methods.method import Method, View, in_range, one_of
from domadapt.methods.session import Session
from domadapt.methods.units import check_place, hidden_below, masked_mean
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.controls import PREVIOUS, SELF
from domadapt.syntax.trees import is_kind_of, relation_links

TO_HEAD, TO_DEPENDENT = "to_head", "to_dependent"
DIRECTIONS = (TO_HEAD, TO_DEPENDENT)
log = logging.getLogger(__name__)
ANY = (PREVIOUS, SELF)  # the one relation of a control's trees
COMPARED, BATCH = 512, 8  # source texts in which heads are compared; a batch, of which all heads' scores are held
KEYS = ("layer", "head", "relation", "direction")
HeadChoice = dict[str, Any]  # of these


class AttentionSupervision(Method):
    """Supervised attention heads."""

    reads = frozenset({"parses", "target"})

    def __init__(self, heads: Any, relations: Any, weight: float) -> None:
        super().__init__({"attention_supervision/heads": weight})
        name = "attention_supervision"
        self.auto = heads == "auto"
        if self.auto:
            if not (isinstance(relations, list) and relations and all(isinstance(r, str) for r in relations)):
                raise ValueError(f"{name}.relations={relations!r}: expected a list of relation names, [nsubj, amod]")
            self.heads: list[HeadChoice] = []  #: supervised; with ``auto``, known from :meth:`prepare` on
            self.kinds = [*product(dict.fromkeys(relations), DIRECTIONS)]
        else:
            self.heads = read_heads(f"{name}.heads", heads)
            self.kinds = [*dict.fromkeys((row["relation"], row["direction"]) for row in self.heads)]

    def attach(self, session: Session) -> None:
        super().attach(session)
        encoder = session.encoder
        for place, row in enumerate(self.heads):
            check_place(f"attention_supervision.heads[{place}]", row["layer"], encoder, row["head"])
        encoder.keep_scores(self._wanted)
        wanted = [*dict.fromkeys(relation for relation, _ in self.kinds)]
        names = sorted(session.real_relations() - {*ANY})
        absent = [r for r in wanted if names and not any(is_kind_of(name, r) for name in names)]
        if absent:
            message = f"no relation {', '.join(absent)} in the parses, whose relations are: {', '.join(names)}"
            if len(absent) == len(wanted):
                raise ValueError(f"attention_supervision: {message}; choose among these")
            log.warning("attention_supervision: %s", message)
            # Left out: a control's trees have every relation, and it would supervise more heads.
            self.kinds = [kind for kind in self.kinds if kind[0] not in absent]
            self.heads = [row for row in self.heads if row["relation"] not in absent]

    def _wanted(self) -> set[tuple[int, int]]:
        """Layers and heads that are supervised, while they are."""
        return {(row["layer"], row["head"]) for row in self.heads} if self.training else set()

    def prepare(self) -> dict[str, Any]:
        """Choose heads where they are not given."""
        taken = self.session.encoder.own_scores
        if not self.auto:
            for layer, head in sorted({(row["layer"], row["head"]) for row in self.heads} & taken):
                why = "which does not look at what is supervised here; give one of them another head"
                place = f"layer {layer}, head {head} is another injection's (lisa's)"
                raise ValueError(f"attention_supervision.heads: {place}, {why}")
            return {}
        affinity = self.affinity()
        for layer, head in taken:
            affinity[:, layer, head] = -1.0
        best = best_heads(affinity, [relation for relation, _ in self.kinds])
        chosen = [(layer, head, *self.kinds[kind]) for kind, layer, head in best]
        self.heads = [dict(zip(KEYS, entry, strict=True)) for entry in chosen]
        if not self.heads:
            given = [*dict.fromkeys(relation for relation, _ in self.kinds)]
            why = "none of them is in the parses of the source texts; choose others, or give heads"
            raise ValueError(f"attention_supervision.relations={given}: {why}")
        shares = [float(affinity[place]) for place in best]
        return {"attention_supervision/heads": self.heads, "attention_supervision/affinity": shares}

    def affinity(self) -> Tensor:
        """(kinds, layers, heads) mean attention of words on related ones in some source texts; -1 for kinds not met."""
        session = self.session
        encoder = session.encoder
        total = torch.zeros(len(self.kinds), *encoder.attention_shape, dtype=torch.float64)
        count = torch.zeros(len(self.kinds), dtype=torch.float64)
        every = [*product(*map(range, encoder.attention_shape))]
        with encoder.keeping_scores(every):
            for batch, output in session.outputs(sampled(session.source, COMPARED, 0), BATCH, "heads", alone=True):
                kinds, *places = self.own_tensor(batch, "links")
                for layer, head in every:
                    mass = output.scores[layer, head].softmax(-1)[tuple(places)]
                    total[:, layer, head].index_add_(0, kinds.cpu(), mass.cpu().double())
                looking = self.own_tensor(batch, "links")[:3].unique(dim=1)[0].cpu()
                count += torch.bincount(looking, minlength=len(count))
        return torch.where(count[:, None, None] > 0, total / count.clamp(min=1)[:, None, None], -1.0)

    def memory(self) -> dict[str, Any]:
        return {"heads": self.heads}

    def recall(self, memory: dict[str, Any]) -> None:
        self.heads = memory["heads"]

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``links``: (4, links) number of the kind, row, attending piece, a piece that it should attend to."""
        links: list[IntArray] = []
        for row, example in enumerate(examples):
            if example.parse is None:
                return {}
            for number, (relation, direction) in enumerate(self.kinds):
                names = [relation if name in ANY else name for name in example.parse.relations]
                arcs = relation_links(example.parse.heads, names, relation)
                pairs = example.alignment.link_pieces(arcs if direction == TO_HEAD else arcs[:, ::-1])
                links.append(np.insert(pairs, 0, [[number], [row]], axis=1))
        return {"links": torch.from_numpy(np.concatenate(links).T)}

    def side_losses(self, view: View) -> dict[str, Tensor]:
        links, losses = self.own_tensor(view.batch, "links"), []
        for row in self.heads:
            of_kind = links[0] == self.kinds.index((row["relation"], row["direction"]))
            losses.append(mass_loss(view.encoded.scores[row["layer"], row["head"]], links[1:, of_kind]))
        return {"attention_supervision/heads": torch.stack(losses).mean()}


def read_heads(name: str, rows: Any) -> list[HeadChoice]:
    """The setting that lists heads.

    >>> read_heads("heads", [{"layer": 3, "head": 0, "relation": "obj", "direction": "on"}])
    Traceback (most recent call last):
    ValueError: heads[0].direction='on': expected to_head or to_dependent
    """
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{name}={rows!r}: expected a list of {{{', '.join(f'{key}: ...' for key in KEYS)}}}")
    for place, row in enumerate(rows):
        where = f"{name}[{place}]"
        if not isinstance(row, dict) or {*row} != {*KEYS}:
            raise ValueError(f"{where}={row!r}: expected {', '.join(KEYS)}")
        in_range(f"{where}.layer", row["layer"], 0)
        in_range(f"{where}.head", row["head"], 0)
        one_of(f"{where}.direction", row["direction"], *DIRECTIONS)
        if not isinstance(row["relation"], str):
            raise ValueError(f"{where}.relation={row['relation']!r}: expected a name")
        if row in rows[:place]:
            raise ValueError(f"{where}={row}: is there twice")
    return rows


def mass_loss(scores: Tensor, links: Tensor) -> Tensor:
    """Minus the logarithm of how much of a piece's attention falls on any of the pieces that it is linked with.

    The mean over pieces that are linked with something that no mask hides; zero if there is none.
    Of (batch, pieces, pieces) scores, attending piece in rows, and (3, links): row, attending piece, one to attend to.

    >>> mass_loss(torch.zeros(1, 4, 4), torch.tensor([[0, 0], [1, 1], [2, 3]])).exp().item()
    2.0
    """
    linked = torch.zeros_like(scores, dtype=torch.bool)
    linked[links[0], links[1], links[2]] = True
    linked &= scores > hidden_below(scores)
    mass = scores.log_softmax(-1).masked_fill(~linked, torch.finfo(scores.dtype).min).logsumexp(-1)
    return -masked_mean(mass, linked.any(-1))


def best_heads(affinity: Tensor, relations: Sequence[str]) -> list[tuple[int, int, int]]:
    """Kind, layer and head of the best pairs: each of the (kinds,) relations once, and each head once.

    >>> best_heads(torch.tensor([[[0.5, 0.9]], [[0.6, 0.7]], [[0.8, 0.95]]]), ["nsubj", "nsubj", "amod"])
    [(2, 0, 1), (1, 0, 0)]
    """
    shape, chosen = affinity.shape, list[tuple[int, int, int]]()
    for flat in affinity.flatten().argsort(descending=True, stable=True).tolist():
        kind, layer, head = (int(i) for i in np.unravel_index(flat, shape))
        taken = any(relations[k] == relations[kind] or (at, h) == (layer, head) for k, at, h in chosen)
        if affinity[kind, layer, head] >= 0 and not taken:
            chosen.append((kind, layer, head))
    return chosen
