"""A biaffine dependency parser on MiniLM (Dozat & Manning 2017): the network, and its file of a few megabytes.

Saved are the heads, and of the encoder's trained layers the difference to the installed MiniLM, in eight bits a number.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel

from domadapt.models.pretrained import MINILM, MINILM_SHA256, model_folder, quietly
from domadapt.utils.checksums import sha256

WEIGHTS, LABELS = "model.safetensors", "labels.json"
ENCODER = "encoder."
ROOT = "ROOT"  # the relation of a root, as spaCy has it
DROPOUT = 0.3


class Scores(NamedTuple):
    """What the network gives out for a batch.

    Attributes:
        arcs: (batch, words, words) of each word's arc to each head; on the diagonal, of being a root.
        dependants: (batch, words, width) of words as dependants, from which relations are told.
        heads: (batch, words, width) of words as heads.
        tags: (batch, words, tags) of part-of-speech tags.
        starts: (batch, words, 2) of whether a sentence starts here.
    """

    arcs: Tensor
    dependants: Tensor
    heads: Tensor
    tags: Tensor
    starts: Tensor


class BiaffineNetwork(nn.Module):
    """MiniLM with biaffine arcs and relations, tags and sentence starts, read from each word's first piece.

    The words' states are the last layer's and a learnt mixture of all layers'.

    Args:
        tags: names of the part-of-speech tags.
        relations: names of the relations, ``ROOT`` among them.
        arc: width of what arcs are scored from.
        relation: width of what relations are scored from.
    """

    def __init__(self, tags: Sequence[str], relations: Sequence[str], arc: int = 256, relation: int = 64) -> None:
        super().__init__()
        self.encoder = pretrained_encoder()
        self.tags, self.relations = tuple(tags), tuple(relations)
        width = self.encoder.config.hidden_size

        def projection(size: int) -> nn.Module:
            return nn.Sequential(nn.Linear(width, size), nn.GELU(), nn.Dropout(DROPOUT))

        self.arc_dependant, self.arc_head = projection(arc), projection(arc)
        self.relation_dependant, self.relation_head = projection(relation), projection(relation)
        self.arc = nn.Parameter(torch.randn(arc + 1, arc) * 0.02)
        self.relation = nn.Parameter(torch.randn(len(relations), relation + 1, relation + 1) * 0.02)
        self.tag, self.start = nn.Linear(width, len(tags)), nn.Linear(width, 2)
        self.dropout = nn.Dropout(DROPOUT)
        self.mixture = nn.Parameter(torch.zeros(self.encoder.config.num_hidden_layers + 1))

    def forward(self, ids: Tensor, mask: Tensor, first: Tensor) -> Scores:
        """Score words.

        Args:
            ids: (batch, pieces).
            mask: (batch, pieces), 0 for padding.
            first: (batch, words) first piece of each word.
        """
        out = self.encoder(ids, attention_mask=mask, output_hidden_states=True)
        layers = torch.stack(out.hidden_states, dim=-1) @ self.mixture.softmax(0)
        states = 0.5 * layers + out.last_hidden_state
        words = self.dropout(states.gather(1, first[:, :, None].expand(-1, -1, states.shape[-1])))
        arcs = _with_one(self.arc_dependant(words)) @ self.arc @ self.arc_head(words).transpose(1, 2)
        dependants, heads = _with_one(self.relation_dependant(words)), _with_one(self.relation_head(words))
        return Scores(arcs.float(), dependants, heads, self.tag(words).float(), self.start(words).float())

    def relation_scores(self, scores: Scores, heads: Tensor) -> Tensor:
        """(batch, words, relations) of the arc from each word to its head in ``heads``, (batch, words)."""
        head = scores.heads.gather(1, heads[:, :, None].expand(-1, -1, scores.heads.shape[-1]))
        return torch.einsum("bwi,kij,bwj->bwk", scores.dependants, self.relation, head).float()

    def save(self, folder: Path) -> None:
        """Write weights and labels; read back by :func:`load_biaffine`."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(differences(self), str(folder / WEIGHTS))
        labels = {
            "encoder": MINILM_SHA256,
            "tags": self.tags,
            "relations": self.relations,
            "arc": self.arc.shape[1],
            "relation": self.relation.shape[1] - 1,
        }
        (folder / LABELS).write_text(json.dumps(labels, indent=1) + "\n", encoding="utf-8")


def pretrained_encoder() -> Any:
    """The installed MiniLM, in float32."""
    with quietly():
        return AutoModel.from_pretrained(str(model_folder(MINILM)), dtype=torch.float32, add_pooling_layer=False)


def differences(network: BiaffineNetwork) -> dict[str, Tensor]:
    """The network's weights without what the installed MiniLM holds already.

    A trained matrix of the encoder is written as its difference, a row's largest number being 127; all else in halves.
    """
    pretrained = pretrained_encoder().state_dict()
    found: dict[str, Tensor] = {}
    for name, value in network.state_dict().items():
        if not name.startswith(ENCODER):
            found[name] = value.half()
            continue
        if torch.equal(value.cpu(), before := pretrained[name.removeprefix(ENCODER)]):
            continue
        difference = value.cpu() - before
        if value.dim() < 2:
            found[name] = difference.half()
            continue
        scale = difference.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
        found |= {name: (difference / scale).round().to(torch.int8), f"{name}.scale": scale}
    return {name: value.contiguous() for name, value in found.items()}


def load_biaffine(folder: Path) -> BiaffineNetwork:
    """Read what :meth:`BiaffineNetwork.save` wrote; no global random number is drawn.

    Raises:
        ValueError: a file is damaged, or does not fit the installed MiniLM; names it.
    """
    try:
        labels = json.loads((folder / LABELS).read_text(encoding="utf-8"))
        with torch.random.fork_rng(devices=[]):
            network = BiaffineNetwork(labels["tags"], labels["relations"], labels["arc"], labels["relation"])
        saved = load_file(str(folder / WEIGHTS))
        state = network.state_dict()
        for name in [name for name in saved if not name.endswith(".scale")]:
            value = saved[name].float() * saved.get(f"{name}.scale", torch.ones(()))
            if value.shape != state[name].shape or not value.isfinite().all():
                raise ValueError(f"{name} is {tuple(value.shape)} or not finite, expected {tuple(state[name].shape)}")
            state[name] = state[name] + value if name.startswith(ENCODER) else value
        if missing := {name for name in state if not name.startswith(ENCODER)} - saved.keys():
            raise ValueError(f"{sorted(missing)[0]} is missing")
        if labels["encoder"] != MINILM_SHA256:
            raise ValueError(f"it was trained on another MiniLM, {labels['encoder'][:12]}, not {MINILM_SHA256[:12]}")
    except (KeyError, TypeError, ValueError, OSError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{folder}: no sound biaffine parser ({reason}); train it again with make biaffine") from error
    network.load_state_dict(state)
    return network.eval()


def digest(folder: Path) -> str:
    """What of the folder's files, and of MiniLM, identifies the parses."""
    return "-".join(sha256(folder / name)[:12] for name in (WEIGHTS, LABELS))


def _with_one(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)
