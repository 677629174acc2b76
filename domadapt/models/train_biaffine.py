"""Train the biaffine parser on UD English EWT: ``make biaffine``, or ``python -m domadapt.models.train_biaffine``."""

import argparse
import json
import logging
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import torch
from spacy.tokens import Doc
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from domadapt.models.biaffine import BiaffineNetwork
from domadapt.models.biaffine_batches import Window, by_length, inputs, pad, windows
from domadapt.models.biaffine_parser import BiaffineParser
from domadapt.models.pretrained import MINILM, load_tokenizer
from domadapt.syntax.parser import Plain, SpacyParser, doc_words
from domadapt.syntax.treebank import card_table, evaluate, find, read
from domadapt.utils.device import pick_device, pick_precision
from domadapt.utils.files import replace_folder, write_atomic
from domadapt.utils.progress import progress

log = logging.getLogger(__name__)
MOST_WORDS, STEP_PIECES = 90, 900  # of a group of sentences; of a batch
ENCODER_RATE, HEAD_RATE, WARMUP = 3e-4, 2e-3, 150
FROZEN = 2  # lowest layers that stay as they are, as the embeddings do: they need not be saved
SCORES = "scores.json"
NONE = -100  # what cross entropy leaves out


class Item(NamedTuple):
    """Sentences that follow one another, with their trees.

    Attributes:
        window: the words.
        heads: index of each word's head among them, a root's being itself.
        sentences: number of each word's sentence.
        tags: index of each word's tag.
        relations: index of each word's relation.
    """

    window: Window
    heads: Sequence[int]
    sentences: Sequence[int]
    tags: Sequence[int]
    relations: Sequence[int]


def items(docs: Sequence[Doc], network: BiaffineNetwork, tokenizer: PreTrainedTokenizerBase) -> Iterator[Item]:
    """Groups of whole sentences of gold documents; a sentence that no window takes is left out."""
    tags = {name: i for i, name in enumerate(network.tags)}
    relations = {name: i for i, name in enumerate(network.relations)}
    for doc in docs:
        groups: list[list[list[int]]] = [[]]
        for sentence in doc.sents:
            if groups[-1] and sum(map(len, groups[-1])) + len(sentence) > MOST_WORDS:
                groups.append([])
            groups[-1].append([token.i for token in sentence])
        for group in groups:
            places = [i for sentence in group for i in sentence]
            base, tokens = places[0], [doc[i] for i in places]
            found = list(windows([token.text for token in tokens], tokenizer))
            if len(found) != 1 or len(found[0].words) != len(tokens):
                continue
            yield Item(
                found[0],
                [token.head.i - base for token in tokens],
                [number for number, sentence in enumerate(group) for _ in sentence],
                [tags[token.tag_] for token in tokens],
                [relations[token.dep_] for token in tokens],
            )


def loss_of(network: BiaffineNetwork, batch: Sequence[Item], device: torch.device) -> Tensor:
    """Cross entropy of heads (within the sentence), relations of the right arcs, sentence starts and tags."""

    def of(scores: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
        return F.cross_entropy(scores.flatten(0, 1), pad(rows, NONE).to(device).flatten(), ignore_index=NONE)

    scores = network(*inputs([item.window for item in batch], device))
    names = network.relation_scores(scores, pad([item.heads for item in batch]).to(device))
    sentences = pad([item.sentences for item in batch], -1).to(device)
    arcs = scores.arcs.masked_fill(sentences[:, :, None] != sentences[:, None, :], -1e9)
    starts = [[NONE, *(int(a != b) for a, b in zip(i.sentences, i.sentences[1:]))] for i in batch]
    trees = of(arcs, [item.heads for item in batch]) + of(names, [item.relations for item in batch])
    return trees + of(scores.starts, starts) + 0.5 * of(scores.tags, [item.tags for item in batch])


def fit(
    network: BiaffineNetwork, data: Sequence[Item], device: torch.device, epochs: int, minutes: float
) -> Iterator[int]:
    """Train until the epochs or the minutes are over; the rate falls linearly with whichever is nearer.

    Yields:
        The number of each epoch that is over.
    """
    own = {id(parameter) for parameter in network.encoder.parameters()}
    encoder = [parameter for parameter in network.encoder.parameters() if parameter.requires_grad]
    rest = [parameter for parameter in network.parameters() if id(parameter) not in own]
    groups = [{"params": encoder, "base": ENCODER_RATE}, {"params": rest, "base": HEAD_RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    half = pick_precision("auto", device) == "bf16-mixed"
    start, done, spent = time.monotonic(), 0.0, 0
    for epoch in range(1, epochs + 1):
        network.train()
        lengths = [len(item.window.ids) + random.randrange(30) for item in data]
        batches = list(by_length(lengths, STEP_PIECES))
        random.shuffle(batches)
        for number, batch in enumerate(progress(batches, f"epoch {epoch} of {epochs}", len(batches), "batch")):
            done = max((epoch - 1 + number / len(batches)) / epochs, (time.monotonic() - start) / (60 * minutes))
            if done >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = group["base"] * min(1, (spent + 1) / WARMUP) * (1 - done)
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                loss = loss_of(network, [data[i] for i in batch], device)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            spent += 1
            if spent % 50 == 0:
                log.info(
                    "step %d, %.0f s, %.0f %%: loss %.3f", spent, time.monotonic() - start, 100 * done, loss.item()
                )
        yield epoch
        if done >= 1:
            return


def train(treebank: Path, output: Path, epochs: int, minutes: float, device: torch.device) -> BiaffineNetwork:
    """Train on the treebank's training part; the folder is written after each epoch.

    Raises:
        FileNotFoundError: there is no treebank; says where to get it.
    """
    random.seed(0)
    torch.manual_seed(0)
    docs = read(spacy.blank("en"), find(treebank, "train"))
    tags, relations = (sorted({getattr(token, name) for doc in docs for token in doc}) for name in ("tag_", "dep_"))
    network = BiaffineNetwork(tags, relations).to(device)
    for part in (network.encoder.embeddings, *network.encoder.encoder.layer[:FROZEN]):
        part.requires_grad_(False)
    data = list(items(docs, network, load_tokenizer(MINILM)))
    for epoch in fit(network, data, device, epochs, minutes):
        replace_folder(output, network.save)
        log.info("epoch %d of %d: saved to %s", epoch, epochs, output)
    return network


def scored(output: Path, treebank: Path, device: str) -> dict[str, Any]:
    """The scores that the shipped parser is given, of a trained folder; ``pos`` is not told by it."""
    parser, vocabulary = BiaffineParser(output, SpacyParser(), device), spacy.blank("en").vocab

    def pipe(docs: Iterable[Doc]) -> Iterator[Doc]:
        known, copies = tee(docs)
        texts = (Plain(doc.text, tuple(map(tuple, doc_words(doc).tolist()))) for doc in known)
        for doc, parse in zip(copies, parser.parse(texts), strict=True):
            words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
            heads, names, tags = parse.heads.tolist(), list(parse.relations), list(parse.tags)
            yield Doc(vocabulary, words=words, spaces=spaces, heads=heads, deps=names, tags=tags)

    return evaluate(output, treebank, pipe)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--treebank", type=Path, required=True, help="folder of UD English EWT")
    parser.add_argument("--output", type=Path, required=True, help="folder that gets the parser")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="training ends then, whatever is left of the epochs"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--score", action="store_true", help="train nothing: score what is in the folder")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if not args.score:
        train(args.treebank, args.output, args.epochs, args.minutes, pick_device(args.device))
    scores = scored(args.output, args.treebank, args.device)
    write_atomic(args.output / SCORES, json.dumps(scores, indent=1) + "\n")
    print(card_table(scores))


if __name__ == "__main__":
    main()
