"""A prediction as a line of JSON says it."""

from typing import Any

from domadapt.data.domains import UnlabelledText
from domadapt.tasks.task import Prediction


def row(text: UnlabelledText, prediction: Prediction, kind: str) -> dict[str, Any]:
    """Id, text, and what was predicted.

    Args:
        text: that was labelled.
        prediction: of it.
        kind: of the task.

    >>> row(UnlabelledText("a:1", "", "Fast."), Prediction("positive", 0.91239), "sequence")
    {'id': 'a:1', 'text': 'Fast.', 'label': 'positive', 'confidence': 0.9124}
    """
    if kind == "sequence":
        told: dict[str, Any] = {"label": prediction.label, "confidence": round(prediction.confidence, 4)}
    else:
        spans = ((s.start, s.end, s.type, text.text[s.start : s.end]) for s in prediction.spans)
        told = {"spans": [dict(zip(("start", "end", "type", "text"), span)) for span in spans]}
    return {"id": text.id, "text": text.text, **told}
