"""An exported model with onnxruntime, tokenizers and numpy, and nothing else: this file travels in the folder.

    from onnx_model import OnnxModel
    OnnxModel("FOLDER")(["The screen is sharp."])

or, for a file with one text a line: ``python onnx_model.py < texts.txt > predictions.jsonl``.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Encoding, Tokenizer


class OnnxModel:
    """Labels texts, or finds spans in them.

    Args:
        folder: with ``model.onnx``, ``tokenizer.json`` and ``config.json``; None for the one that this file lies in.
        threads: of the processor; 0 for all its cores.
    """

    def __init__(self, folder: str | Path | None = None, threads: int = 0) -> None:
        home = Path(folder) if folder else Path(__file__).parent
        config = json.loads((home / "config.json").read_text(encoding="utf-8"))
        self.labels: list[str] = [config["id2label"][str(i)] for i in range(len(config["id2label"]))]
        self.kind: str = config["kind"]
        self.pad: int = config["pad_token_id"]
        self.tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(config["max_pieces"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(home / "model.onnx"), options, providers=providers)

    def __call__(self, texts: Sequence[str], batch_size: int = 16) -> list[dict[str, Any]]:
        """One object a text, in order.

        Args:
            texts: one string each.
            batch_size: texts computed together; those of about the same length are.

        Returns:
            ``label`` and ``confidence``, or ``spans``: start, end (exclusive), type, text and confidence of each.
        """
        encoded = self.tokenizer.encode_batch(list(texts))
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i].ids))
        results: list[dict[str, Any]] = [{} for _ in encoded]
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            probabilities = self._probabilities([encoded[i].ids for i in places])
            for place, own in zip(places, probabilities):
                if self.kind == "sequence":
                    best = int(own.argmax())
                    results[place] = {"label": self.labels[best], "confidence": round(float(own[best]), 4)}
                else:
                    results[place] = {"spans": self._spans(texts[place], encoded[place], own)}
        return results

    def _probabilities(self, batch: Sequence[Sequence[int]]) -> Any:
        """(texts, classes), or (texts, pieces, classes)."""
        width = max(map(len, batch))
        ids = np.full((len(batch), width), self.pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, pieces in enumerate(batch):
            ids[row, : len(pieces)], mask[row, : len(pieces)] = pieces, 1
        (logits,) = self.session.run(None, {"input_ids": ids, "attention_mask": mask})
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def _spans(self, text: str, encoding: Encoding, probabilities: Any) -> list[dict[str, Any]]:
        """Each word has the class of its first piece; an I- of the same type goes on with the span before it."""
        groups: list[list[tuple[int, int, float]]] = []
        types: list[str] = []
        before, word = "O", None
        for place, (start, end) in enumerate(encoding.offsets):
            start = end - len(text[start:end].lstrip())  # SentencePiece has the space before a word in its piece
            if encoding.word_ids[place] is None or start == end:  # a special piece, or that space alone
                continue
            same, word = encoding.word_ids[place] == word, encoding.word_ids[place]
            if same:
                if before != "O":
                    first, _, sure = groups[-1][-1]
                    groups[-1][-1] = (first, end, sure)
                continue
            best = int(probabilities[place].argmax())
            tag = self.labels[best]
            if tag != "O":
                if tag[0] != "I" or before[2:] != tag[2:]:
                    groups.append([])
                    types.append(tag[2:])
                groups[-1].append((start, end, float(probabilities[place][best])))
            before = tag
        found = []
        for kind, words in zip(types, groups):
            start, end = words[0][0], words[-1][1]
            sure = round(sum(each for _, _, each in words) / len(words), 4)
            found.append({"start": start, "end": end, "type": kind, "text": text[start:end], "confidence": sure})
        return found


if __name__ == "__main__":
    lines = [line.rstrip("\n") for line in sys.stdin]
    for line, prediction in zip(lines, OnnxModel()(lines)):
        print(json.dumps({"text": line, **prediction}, ensure_ascii=False))
