"""Labels of known noise, as somebody might write them: ``python -m benchmarks.noisy_labels FILE COUNT NOISE OUTPUT``.

Of COUNT texts of a labelled file, drawn by seed 0, a share NOISE of the spans is wrong: a third of these are left out,
a third are cut short or go on for a word, a third stand on another word. What learns from OUTPUT must find out.
"""

import json
import random
import sys
from pathlib import Path

from domadapt.data.readers import read
from domadapt.data.records import Record, Span
from domadapt.utils.files import write_atomic


def noisy(record: Record, noise: float, chance: random.Random) -> list[Span]:
    """A record's spans with noise.

    >>> record = Record("1", "bar", "Good cold beer here", spans=(Span(5, 14, "aspect"),))
    >>> noisy(record, 0.0, random.Random(0)) == [*record.spans], noisy(record, 1.0, random.Random(1)) == [*record.spans]
    (True, False)
    """
    words, at = [], 0
    for word in record.text.split():
        at = record.text.index(word, at)
        words.append((at, at := at + len(word)))
    spans = []
    for span in record.spans or ():
        how = chance.choice(("left out", "another end", "another place")) if chance.random() < noise else "right"
        inside = [i for i, (start, end) in enumerate(words) if start < span.end and span.start < end]
        if how == "another end" and inside:
            last = inside[-1] - 1 if len(inside) > 1 else min(inside[-1] + 1, len(words) - 1)
            span = Span(words[inside[0]][0], words[last][1], span.type)
        elif how == "another place":
            start, end = chance.choice(words)
            span = Span(start, end, span.type)
        if how != "left out":
            spans.append(span)
    return spans


def main() -> None:
    path, count, noise, output = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    chance = random.Random(0)
    records = read(path, domain="target").records
    drawn = chance.sample(records, min(count, len(records)))
    rows = [
        {
            "text": record.text,
            "spans": [{"start": s.start, "end": s.end, "type": s.type} for s in noisy(record, noise, chance)],
        }
        for record in drawn
    ]
    write_atomic(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


if __name__ == "__main__":
    main()
