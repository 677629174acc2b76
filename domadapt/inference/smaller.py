"""A smaller model: fewer layers, that learn from the whole one, or fewer pieces. No label is read.

Layers are taken away one by one, each time the one without which the answers change least. What is left is trained on
the mean divergence from the whole model's answers to unlabelled texts, on all pieces of a text or on its label
(Hinton, Vinyals & Dean 2015, https://arxiv.org/abs/1503.02531).

Most of a small multilingual model is word embeddings, 96 of multilingual-e5-small's 118 million parameters, and texts
of a few languages and one kind meet a tenth of them. Without the others a corpus is cut into the same pieces as before:
Unigram's likeliest path uses no piece that is taken away, and WordPiece's longest matches stay the longest. Single
characters stay, so that no text becomes unknown; so do pieces of :data:`SHORT_PIECE` characters in its scripts.
"""

import copy
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from domadapt.models.pretrained import layer_stack
from domadapt.utils.files import write_atomic
from domadapt.utils.pairs import text_fields
from domadapt.utils.runtime import pick_precision, preserve_random_state
from domadapt.utils.text import counted
from domadapt.utils.work import progress

BATCH, SAMPLE, LEAST = 16, 16, 30  # texts a batch; batches by which layers are chosen; texts to learn from
RATE, WARMUP = 1e-4, 0.1
Inputs = dict[str, Tensor]
SHORT_PIECE = 2  # characters of the pieces that stay where the corpus has their script
HELD_OUT = 10  # every tenth text tells what a cut, or a smaller model, costs that has not seen it
ENCODED = 1000  # texts at a time
MORE = 0.02  # pieces, from which on a cut is warned of: with .035 and .2 more, one model lost 1 and 10 points of F1
Description = dict[str, Any]  # a tokenizer.json


def shrink(folder: Path, texts: Sequence[str], layers: int, epochs: int) -> tuple[Any, list[str]]:
    """A stock folder's model with so many layers; and what was done, a sentence each."""
    if len(texts) < LEAST:
        expected = f"expected {LEAST} texts or more to learn from, beside every tenth, which is held out"
        raise ValueError(f"layers={layers}: {expected}; got {len(texts)}")
    whole = stock_model(folder)
    depth = whole.config.num_hidden_layers
    if not 0 < layers < depth:
        raise ValueError(f"layers={layers}: expected 1 to {depth - 1}; the model has {depth}")
    tokenizer, less = transformers.AutoTokenizer.from_pretrained(folder), copy.deepcopy(whole)
    inputs = [*batches(tokenizer, texts)]
    with preserve_random_state():
        torch.manual_seed(0)
        taught = [(batch, answers(whole, batch)) for batch in progress(inputs, "whole model", len(inputs), "batch")]
        kept = drop_layers(less, layers, [taught[i] for i in torch.randperm(len(taught))[:SAMPLE]])
        distil(less, taught, epochs)
    took = counted(epochs, "epoch")
    return less, [
        f"{layers} of {depth} layers stay: {', '.join(str(layer + 1) for layer in kept)}.",
        f"The rest learnt, in {took}, the whole model's answers on {len(texts)} unlabelled texts.",
    ]


def stock_model(folder: Path, dtype: Any = torch.float32) -> Any:
    """transformers' own class of a folder, to predict with; of ``dtype`` auto, as its file has it."""
    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    return getattr(transformers, name).from_pretrained(folder, dtype=dtype).eval()


def batches(tokenizer: Any, texts: Sequence[str]) -> Iterator[Inputs]:
    """Texts of like length together, padded; pairs in the tokenizer's own form."""
    ordered = sorted(texts, key=len)
    for start in range(0, len(ordered), BATCH):
        columns = zip(*(tuple(text_fields(text).values()) for text in ordered[start : start + BATCH]), strict=True)
        yield dict(tokenizer(*map(list, columns), truncation=True, padding=True, return_tensors="pt"))


def log_shares(model: Any, inputs: Inputs) -> Tensor:
    """(rows, classes) log-probabilities: of each text, or of each of its pieces."""
    logits: Tensor = model(**inputs).logits.float()
    return (logits if logits.ndim == 2 else logits[inputs["attention_mask"].bool()]).log_softmax(-1)


answers = torch.no_grad()(log_shares)  # what is learnt


def divergence(model: Any, taught: Sequence[tuple[Inputs, Tensor]]) -> float:
    """Mean Kullback-Leibler divergence from given answers."""
    terms = [nn.functional.kl_div(answers(model, batch), by, reduction="none", log_target=True) for batch, by in taught]
    return float(torch.cat(terms).sum(-1).mean())


def drop_layers(model: Any, layers: int, taught: Sequence[tuple[Inputs, Tensor]]) -> list[int]:
    """Leave so many layers, greedily; which they were, from 0."""
    stack, config = layer_stack(model.base_model, type(model).__name__), model.config
    whole, kept = [*stack], [*range(len(stack))]

    def keep_layers(places: Sequence[int]) -> None:
        del stack[:]
        stack.extend(whole[place] for place in places)
        config.num_hidden_layers = len(places)

    def divergence_without(place: int) -> float:
        keep_layers([other for other in kept if other != place])
        return divergence(model, taught)

    while len(kept) > layers:
        kept.remove(min(kept, key=divergence_without))
    keep_layers(kept)
    return kept


def distil(model: Any, taught: Sequence[tuple[Inputs, Tensor]], epochs: int) -> None:
    """Train on given answers, batches in a random order, the rate rising and falling; in bfloat16 where it is fast."""
    half = pick_precision("auto", torch.device("cpu")) != "32-true"
    steps = epochs * len(taught)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01, fused=True)
    rates = LambdaLR(optimizer, lambda step: min((step + 1) / (WARMUP * steps), (steps - step) / steps))
    model.train()
    order = (int(place) for _ in range(epochs) for place in torch.randperm(len(taught)))
    for place in progress(order, "distil", steps, "batch"):
        inputs, by = taught[place]
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            shares = log_shares(model, inputs)
        nn.functional.kl_div(shares, by, reduction="batchmean", log_target=True).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
    model.eval()


def cut_folder(folder: Path, texts: Sequence[str]) -> list[str]:
    """Cut a stock folder's tokenizer and embeddings to what texts need; what it saves, and costs on unmet text."""
    path = folder / "tokenizer.json"
    whole: Description = json.loads(path.read_text(encoding="utf-8"))
    if len(texts) < HELD_OUT:
        raise ValueError(f"vocabulary=corpus: expected {HELD_OUT} texts or more, which define it; got {len(texts)}")
    if (kind := whole["model"].get("type")) not in ("Unigram", "WordPiece"):
        raise ValueError(f"vocabulary=corpus: the tokenizer is {kind}; expected Unigram or WordPiece; leave it out")
    kept = pieces_needed(whole, texts)
    config: Description = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id"):
        if config.get(name) in kept:
            config[name] = kept.index(config[name])
    model = stock_model(folder, "auto")
    pieces = model.get_input_embeddings().num_embeddings
    before = model.num_parameters()
    rows = model.get_input_embeddings().weight.detach()[kept].clone()
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    model.get_input_embeddings().weight.data.copy_(rows)
    after = model.num_parameters()
    model.save_pretrained(folder)
    write_atomic(folder / "config.json", json.dumps({**config, "vocab_size": len(kept)}, indent=2))
    write_atomic(path, json.dumps(cut_tokenizer(whole, kept), ensure_ascii=False))
    (folder / "vocab.txt").unlink(missing_ok=True)
    refuse_other_pieces(whole, folder, kept, texts)
    return [
        f"The vocabulary is cut to {len(texts)} texts: {len(kept)} of {pieces} pieces stay, and "
        f"{after / 1e6:.1f} of {before / 1e6:.1f} million parameters; every one of these texts is read as before.",
        cost(whole, texts),
    ]


def pieces_needed(whole: Description, texts: Iterable[str]) -> list[int]:
    """Ids of the pieces that stay, in order."""
    pieces, mark = pieces_of(whole)
    met = {number for encoding in encodings(whole, texts) for number in encoding.ids}
    scripts = {script(x) for number in met if number < len(pieces) for x in pieces[number] if x.isalpha()}
    kept = met | {token["id"] for token in whole["added_tokens"]}
    pads = [token["id"] for token in whole["added_tokens"] if "pad" in token["content"].lower()]
    kept |= {*range(1 + max(pads, default=0))}  # RoBERTa counts positions from the padding's id, which must not move
    for number, piece in enumerate(pieces):
        bare = piece.removeprefix(mark)
        if len(bare) <= 1 or (len(bare) <= SHORT_PIECE and all(script(x) in scripts for x in bare if x.isalpha())):
            kept.add(number)
    model = whole["model"]
    if model["type"] == "Unigram":  # what an unknown character costs hangs on the lowest score
        kept.add(min(range(len(pieces)), key=lambda number: model["vocab"][number][1]))
        kept |= {number for number, piece in enumerate(pieces) if piece.startswith("<0x")}  # bytes
    else:
        kept |= pieces_in_unknown_words(whole, texts, pieces)
    return sorted(kept)


def pieces_in_unknown_words(whole: Description, texts: Iterable[str], pieces: Sequence[str]) -> set[int]:
    """WordPiece's pieces within words that it can't cut: without them it might."""
    numbers, mark = {piece: n for n, piece in enumerate(pieces)}, whole["model"]["continuing_subword_prefix"]
    tokenizer, unknown = Tokenizer.from_str(json.dumps(whole)), whole["model"]["unk_token"]
    needed = set[int]()
    for text, encoding in zip(texts, encodings(whole, texts), strict=True):
        for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
            if token == unknown:
                word = text[start:end]
                word = tokenizer.normalizer.normalize_str(word) if tokenizer.normalizer else word
                parts = {word[i:j] for i in range(len(word)) for j in range(i + 1, min(len(word), i + 30) + 1)}
                needed |= {numbers[name] for part in parts for name in (part, mark + part) if name in numbers}
    return needed


def pieces_of(whole: Description) -> tuple[list[str], str]:
    """A tokenizer's pieces by id, and what stands before those that begin a word, or go on with one."""
    vocabulary = whole["model"]["vocab"]
    if whole["model"]["type"] == "Unigram":
        return [piece for piece, _ in vocabulary], "▁"
    return sorted(vocabulary, key=vocabulary.__getitem__), whole["model"]["continuing_subword_prefix"]


def script(letter: str) -> str:
    """The script of a letter, as Unicode names it.

    >>> script("é"), script("ж")
    ('LATIN', 'CYRILLIC')
    """
    return unicodedata.name(letter, "").partition(" ")[0]


def cut_tokenizer(whole: Description, kept: Sequence[int]) -> Description:
    """The tokenizer with these pieces alone, numbered anew."""
    place = {number: new for new, number in enumerate(kept)}
    pieces, _ = pieces_of(whole)
    model = dict(whole["model"])
    if model["type"] == "Unigram":
        model["vocab"] = [model["vocab"][number] for number in kept if number < len(pieces)]
        model["unk_id"] = place.get(model["unk_id"])
    else:
        model["vocab"] = {pieces[number]: place[number] for number in kept if number < len(pieces)}
    changed = {**whole, "model": model}
    changed["added_tokens"] = [{**token, "id": place[token["id"]]} for token in whole["added_tokens"]]
    if padding := whole.get("padding"):
        changed["padding"] = {**padding, "pad_id": place.get(padding["pad_id"], 0)}
    if ends := whole.get("post_processor"):
        changed["post_processor"] = renumbered(ends, place.__getitem__)
    return changed


def renumbered(value: Any, place: Callable[[int], int]) -> Any:
    """A post-processor with the ids of its special pieces as they are now."""
    if isinstance(value, dict):
        return {
            key: [place(number) for number in item] if key == "ids" else
            [item[0], place(item[1])] if key in ("sep", "cls") else renumbered(item, place)
            for key, item in value.items()
        }  # fmt: skip
    return [renumbered(item, place) for item in value] if isinstance(value, list) else value


def encodings(tokenizer: Description, texts: Iterable[str]) -> Iterable[Any]:
    """Encodings of texts, whole and unpadded."""
    made = Tokenizer.from_str(json.dumps(tokenizer))
    made.no_truncation()
    made.no_padding()
    texts = list(texts)
    for start in range(0, len(texts), ENCODED):
        yield from made.encode_batch(texts[start : start + ENCODED])


def refuse_other_pieces(whole: Description, folder: Path, kept: Sequence[int], texts: Sequence[str]) -> None:
    """Read the texts once more, by the folder as transformers loads it."""
    now = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer.to_str()
    for text, old, new in zip(texts, encodings(whole, texts), encodings(json.loads(now), texts), strict=True):
        if old.ids != [kept[number] for number in new.ids]:
            raise ValueError(f"vocabulary=corpus: {text[:60]!r} would be read otherwise; leave it out, and report this")


def cost(whole: Description, texts: Sequence[str]) -> str:
    """What a cut to nine tenths of the texts costs on the last, which stand for text that was not met."""
    known = [text for place, text in enumerate(texts) if place % HELD_OUT]
    met = {*known}
    unmet = [text for text in texts[::HELD_OUT] if text not in met]
    if not unmet:
        return "All of the texts are copies of others: what the cut costs on text that was not met is not known."
    less = cut_tokenizer(whole, pieces_needed(whole, known))
    pairs = [(a.tokens, b.tokens) for a, b in zip(encodings(whole, unmet), encodings(less, unmet), strict=True)]
    other = sum(a != b for a, b in pairs)
    growth = sum(len(b) for _, b in pairs) / sum(len(a) for a, _ in pairs) - 1
    return (
        f"Text that was not met, of the same kind: cut to nine tenths of these texts, {other} of the other "
        f"{len(unmet)} ({100 * other / len(unmet):.0f} %) fall into other pieces, {100 * growth:.1f} % more of them."
        + " Such texts are labelled worse: give more texts, or leave the vocabulary whole."
        * (growth > MORE)
    )
