"""How much of the tree is in each layer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.stats import rankdata
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from domadapt.analysis.subject import Subject, every_layer, layer_names
from domadapt.data.batches import Example
from domadapt.methods.session import Session
from domadapt.syntax.trees import Tree, trees

RANK: Final = 64  # the paper finds no gain beyond
EPOCHS: Final = 20  # on MiniLM, 100 found no more
BATCH: Final = 20
RATE: Final = 5e-3
SHORTEST_SENTENCE, LONGEST_SENTENCE = 5, 50  # words of a sentence, as in the paper
HELD_OUT: Final = 5  # every fifth source text is
MOST_SENTENCES: Final = 1000  # sentences of a domain
FEWEST_SENTENCES: Final = 10
Array = NDArray[np.float64]
States = Sequence[Tensor]  # (n, width) of the words of each sentence


@dataclass(frozen=True, slots=True)
class TreeScores:
    """How well predicted distances between words, and depths, tell a sentence's tree, punctuation aside."""

    uuas: float  #: share of arcs that are in the minimum spanning tree of predicted distances
    distance: float  #: Spearman's correlation with the true ones from each word, mean of its means a length
    root: float  #: share of sentences whose root has the least predicted depth of all words
    depth: float  #: Spearman's correlation with the true ones, mean of its means a length
    trees: int  #: how many sentences that is of


def linear_baseline(trees: Sequence[Tree]) -> TreeScores:
    """What the order of words finds: words are as far apart as they stand, and the first is the root."""
    places = (tree.words.astype(np.float64) for tree in trees)
    return score(((np.abs(place[:, None] - place), place) for place in places), trees)


def score(predicted: Iterable[tuple[Array, Array]], trees: Sequence[Tree]) -> TreeScores:
    """Compare predicted distances (n, n) and depths (n,) with trees; not a number where there is nothing to compare."""
    right, arcs, roots = 0, 0, list[bool]()
    distance, depth = dict[int, list[float]](), dict[int, list[float]]()
    for (far, deep), tree in zip(predicted, trees, strict=True):
        size, counted, true = len(tree.words), np.flatnonzero(tree.counted), tree.distances == 1
        distance.setdefault(size, []).append(float(np.mean(spearman(far, tree.distances))))
        depth.setdefault(size, []).append(float(spearman(deep[None], tree.depths[None])[0]))
        right += sum(bool(true[i, j]) for i, j in spanning_tree(far, tree.counted))
        arcs += int(true[np.ix_(counted, counted)].sum()) // 2
        if (tree.depths[counted] == 0).any():
            roots.append(bool(tree.depths[counted[deep[counted].argmin()]] == 0))
    whole = [_mean(map(_mean, by_size.values())) for by_size in (distance, depth)]
    return TreeScores(right / arcs if arcs else float("nan"), whole[0], _mean(roots), whole[1], len(trees))


def _mean(values: Iterable[float]) -> float:
    every = [*values]
    return float(np.mean(every)) if every else float("nan")


def spanning_tree(distances: Array, counted: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Edges of the minimum spanning tree over the words that count.

    >>> far = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 2.0], [9.0, 2.0, 0.0]])
    >>> spanning_tree(far, np.array([True, True, True])), spanning_tree(far, np.array([True, False, True]))
    ([(0, 1), (1, 2)], [(0, 2)])
    """
    places = np.flatnonzero(counted)
    # To scipy, 0 is no edge. One more on every edge changes no spanning tree, for all have as many.
    edges = minimum_spanning_tree(distances[np.ix_(places, places)] + 1).tocoo()
    return [(int(places[i]), int(places[j])) for i, j in zip(edges.row, edges.col, strict=True)]


def spearman(one: NDArray[np.generic], other: NDArray[np.generic]) -> Array:
    """(rows,) Spearman's rank correlation, row by row; 0 where a row is all the same."""
    a, b = (rankdata(values, axis=1) for values in (one, other))
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    spread = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    return np.asarray(np.divide((a * b).sum(1), spread, out=np.zeros(len(a)), where=spread > 0))


@dataclass(frozen=True, slots=True)
class Probe:
    """Structural probes: is there a linear map under which squared distances of word states are distances in the tree?

    Hewitt & Manning 2019 (https://aclanthology.org/N19-1419). One map for distances, |B(h_i - h_j)|² ≈ arcs between i
    and j, one for depths, |B h_i|² ≈ arcs to the root, of rank k, by the mean absolute error, each sentence by its own
    size. What they recover is the parser's tree: on text that it parses wrongly, a better encoder scores lower.
    """

    distance: Tensor  #: (width, rank)
    depth: Tensor  #: likewise

    def distances(self, states: Tensor) -> Tensor:
        """(..., n, n) predicted distances from (..., n, width)."""
        return squared_distances(states @ self.distance)

    def depths(self, states: Tensor) -> Tensor:
        """(..., n) predicted depths from (..., n, width)."""
        return (states @ self.depth).square().sum(-1)

    def score(self, states: States, trees: Sequence[Tree]) -> TreeScores:
        """What is found in states (n, width) of trees that it has not learnt from, one at a time: nothing is padded."""
        predicted = ((self.distances(state).double().numpy(), self.depths(state).double().numpy()) for state in states)
        return score(predicted, trees)


def squared_distances(points: Tensor) -> Tensor:
    """(..., n, n) from (..., n, width)."""
    norms = points.square().sum(-1)
    return (norms.unsqueeze(-1) + norms.unsqueeze(-2) - 2 * points @ points.mT).clamp(min=0)


def fit(states: States, trees: Sequence[Tree], rank: int = RANK, epochs: int = EPOCHS, seed: int = 1) -> Probe:
    """Train both maps on states (n, width) of trees."""
    if not trees:
        raise ValueError("structural probe: no sentence to learn from; expected some of 5 to 50 words")
    width = states[0].shape[1]
    # A scale is no more than the map could learn; it makes one learning rate fit every layer.
    scale = torch.cat([*states]).square().mean().clamp(min=1e-12).rsqrt().item()
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn(2, width, min(rank, width), generator=generator) * (2 / (width * min(rank, width))) ** 0.5
    maps.requires_grad_()
    order = np.argsort([len(tree.words) for tree in trees], kind="stable")  # of like length together: little padding
    batches = [_padded(order[i : i + BATCH], states, trees, scale) for i in range(0, len(order), BATCH)]
    optimizer = torch.optim.Adam([maps], lr=RATE)
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    for _ in range(epochs):
        for number in torch.randperm(len(batches), generator=generator).tolist():
            points, distances, depths, real = batches[number]
            probe, sizes = Probe(maps[0], maps[1]), real.sum(-1)
            off = (probe.distances(points) - distances).abs() * real.unsqueeze(-1) * real.unsqueeze(-2)
            shallow = (probe.depths(points) - depths).abs() * real
            loss = (off.sum((1, 2)) / sizes**2 + shallow.sum(1) / sizes).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    distance, depth = (maps.detach() * scale).unbind()
    return Probe(distance, depth)


def _padded(chosen: NDArray[np.int64], states: States, trees: Sequence[Tree], scale: float) -> tuple[Tensor, ...]:
    """States (batch, n, width), distances (batch, n, n), depths (batch, n), and which words there are (batch, n)."""
    points = pad_sequence([states[i] * scale for i in chosen], batch_first=True)
    depths = pad_sequence([torch.from_numpy(trees[i].depths).float() for i in chosen], batch_first=True)
    real = pad_sequence([torch.ones(len(trees[i].words)) for i in chosen], batch_first=True)
    distances = torch.zeros(*real.shape, real.shape[1])
    for row, i in zip(distances, chosen, strict=True):
        row[: len(trees[i].words), : len(trees[i].words)] = torch.from_numpy(trees[i].distances)
    return points, distances, depths, real


@dataclass(frozen=True, slots=True)
class StructuralProbe:
    """What each layer knows of syntax on both sides, before and after fine-tuning, and what word order alone tells."""

    learnt: int = 0  #: source sentences that the probes have learnt from
    rank: int = RANK
    layers: tuple[str, ...] = ()  #: their names, the embeddings first
    found: dict[str, dict[str, tuple[TreeScores, ...]]] = field(default_factory=dict)  #: by model, side and layer
    linear: dict[str, TreeScores] = field(default_factory=dict)  #: by side, what the order of words finds
    reason: str = ""  #: why there is nothing of all this


def structural_probe(subject: Subject) -> StructuralProbe:
    """Train probes on the source's parses, one for each layer of both models, and try them on both domains."""
    if subject.unreadable:
        return StructuralProbe(reason=subject.unreadable)
    source, target = (_sentences(side.examples) for side in (subject.source, subject.target))
    held_out = np.array([example.index % HELD_OUT == HELD_OUT - 1 for example, _ in source], dtype=bool)
    learnt, home = ([tree for (_, tree), chosen in zip(source, mask) if chosen] for mask in (~held_out, held_out))
    away = [tree for _, tree in target]
    if min(len(learnt), len(home), len(away)) < FEWEST_SENTENCES:
        return StructuralProbe(
            reason=f"{len(learnt)} source sentences of {SHORTEST_SENTENCE} to {LONGEST_SENTENCE} words to learn from, "
            f"{len(home)} held out and {len(away)} of the target are too few for structural probes; "
            f"{FEWEST_SENTENCES} of each are needed"
        )
    rank, names = min(RANK, subject.before.encoder.width), tuple[str, ...]()
    scores: dict[str, dict[str, tuple[TreeScores, ...]]] = {}
    for model, session in subject.models().items():
        probes, at_home = [], []
        for layer in _states(session, source, subject.batch_size, f"{model}, source"):
            probes.append(fit(_picked(layer, ~held_out), learnt, rank, seed=subject.seed))
            at_home.append(probes[-1].score(_picked(layer, held_out), home))
        layers, names = _states(session, target, subject.batch_size, f"{model}, target"), layer_names(len(probes))
        pairs = zip(probes, layers, strict=True)
        abroad = tuple(probe.score([states.float() for states in layer], away) for probe, layer in pairs)
        scores[model] = {"source": tuple(at_home), "target": abroad}
    baselines = {"source": linear_baseline(home), "target": linear_baseline(away)}
    return StructuralProbe(len(learnt), rank, names, scores, baselines)


def _picked(layer: Sequence[Tensor], mask: NDArray[np.bool_]) -> list[Tensor]:
    return [states.float() for states, wanted in zip(layer, mask, strict=True) if wanted]


def _sentences(examples: Sequence[Example]) -> list[tuple[Example, Tree]]:
    """Sentences of 5 to 50 words of which the model reads every word, as many at most as :data:`MOST_SENTENCES`."""
    parsed = [(example, example.parse) for example in examples if example.parse is not None]
    every = [(example, tree) for example, parse in parsed for tree in trees(parse, SHORTEST_SENTENCE, LONGEST_SENTENCE)]
    sentences = [(text, tree) for text, tree in every if (text.alignment.word_first_pieces()[tree.words] >= 0).all()]
    if len(sentences) > MOST_SENTENCES:  # evenly from all texts
        sentences = [sentences[i] for i in np.linspace(0, len(sentences) - 1, MOST_SENTENCES).astype(int)]
    return sentences


def _states(session: Session, sentences: Sequence[tuple[Example, Tree]], size: int, title: str) -> list[list[Tensor]]:
    """By layer, of each sentence (n, width), in half precision: a thousand sentences are 100 MB."""
    places: dict[int, list[int]] = {}
    for place, (example, _) in enumerate(sentences):
        places.setdefault(example.index, []).append(place)
    texts = {example.index: example for example, _ in sentences}
    by_layer: list[list[Tensor]] = []
    for batch, layers in every_layer(session, [*texts.values()], size, title):
        by_layer = by_layer or [[torch.empty(0)] * len(sentences) for _ in layers]
        for layer, states in zip(by_layer, layers, strict=True):
            by_text = batch.word_states(states).split(batch.words.tolist())
            for text, words in zip(batch.index.tolist(), by_text, strict=True):
                for place in places[text]:
                    layer[place] = words[torch.from_numpy(sentences[place][1].words)].cpu().half()
    return by_layer
