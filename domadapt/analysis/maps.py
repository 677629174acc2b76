"""One pass over both models' attention maps: heads against relations, patterns, and how fine-tuning changed the "
"maps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from domadapt.analysis.attention import all_weights, by_words
from domadapt.analysis.heads import Heads, Tally, heads_of
from domadapt.analysis.patterns import PATTERNS, SHORTEST, patterns, sentences_of
from domadapt.analysis.subject import MODELS, Subject
from domadapt.data.batches import Batch, Example
from domadapt.data.loaders import in_order
from domadapt.methods.setting import Setting
from domadapt.models.pretrained import UnreadableLayer
from domadapt.utils.runtime import progress

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Patterns:
    """Shares of the five patterns.

    Attributes:
        shares: by side and model, (layers, patterns) of all maps of a layer, patterns as :data:`PATTERNS` names them.
        several: by side, texts of several sentences: only theirs can be blocks.
        texts: by side, those long enough for a pattern.
    """

    shares: dict[str, dict[str, tuple[tuple[float, ...], ...]]]
    several: dict[str, int]
    texts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    """What fine-tuning did.

    Attributes:
        maps: by side, (layers, heads) mean cosine of a head's map before with that after; 1 is no change. None where
            attention can't be reached.
        weights: by part (embeddings, layers from 0) the size of the change of its weights, relative to theirs before.
            None where layers have no weights of their own.
    """

    maps: dict[str, tuple[tuple[float, ...], ...]] | None
    weights: dict[str, float] | None


def read_maps(subject: Subject) -> tuple[Heads, Patterns, Change]:
    """Read both sides' texts once with both models.

    Raises:
        ValueError: the two have not the same number of heads.
    """
    tallies: dict[str, dict[str, Tally]] = {model: {} for model in MODELS}
    shares: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {}
    cosines: dict[str, tuple[tuple[float, ...], ...]] = {}
    several, sizes = dict[str, int](), dict[str, int]()
    layers = len(subject.after.encoder.attention_layers())
    for side, given in subject.sides().items():
        own = [Tally(), Tally()]
        counts, cosine, long, split = np.zeros((2, 0, len(PATTERNS))), np.zeros(0), 0, 0
        for example, maps in stream(subject, given.examples, f"{side} attention"):
            if not counts.size:
                counts, cosine = np.zeros((2, len(maps[0]), len(PATTERNS))), np.zeros(len(maps[0]))
            assert example.parse is not None
            piece_words = example.alignment.piece_words()
            sentences = sentences_of(piece_words, example.parse.heads)
            read = example.alignment.word_first_pieces() >= 0
            sized = len(sentences) >= SHORTEST
            long, split = long + sized, split + (sized and len(set(sentences.tolist()) - {-1}) > 1)
            for place, one in enumerate(maps):
                own[place].add(by_words(one, piece_words, len(example.words)), example.parse, read)
                if sized:
                    counts[place, np.arange(len(one)), patterns(one, sentences)] += 1
            cosine += cosine_of(*maps)
        for model, tally in zip(MODELS, own, strict=True):
            tallies[model][side] = tally
        texts = max(len(given.examples), 1)
        by_layer = counts.reshape(2, layers, -1, len(PATTERNS)).mean(2) / max(long, 1) if counts.size else counts
        shares[side] = {model: rounded(by_layer[place]) for place, model in enumerate(MODELS)}
        cosines[side] = rounded(cosine.reshape(layers, -1) / texts)
        several[side], sizes[side] = split, long
    change = Change(cosines, weight_change(subject.before, subject.after))
    return heads_of(tallies, layers), Patterns(shares, several, sizes), change


def stream(
    subject: Subject, examples: list[Example], title: str
) -> Iterator[tuple[Example, list[NDArray[np.float32]]]]:
    """Each text with both models' maps, (heads of all layers, pieces, pieces) without padding; memory stays flat."""
    if not examples:
        return
    loader = in_order(examples, subject.after.collator, subject.batch_size)
    with torch.no_grad(), all_weights(subject.before.encoder) as before, all_weights(subject.after.encoder) as after:
        for batch in progress(loader, title, len(loader), "batch"):
            found = [_maps(s, batch, kept) for s, kept in ((subject.before, before), (subject.after, after))]
            if found[0].shape != found[1].shape:
                raise ValueError(f"model={subject.name}: has {found[1].shape[1]} heads, {subject.backbone} has "
                                 f"{found[0].shape[1]}: the two can't be compared head by head")  # fmt: skip
            for row, place in enumerate(batch.index.tolist()):
                count = len(examples[place].input_ids)
                yield examples[place], [maps[row, :, :count, :count] for maps in found]


def _maps(setting: Setting, batch: Batch, kept: list[torch.Tensor]) -> NDArray[np.float32]:
    kept.clear()
    setting.encoder(batch.to(setting.device))
    return torch.cat(kept, dim=1).float().cpu().numpy()


def cosine_of(before: NDArray[np.float32], after: NDArray[np.float32]) -> Array:
    """(heads,) cosine of each head's flattened maps.

    >>> maps = np.eye(2, dtype=np.float32)[None]
    >>> cosine_of(maps, maps).round(3).tolist(), cosine_of(maps, maps[:, ::-1]).tolist()
    ([1.0], [0.0])
    """
    a, b = (x.reshape(len(x), -1).astype(np.float64) for x in (before, after))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(1) / np.maximum(norms, 1e-12))


def weight_change(before: Setting, after: Setting) -> dict[str, float] | None:
    """By part, the Euclidean size of the change of all its weights, divided by their size before.

    Args:
        before, after: of the same architecture.

    Returns:
        None where no layer has weights of its own.
    """
    try:
        parts = [list(s.encoder.layers()) for s in (before, after)]
    except UnreadableLayer:
        return None
    found = {
        "embeddings": relative(before.encoder.base.get_input_embeddings(), after.encoder.base.get_input_embeddings())
    }
    return found | {f"layer {i}": relative(a, b) for i, (a, b) in enumerate(zip(*parts, strict=True))}


def relative(before: torch.nn.Module, after: torch.nn.Module) -> float:
    """||after - before|| / ||before|| over the weights that both have.

    >>> one, two = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    >>> with torch.no_grad(): _ = one.weight.fill_(2), two.weight.fill_(3)
    >>> relative(one, two)
    0.5
    """
    ours = {name: p.detach().double().cpu() for name, p in before.named_parameters()}
    theirs = {name: p.detach().double().cpu() for name, p in after.named_parameters() if name in ours}
    moved = sum(float(((theirs[name] - ours[name]) ** 2).sum()) for name in theirs)
    size = sum(float((ours[name] ** 2).sum()) for name in theirs)
    return round((moved / size) ** 0.5, 6) if size else 0.0


def rounded(values: Array) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers as a file holds them."""
    return tuple(tuple(round(float(x), 4) for x in row) for row in values)
