"""A prediction as JSON says it: in files, on the web page, and from an exported model."""

from typing import Any

from domadapt.data.domains import UnlabelledText
from domadapt.data.records import Span
from domadapt.tasks.task import Prediction


def row(text: UnlabelledText, prediction: Prediction, kind: str) -> dict[str, Any]:
    """A prediction as a line of JSON says it.

    Args:
        text: as it was given.
        prediction: of it.
        kind: of the task, ``sequence`` or ``token``.

    >>> row(UnlabelledText("a:1", "", "Fast."), Prediction("positive", 0.91239), "sequence")
    {'id': 'a:1', 'text': 'Fast.', 'label': 'positive', 'confidence': 0.9124}
    >>> row(UnlabelledText("a:1", "", "Fast."), Prediction(spans=(Span(0, 4, "opinion", 0.75),)), "token")["spans"]
    [{'start': 0, 'end': 4, 'type': 'opinion', 'text': 'Fast', 'confidence': 0.75}]
    """
    if kind == "sequence":
        told: dict[str, Any] = {"label": prediction.label, "confidence": round(prediction.confidence, 4)}
    else:
        told = {"spans": [_span(text.text, span) for span in prediction.spans]}
    return {"id": text.id, "text": text.text, **told}


def _span(text: str, span: Span) -> dict[str, Any]:
    found = {"start": span.start, "end": span.end, "type": span.type, "text": text[span.start : span.end]}
    return found | ({} if span.confidence is None else {"confidence": round(span.confidence, 4)})
