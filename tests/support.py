"""What several test files make: tiny encoders, batches, corpora."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from domadapt.data.batches import Batch, Collator, encode
from domadapt.data.domains import UnlabelledText
from domadapt.encoder import Encoder
from domadapt.syntax.graphs import relation_vocabulary
from domadapt.syntax.parser import SpacyParser

TEXTS = ["The lens isn't sharp.", "Battery life is great, though the incomprehensible menus annoy me!", "Nope."]


def tiny_encoder(kind: str = "token", labels: int = 5) -> Encoder:
    torch.manual_seed(0)
    return Encoder("tiny_random", kind, [str(i) for i in range(labels)]).eval()


def parsed_batch(encoder: Any, texts: list[str] | None = None, max_pieces: int = 64) -> tuple[Batch, dict[str, int]]:
    """A batch with parses and word tags, and its relation vocabulary."""
    texts = texts or TEXTS
    parses = list(SpacyParser().parse(UnlabelledText("", "", text) for text in texts))
    words = [parse.words for parse in parses]
    tags = [np.arange(len(w)) % 5 for w in words]
    examples, _ = encode(texts, words, encoder.tokenizer, max_pieces, parses, word_tags=tags)
    relations = relation_vocabulary(name for parse in parses for name in parse.relations)
    return Collator(encoder.tokenizer.pad_token_id, relations)(examples), relations


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


PARTS = ["lens", "battery", "screen", "menu", "strap", "sound", "keyboard", "zoom", "price", "flash"]
OPINIONS = ["great", "dull", "superb", "weak", "lovely"]


def records(domain: str, count: int, shift: int = 0) -> list[dict[str, Any]]:
    """Labelled sentences with one aspect and one opinion each."""
    rows = []
    for i in range(count):
        part, opinion = PARTS[(i * 3 + shift) % len(PARTS)], OPINIONS[(i + shift) % len(OPINIONS)]
        text = f"The {part} of number {i} is {opinion}."
        spans = [
            {"start": text.index(word), "end": text.index(word) + len(word), "type": kind}
            for word, kind in ((part, "aspect"), (opinion, "opinion"))
        ]
        label = "negative" if opinion in ("dull", "weak") else "positive"
        rows.append({"id": f"{domain}-{i}", "domain": domain, "text": text, "label": label, "spans": spans})
    return rows


def corpora(folder: Path, target_shift: int = 5) -> list[str]:
    """Files of a small problem, and the overrides that point to them."""
    write_jsonl(folder / "source.jsonl", records("camera", 24))
    write_jsonl(folder / "target.jsonl", records("laptop", 20, target_shift))
    write_jsonl(folder / "test.jsonl", records("laptop", 12, target_shift + 1))
    write_jsonl(folder / "labelled.jsonl", records("laptop", 16, target_shift + 2))
    return [
        "data=my_files",
        f"data.source.path={folder}/source.jsonl",
        f"data.target.path={folder}/target.jsonl",
        f"data.target.test_path={folder}/test.jsonl",
        f"data.target.train_path={folder}/labelled.jsonl",
        "backbone=tiny_random",
        "trainer.epochs=2",
        "trainer.batch_size=8",
        "trainer.target_batch_size=4",
        f"paths.runs={folder}/runs",
    ]
