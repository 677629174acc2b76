"""What a model says of one text, as the page shows it: label or spans, tree, where attention goes."""

from dataclasses import dataclass
from typing import Any

from domadapt.analysis.attention import as_parse, look, syntax_layer
from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.inference.model import Model
from domadapt.inference.rows import row
from domadapt.reporting.trees import Lane, tree_svg
from domadapt.syntax.parser import Parser, SpacyParser
from domadapt.utils.text import visible

DRAWN = 80  # words of a text whose tree is drawn


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text: a span of a type with its confidence in percent, or what stands between two."""

    text: str
    type: str | None = None
    percent: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer.

    Attributes:
        pieces: the whole text, in order.
        classes: each class with its share in percent, likeliest first; of classification.
        tree, attention: ``svg`` elements; empty where there is none.
        notes: what the reader should know.
    """

    pieces: tuple[Piece, ...]
    classes: tuple[tuple[str, float], ...]
    tree: str
    attention: str
    notes: tuple[str, ...]


class Answers:
    """A model with the parser that draws its trees.

    Args:
        model: loaded on the CPU.
        folder: it was loaded from.
    """

    def __init__(self, model: Model, folder: Any) -> None:
        self.model = model
        self.kind: str = model.setting.task.kind
        self.parser: Parser = model.setting.parser if model.parses else SpacyParser()
        self.layer = syntax_layer(folder)

    def rows(self, texts: list[str]) -> list[dict[str, Any]]:
        """As the JSON endpoint gives them, without the numbers of the texts."""
        given = list(unlabelled(texts))
        found = zip(given, self.model.predict_texts(given), strict=True)
        return [{k: v for k, v in row(text, said, self.kind).items() if k != "id"} for text, said in found]

    def shown(self, text: str) -> Shown:
        """Everything that there is to show of a text."""
        [found] = self.rows([text])
        notes = []
        if self.model.truncated:
            notes.append(f"The model reads the first {self.model.setting.max_pieces} pieces of a text, not the rest.")
        classes: list[tuple[str, float]] = []
        if self.kind == "sequence":
            shares = self.model.probabilities([text])[0].tolist()
            named = zip(self.model.setting.task.labels, (100 * share for share in shares), strict=True)
            classes = sorted(((visible(name), share) for name, share in named), key=lambda pair: -pair[1])
        tree, attention = self._drawn(text, found.get("spans", []), notes)
        return Shown(pieces(text, found.get("spans", [])), tuple(classes), tree, attention, tuple(notes))

    def _drawn(self, text: str, spans: list[dict[str, Any]], notes: list[str]) -> tuple[str, str]:
        [parse] = self.parser.parse([UnlabelledText("0", "", text)])
        if len(parse.heads) > DRAWN:
            notes.append(f"Trees are drawn of up to {DRAWN} words; this text has {len(parse.heads)}.")
            return "", ""
        lanes = [Lane("found", tuple((span["start"], span["end"], span["type"]) for span in spans))] if spans else []
        tree = tree_svg(text, parse, lanes, "the parser's tree of the text")
        setting = self.model.setting
        if not setting.encoder.takes_methods or setting.encoder.unreachable or setting.device.type != "cpu":
            return tree, ""
        seen = look(self.model, self.layer, [text], [parse])
        arcs, agree, of = as_parse(seen.weights[0], parse)
        notes.append(
            f"Attention is drawn from each word to the one that it looks at most, in percent: head {seen.head + 1} of "
            f"{seen.heads} in layer {seen.layer + 1}, which is most like the tree ({agree} of {of} words)."
        )
        return tree, tree_svg(text, arcs, [], "where the model's attention goes")


def pieces(text: str, spans: list[dict[str, Any]]) -> tuple[Piece, ...]:
    """A text cut at its spans, which do not overlap.

    >>> found = pieces("A sharp lens", [{"start": 2, "end": 7, "type": "opinion", "confidence": 0.91}])
    >>> [(piece.text, piece.type, piece.percent) for piece in found]
    [('A ', None, 0), ('sharp', 'opinion', 91), (' lens', None, 0)]
    """
    found, at = [], 0
    for span in spans:
        found.append(Piece(visible(text[at : span["start"]])))
        said = visible(text[span["start"] : span["end"]])
        found.append(Piece(said, visible(span["type"]), round(100 * span["confidence"])))
        at = span["end"]
    return tuple(piece for piece in (*found, Piece(visible(text[at:]))) if piece.text)
