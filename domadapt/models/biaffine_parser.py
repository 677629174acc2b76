"""``parser=biaffine``: the shipped parser's words under trees of a biaffine parser on MiniLM."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from domadapt.models.biaffine import LABELS, ROOT, WEIGHTS, BiaffineNetwork, digest, load_biaffine
from domadapt.models.biaffine_batches import Window, by_length, inputs, windows
from domadapt.models.pretrained import MINILM, load_tokenizer
from domadapt.syntax.alignment import IntArray
from domadapt.syntax.parser import Parse, Parser, Text
from domadapt.syntax.spanning_tree import best_tree
from domadapt.utils.device import pick_device

BLOCK = 512  # texts that are batched together: bounds memory whatever the stream's length
BATCH_PIECES = 4096  # of a batch, padding included
SPACE_RELATION, SPACE_TAG = "dep", "_SP"  # of words of white space, which hang on the word before them


class BiaffineParser:
    """Trees by biaffine scores and the best spanning tree of each sentence (Dozat & Manning 2017), tags beside them.

    Sentences are told by the network, too; each has one root. It reads windows of 150 words, so a longer sentence is
    read as several. Sums on another device or another number of threads may round otherwise and, seldom, tip an arc.

    Args:
        path: folder that ``make biaffine`` has written.
        words: parser whose tokeniser says what a word is, where the corpus does not.
        device: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        ValueError: there is no parser in the folder.
    """

    def __init__(self, path: str | Path, words: Parser, device: str = "auto") -> None:
        self.path = Path(path)
        self.words = words
        self.device = pick_device(device)
        if absent := [name for name in (WEIGHTS, LABELS) if not (self.path / name).is_file()]:
            raise ValueError(
                f"parser.path={path}: no {absent[0]} of a biaffine parser there; train it once from UD English EWT "
                f"(make biaffine TREEBANK=FOLDER BIAFFINE={path}), or use parser=shipped"
            )
        self.name = f"biaffine-{digest(self.path)}/{words.name}"

    def parse(self, texts: Iterable[Text], processes: int = 1) -> Iterator[Parse]:
        """Parse a stream of texts in order; memory does not grow with its length.

        Args:
            texts: to parse.
            processes: not used: torch's own threads share the work.

        Raises:
            ValueError: the folder's files are damaged.
        """
        stream = iter(texts)
        while block := list(islice(stream, BLOCK)):
            network, tokenizer = load(self.path, self.name, str(self.device))
            ranges = list(self.words.tokenize(block))
            forms = [[text.text[start:end] for start, end in found] for text, found in zip(block, ranges, strict=True)]
            # (text, window), flat: windows of one text are read apart
            todo = [(index, window) for index, words in enumerate(forms) for window in windows(words, tokenizer)]
            parts: list[list[tuple[Window, Decoded]]] = [[] for _ in block]
            with torch.inference_mode():
                for batch in by_length([len(window.ids) for _, window in todo], BATCH_PIECES):
                    part = [todo[i] for i in batch]
                    decoded = decode(network, [window for _, window in part], self.device)
                    for (index, window), found in zip(part, decoded, strict=True):
                        parts[index].append((window, found))
            yield from map(_together, ranges, parts)

    def tokenize(self, texts: Iterable[Text]) -> Iterator[IntArray]:
        """Word ranges: the owner's tokens, else the tokeniser's."""
        return self.words.tokenize(texts)


@lru_cache(maxsize=2)
def load(path: Path, name: str, device: str) -> tuple[BiaffineNetwork, PreTrainedTokenizerBase]:
    """Load a parser once a process; ``name`` tells other weights in the same folder apart."""
    return load_biaffine(path).to(device), load_tokenizer(MINILM)


class Decoded(NamedTuple):
    """Of a window's words: heads (counted in the window, a root's being itself), relations and tags."""

    heads: IntArray
    relations: list[str]
    tags: list[str]


def decode(network: BiaffineNetwork, batch: Sequence[Window], device: torch.device) -> Iterator[Decoded]:
    """Trees and tags of windows."""
    scores = network(*inputs(batch, device))
    arcs, starts = scores.arcs.double().cpu().numpy(), scores.starts.argmax(-1).bool().cpu().numpy()
    heads = np.zeros(arcs.shape[:2], dtype=np.int64)
    for row, window in enumerate(batch):
        words = len(window.words)
        bounds = [0, *(np.flatnonzero(starts[row, 1:words]) + 1).tolist(), words]
        for start, end in pairwise(bounds):
            inside = arcs[row, start:end, start:end]
            # As in training, a word's scores are probabilities over its sentence.
            sums = np.logaddexp.reduce(inside, axis=1, keepdims=True)
            heads[row, start:end] = start + best_tree(inside - sums)
    names = network.relation_scores(scores, torch.from_numpy(heads).to(device)).cpu()
    root = network.relations.index(ROOT)
    names[..., root] = -torch.inf  # a word that has a head is no root
    relations, tags = names.argmax(-1).numpy(), scores.tags.argmax(-1).cpu().numpy()
    for row, window in enumerate(batch):
        words = len(window.words)
        own = heads[row, :words] == np.arange(words)
        found = np.where(own, root, relations[row, :words])
        names_of_tags = [network.tags[i] for i in tags[row, :words]]
        yield Decoded(heads[row, :words], [network.relations[i] for i in found], names_of_tags)


def _together(words: IntArray, parts: Iterable[tuple[Window, Decoded]]) -> Parse:
    """A text's parse from its windows'. White space hangs on the word before it, at the start on the first one."""
    heads = np.full(len(words), -1, dtype=np.int64)
    relations, tags = [SPACE_RELATION] * len(words), [SPACE_TAG] * len(words)
    for window, found in parts:
        heads[window.words] = np.asarray(window.words)[found.heads]
        for word, relation, tag in zip(window.words, found.relations, found.tags, strict=True):
            relations[word], tags[word] = relation, tag
    solid = np.flatnonzero(heads >= 0)
    if len(words) and not len(solid):  # white space alone is one tree, too
        heads[0], relations[0], solid = 0, ROOT, np.zeros(1, dtype=np.int64)
    for word in np.flatnonzero(heads < 0).tolist():
        heads[word] = solid[max(0, int(np.searchsorted(solid, word)) - 1)]
    return Parse(words, heads, tuple(relations), tuple(tags))
