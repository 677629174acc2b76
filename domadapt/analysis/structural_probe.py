"""What the encoder knows of syntax, layer by layer, on source and on target, before and after fine-tuning.

By structural probes (:mod:`domadapt.analysis.tree_probes`). They are judged against the embeddings, which know words
and places alone, and against the order of words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domadapt.analysis.states import every_layer, layer_names, of_words
from domadapt.analysis.subject import Subject
from domadapt.analysis.tree_probes import RANK, fit, known
from domadapt.analysis.tree_scores import Known, linear
from domadapt.data.batches import Example
from domadapt.methods.setting import Setting
from domadapt.syntax.trees import Tree, trees

SHORTEST, LONGEST = 5, 50  # words of a sentence, as in the paper
HELD_OUT: Final = 5  # every fifth source text is
MOST: Final = 1000  # sentences of a domain
FEWEST: Final = 10


@dataclass(frozen=True, slots=True)
class StructuralProbe:
    """Probes of every layer, before and after fine-tuning, tried on both domains.

    Attributes:
        learnt: source sentences that the probes have learnt from.
        rank: of the maps.
        layers: their names, the embeddings first.
        found: by model (``before``, ``after``), then side, what the probe of each layer finds: on source sentences that
            were held out, and on the target's.
        linear: by side, what the order of words finds.
        reason: why there is nothing of all this; empty where there is.
    """

    learnt: int = 0
    rank: int = RANK
    layers: tuple[str, ...] = ()
    found: dict[str, dict[str, tuple[Known, ...]]] = field(default_factory=dict)
    linear: dict[str, Known] = field(default_factory=dict)
    reason: str = ""


def structural_probe(subject: Subject) -> StructuralProbe:
    """Train probes on the source's parses, one for each layer of both models, and try them on both domains.

    Four of five source texts are learnt from, the fifth is held out.

    Args:
        subject: both models, and texts with their parses.
    """
    if subject.unreadable:
        return StructuralProbe(reason=subject.unreadable)
    here, there = (_sentences(side.examples) for side in (subject.source, subject.target))
    held_out = np.array([example.index % HELD_OUT == HELD_OUT - 1 for example, _ in here], dtype=bool)
    learnt, home = ([tree for (_, tree), chosen in zip(here, mask) if chosen] for mask in (~held_out, held_out))
    away = [tree for _, tree in there]
    if min(len(learnt), len(home), len(away)) < FEWEST:
        return StructuralProbe(
            reason=f"{len(learnt)} source sentences of {SHORTEST} to {LONGEST} words to learn from, {len(home)} held "
            f"out and {len(away)} of the target are too few for structural probes; {FEWEST} of each are needed"
        )
    rank, count = min(RANK, subject.before.encoder.width), 0
    found: dict[str, dict[str, tuple[Known, ...]]] = {}
    for model, setting in subject.models().items():
        probes, at_home = [], []
        for layer in _states(setting, here, subject.batch_size, f"{model}, source"):
            probes.append(fit(_picked(layer, ~held_out), learnt, rank, seed=subject.seed))
            at_home.append(known(probes[-1], _picked(layer, held_out), home))
        every, count = np.ones(len(away), dtype=bool), len(probes)
        layers = _states(setting, there, subject.batch_size, f"{model}, target")
        abroad = [known(p, _picked(layer, every), away) for p, layer in zip(probes, layers, strict=True)]
        found[model] = {"source": tuple(at_home), "target": tuple(abroad)}
    return StructuralProbe(
        len(learnt), rank, layer_names(count), found, {"source": linear(home), "target": linear(away)}
    )


def _picked(layer: Sequence[Tensor], mask: NDArray[np.bool_]) -> list[Tensor]:
    return [states.float() for states, wanted in zip(layer, mask, strict=True) if wanted]


def _sentences(examples: Sequence[Example]) -> list[tuple[Example, Tree]]:
    """Sentences of 5 to 50 words of which the model reads every word, as many at most as :data:`MOST`."""
    found = [
        (example, tree)
        for example in examples
        for tree in (trees(example.parse, SHORTEST, LONGEST) if example.parse is not None else ())
        if (example.alignment.word_first_pieces()[tree.words] >= 0).all()
    ]
    if len(found) > MOST:  # evenly from all texts
        found = [found[i] for i in np.linspace(0, len(found) - 1, MOST).astype(int)]
    return found


def _states(
    setting: Setting, sentences: Sequence[tuple[Example, Tree]], batch_size: int, title: str
) -> list[list[Tensor]]:
    """By layer, of each sentence (n, width), in half precision: a thousand sentences are 100 MB."""
    places: dict[int, list[int]] = {}
    for place, (example, _) in enumerate(sentences):
        places.setdefault(example.index, []).append(place)
    texts = {example.index: example for example, _ in sentences}
    found: list[list[Tensor]] = []
    for batch, layers in every_layer(setting, [*texts.values()], batch_size, title):
        found = found or [[torch.empty(0)] * len(sentences) for _ in layers]
        for layer, states in zip(found, layers, strict=True):
            for text, words in zip(batch.index.tolist(), of_words(batch, states), strict=True):
                for place in places[text]:
                    layer[place] = words[torch.from_numpy(sentences[place][1].words)].cpu().half()
    return found
