"""Which texts to have labelled, by hand or by a large model: unlike each other, and such as the model is unsure of."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from domadapt.cli.verbs import column, loaded
from domadapt.config.overrides import in_range
from domadapt.data.domains import UnlabelledText
from domadapt.data.readers import open_texts, read
from domadapt.data.records import Record
from domadapt.data.texts import identity
from domadapt.inference.description import model_folder, read_description
from domadapt.utils.files import write_atomic
from domadapt.utils.pairs import apart
from domadapt.utils.text import json_lines

EXAMPLES = 10  # labelled source texts in the prompt
MOST = 20_000  # texts that are read
UNSURE = 3  # words that a text's uncertainty is the mean of: most words of any text are plainly nothing
LEAST = 1e-3  # of a text that the model is sure of, and of one that lies where another does


def sample(cfg: DictConfig) -> str:
    """Write the chosen texts, with places for labels, and a prompt with examples in the user's own style."""
    in_range("count", cfg.count, 1)
    folder = model_folder(str(cfg.model))
    names = read_description(folder).names
    examples = [] if cfg.examples is None else _examples(Path(str(cfg.examples)))
    output = Path(str(cfg.output))
    for path in (output, output.with_suffix(".prompt.txt")):
        if path.exists():
            raise ValueError(f"output={output}: {path} is there already, and may hold labels; give another name")
    stream = open_texts(str(cfg.input), cfg.format, Counter(), column(cfg))[1]
    texts = list({identity(text.text): text for text in islice(stream, MOST)}.values())  # copies once
    model = loaded(cfg, folder)
    rows = model.session.evaluate(model.examples(texts), 64, "sample").rows
    unsure, features = np.zeros(len(texts)), np.zeros((len(texts), rows.features.shape[1]))
    np.add.at(features, rows.texts, rows.features.astype(float))
    doubt = 1 - rows.probabilities.max(-1)
    for text in range(len(texts)):
        own = np.sort(doubt[rows.texts == text])[-UNSURE:]
        unsure[text] = own.mean() if len(own) else 0.0
    chosen = spread(features, unsure, cfg.count)
    token = model.session.task.kind == "token"
    place: dict[str, Any] = {"spans": None} if token else {"label": None}
    write_atomic(output, "".join(json_lines({"id": texts[i].id, **apart(texts[i].text), **place} for i in chosen)))
    write_atomic(output.with_suffix(".prompt.txt"), prompt([texts[i] for i in chosen], examples, names, token))
    return (
        f"{output}: {len(chosen)} of {len(texts)} texts; {output.with_suffix('.prompt.txt')}: the same as a prompt, "
        f"with {len(examples)} examples; learn from what comes back with adaptation=external_labels "
        f"adaptation.external_labels.path=FILE; to measure, label a run's fifty_to_label"
    )


def _examples(path: Path) -> list[Record]:
    labelled = [r for r in read(path, domain="source").records if r.label is not None or r.spans]
    if not labelled:
        raise ValueError(f"examples={path}: none of its texts has a label or a span; expected your labelled source")
    return random.Random(1).sample(labelled, min(EXAMPLES, len(labelled)))


def spread(features: Any, weights: Any, count: int) -> list[int]:
    """Numbers of texts, each the farthest from those before it; (texts, width), distance counting by (texts,) weight.

    >>> spread(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.6, 0.8]]), np.array([0.9, 0.8, 0.5, 0.4]), 3)
    [0, 2, 3]
    """
    centred = features - features.mean(0)
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    chosen: list[int] = []
    distance, left = np.ones(len(unit)), np.ones(len(unit), dtype=bool)
    while len(chosen) < min(count, len(unit)):
        best = int(np.where(left, (distance + LEAST) * (weights + LEAST), -1.0).argmax())
        chosen.append(best)
        left[best] = False
        distance = np.minimum(distance, np.maximum(0.0, 1 - unit @ unit[best]))
    return chosen


def prompt(texts: Sequence[UnlabelledText], examples: Sequence[Record], names: Sequence[str], token: bool) -> str:
    """Instructions, examples and texts, with answers in the form that external labels are read in."""
    form = '"spans": [{"text": "words as they stand in the text", "type": "TYPE"}]' if token else '"label": "LABEL"'
    what = "mark every span of these types" if token else "give each text one of these labels"
    lines = [
        f"In the texts below, {what}: {', '.join(names)}. Follow the style of the examples.",
        f'Answer with one JSON object a line, and nothing else: {{"id": "...", "text": "the text", {form}}}',
        *(["", "Examples:"] if examples else []),
    ]
    for record in examples:
        spans = [{"text": record.text[s.start : s.end], "type": s.type} for s in record.spans or ()]
        answer = {"spans": spans} if token else {"label": record.label}
        lines.append(json.dumps({**apart(record.text), **answer}, ensure_ascii=False))
    lines += ["", "Texts:", *(json.dumps({"id": t.id, **apart(t.text)}, ensure_ascii=False) for t in texts)]
    return "\n".join(lines) + "\n"
