"""An exported model with onnxruntime, tokenizers and numpy, and nothing else: this file travels in the folder.

    from onnx_model import OnnxModel
    OnnxModel("FOLDER")(["The screen is sharp."])

or, for a file with one text a line, of pairs two with a tab between:
``python onnx_model.py < texts.txt > predictions.jsonl``.
"""

import io
import json
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer


class OnnxModel:
    """Labels texts, or finds spans in them, with the model of a folder; None for the one that this file lies in.

    It has ``model.onnx``, ``tokenizer.json`` and ``config.json``. ``threads`` of the processor; 0 for all its cores.
    """

    one_by_one = False  # True with 8 bits

    def __init__(self, folder: str | Path | None = None, threads: int = 0) -> None:
        home = Path(folder) if folder else Path(__file__).parent
        config = json.loads((home / "config.json").read_text(encoding="utf-8"))
        self.labels: list[str] = [config["id2label"][str(i)] for i in range(len(config["id2label"]))]
        self.kind: str = config["kind"]
        self.pad: int = config["pad_token_id"]
        self.pairs: bool = config.get("pairs", False)
        self.one_by_one = config.get("one_by_one", False)
        self.temperature: float = config.get("temperature", 1.0)  # of confidences
        count = len(self.labels)  # scores of a tag after another, or after nothing (the last row)
        self.transitions = np.array(config.get("transitions") or np.zeros((count + 1, count)), dtype=np.float64)
        if self.transitions.shape != (count + 1, count):
            raise ValueError(f"config.json: transitions of {self.transitions.shape}, expected {(count + 1, count)}")
        self.tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(config["max_length"])
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(home / "model.onnx"), options, providers=providers)

    def __call__(self, texts: Sequence[Any], batch_size: int = 16) -> list[dict[str, Any]]:
        """One object a text: ``label`` and ``confidence``, or ``spans`` of start, end, type, text and confidence.

        Of pairs, texts are two strings each. Those of about the same length are computed together; with 8 bits each one
        is alone, since what a number is rounded to depends on all that is computed with it.
        """
        if isinstance(texts, str):
            raise TypeError(f"expected a list of texts, got one: [{texts[:40]!r}]")
        for text in texts:
            strings = text if self.pairs and isinstance(text, list | tuple) else [text]
            if len(strings) != 1 + self.pairs or not all(isinstance(string, str) for string in strings):
                raise TypeError(f"expected {'two texts' if self.pairs else 'a text'}, got {text!r:.60}")
        encoded = self.tokenizer.encode_batch([tuple(text) if self.pairs else text for text in texts])
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i].ids))
        results: list[dict[str, Any]] = [{} for _ in encoded]
        batch_size = 1 if self.one_by_one else batch_size
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            for place, logits in zip(places, self._logits([encoded[i] for i in places])):
                if self.kind == "sequence":
                    best, sure = int(logits.argmax()), softmax(logits, self.temperature)
                    results[place] = {"label": self.labels[best], "confidence": round(float(sure[best]), 4)}
                else:
                    results[place] = {"spans": self._spans(texts[place], encoded[place], logits)}
        return results

    def _logits(self, batch: Sequence[Encoding]) -> Any:
        """(texts, classes), or (texts, pieces, classes)."""
        width = max(len(one.ids) for one in batch)
        ids = np.full((len(batch), width), self.pad, dtype=np.int64)
        mask, segments = np.zeros_like(ids), np.zeros_like(ids)
        for row, one in enumerate(batch):
            ids[row, : len(one.ids)], mask[row, : len(one.ids)] = one.ids, 1
            segments[row, : len(one.ids)] = one.type_ids
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
        (logits,) = self.session.run(None, {one.name: given[one.name] for one in self.session.get_inputs()})
        return logits

    def _spans(self, text: str, encoding: Encoding, logits: Any) -> list[dict[str, Any]]:
        """A word has the class of its first piece, all decoded together; an I- of the same type goes on with a span."""
        words = self._words(text, encoding)
        if not words:
            return []
        best, sure = self._decoded(logits[[place for place, *_ in words]])
        tags, groups = [self.labels[i] for i in best], list[list[int]]()
        for word, (last, tag) in enumerate(zip(["O", *tags], tags)):
            if tag[0] == "I" and last[2:] == tag[2:]:
                groups[-1].append(word)
            elif tag != "O":
                groups.append([word])
        spans = []
        for group in groups:
            start, end, kind = words[group[0]][1], words[group[-1]][2], tags[group[0]][2:]
            confidence = round(float(np.mean([sure[word] for word in group])), 4)
            spans.append({"start": start, "end": end, "type": kind, "text": text[start:end], "confidence": confidence})
        return spans

    def _words(self, text: str, encoding: Encoding) -> list[list[int]]:
        """Of each word the place of its first piece, start and end."""
        words: list[list[int]] = []
        previous, last = None, 0  # the word before: its number, and where it ends
        for place, (start, end) in enumerate(encoding.offsets):
            start = end - len(text[start:end].lstrip())  # SentencePiece has the space before a word in its piece
            if encoding.word_ids[place] is None or start == end:  # a special piece, or that space alone
                continue
            while end < len(text) and is_mark(text[end]):  # which BERT's tokenizers drop, and byte-level ones part
                end += 1
            inside = start == last and last and is_mark(text[last - 1]) and text[start].isalnum()
            if start < last or inside or encoding.word_ids[place] == previous:
                words[-1][2] = end
            else:
                words.append([place, start, end])
            if start >= last:  # else a mark, which byte-level tokenizers may put into one word with punctuation
                previous = encoding.word_ids[place]
            last = end
        return words

    def _decoded(self, scores: Any) -> tuple[list[int], list[float]]:
        """The best sequence of tags (Viterbi), and each tag's probability over all sequences (forward-backward).

        A word's (words, classes) scores may differ from log-probabilities by a number that is the same for all tags.
        """
        within, count = self.transitions[:-1], len(self.labels)
        best, back, forward = self.transitions[-1] + scores[0], [], [self.transitions[-1] + scores[0]]
        for row in scores[1:]:
            steps = best[:, None] + within
            back.append(steps.argmax(0))
            best = steps.max(0) + row
            forward.append(np.logaddexp.reduce(forward[-1][:, None] + within, axis=0) + row)
        backward = [np.zeros(count)]
        for row in scores[:0:-1]:
            backward.append(np.logaddexp.reduce(within + row + backward[-1], axis=1))
        tags = [int(best.argmax())]
        for places in back[::-1]:
            tags.append(int(places[tags[-1]]))
        tags.reverse()
        every = softmax(np.array(forward) + np.array(backward[::-1]), self.temperature)
        return tags, [float(every[word, tag]) for word, tag in enumerate(tags)]


def is_mark(character: str) -> bool:
    """Whether it is a part of the letter before: an accent, a vowel of Hindi."""
    return unicodedata.category(character)[0] == "M"


def softmax(logits: Any, temperature: float = 1.0) -> Any:
    """Probabilities (..., classes)."""
    powers = np.exp((logits - logits.max(-1, keepdims=True)) / temperature)
    return powers / powers.sum(-1, keepdims=True)


if __name__ == "__main__":
    stdin: Any = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="\n")  # without a byte order mark
    lines = [line.removesuffix("\n").removesuffix("\r") for line in stdin]
    model = OnnxModel()
    for line, prediction in zip(lines, model([line.split("\t") if model.pairs else line for line in lines])):
        sys.stdout.buffer.write(f"{json.dumps({'text': line, **prediction}, ensure_ascii=False)}\n".encode())
