"""What the encoder knows of syntax, layer by layer, on source and on target, before and after fine-tuning.

By structural probes (:mod:`domadapt.analysis.tree_probes`). They are judged against the embeddings, which know words and
places alone, and against the order of words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domadapt.analysis.states import every_layer, of_words
from domadapt.analysis.tree_probes import RANK, fit, known
from domadapt.analysis.tree_scores import Known, linear
from domadapt.data.batches import Example
from domadapt.methods.setting import Setting
from domadapt.syntax.trees import Tree, trees

if TYPE_CHECKING:
    from domadapt.analysis.subject import Subject

SHORTEST, LONGEST = 5, 50  # words of a sentence, as in the paper
HELD_OUT: Final = 5  # every fifth source text is
MOST: Final = 1000  # sentences of a domain
FEWEST: Final = 10


@dataclass(frozen=True, slots=True)
class Layer:
    """What the probes of one layer find.

    Attributes:
        layer: 0 for the embeddings, 1 for the first layer.
        source: on sentences of the source that were held out.
        target: on sentences of the target, by the same probes.
    """

    layer: int
    source: Known
    target: Known


@dataclass(frozen=True, slots=True)
class StructuralProbe:
    """Probes of every layer, before and after fine-tuning.

    Attributes:
        source, target: names of the domains.
        learnt: source sentences that the probes have learnt from.
        rank: of the maps.
        before, after: by layer; of the pretrained and of the fine-tuned model.
        linear_source, linear_target: what the order of words finds.
        reason: why there is nothing else here; empty where there is.
    """

    source: str
    target: str
    learnt: int = 0
    rank: int = RANK
    before: tuple[Layer, ...] = ()
    after: tuple[Layer, ...] = ()
    linear_source: Known | None = None
    linear_target: Known | None = None
    reason: str = ""


def structural_probe(subject: "Subject") -> StructuralProbe:
    """Train probes on the source's parses, one for each layer of both models, and try them on both domains.

    Four of five source texts are learnt from, the fifth is held out.

    Args:
        subject: both models, and texts with their parses.
    """
    names = subject.source.domain, subject.target.domain
    if not subject.before.encoder.takes_methods or not subject.after.encoder.takes_methods:
        return StructuralProbe(*names, reason="this model has no transformer layers to probe")
    chosen = [_sentences(side.examples) for side in (subject.source, subject.target)]
    held_out = np.array([example.index % HELD_OUT == HELD_OUT - 1 for example, _ in chosen[0]], dtype=bool)
    learnt = [tree for (_, tree), out in zip(chosen[0], held_out, strict=True) if not out]
    home = [tree for (_, tree), out in zip(chosen[0], held_out, strict=True) if out]
    away = [tree for _, tree in chosen[1]]
    if min(len(learnt), len(home), len(away)) < FEWEST:
        reason = (
            f"{len(learnt)} source sentences of {SHORTEST} to {LONGEST} words to learn from, {len(home)} held out and "
            f"{len(away)} of the target are too few; expected {FEWEST} of each"
        )
        return StructuralProbe(*names, reason=reason)
    rank = min(RANK, subject.before.encoder.width)
    found = []
    for name, setting in (("pretrained", subject.before), ("fine-tuned", subject.after)):
        probes, at_home = [], []
        for layer in _states(setting, chosen[0], subject.batch_size, f"{name}, {names[0]}"):
            probes.append(fit(_picked(layer, ~held_out), learnt, rank, seed=subject.seed))
            at_home.append(known(probes[-1], _picked(layer, held_out), home))
        every = np.ones(len(away), dtype=bool)
        layers = _states(setting, chosen[1], subject.batch_size, f"{name}, {names[1]}")
        abroad = [known(p, _picked(layer, every), away) for p, layer in zip(probes, layers, strict=True)]
        found.append(tuple(Layer(i, *both) for i, both in enumerate(zip(at_home, abroad, strict=True))))
    return StructuralProbe(*names, len(learnt), rank, *found, linear(home), linear(away))


def _picked(layer: Sequence[Tensor], mask: NDArray[np.bool_]) -> list[Tensor]:
    return [states.float() for states, wanted in zip(layer, mask, strict=True) if wanted]


def _sentences(examples: Sequence[Example]) -> list[tuple[Example, Tree]]:
    """Sentences of 5 to 50 words of which the model reads every word, as many at most as :data:`MOST`."""
    found = []
    for example in examples:
        read = example.alignment.word_first_pieces() >= 0
        for tree in trees(example.parse, SHORTEST, LONGEST) if example.parse is not None else ():
            if read[tree.words].all():
                found.append((example, tree))
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
