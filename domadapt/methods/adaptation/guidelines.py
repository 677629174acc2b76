"""What the user knows of how the target would be annotated: switches at decoding, stated and never learnt.

Guidelines are part of the shift between corpora, and no unlabelled text tells them: does a term count on which no
opinion is given? Is the product itself a term? Unset, predictions stay as they are; set, the method's name says so.
Rules that guess the answers from text gained on two corpora and lost 6 to 13 points of F1 on three others. Ours.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.methods.method import Method, one_of
from domadapt.methods.terms import term_kinds
from domadapt.methods.units import with_word_logits
from domadapt.models.output import Output

NEVER = -30.0  # added to logits


class Guidelines(Method):
    """Switches at decoding."""

    used_at_prediction = True
    reads = frozenset({"corpus_parses"})
    tasks = frozenset({"token"})

    def __init__(self, terms_need_opinion: bool | None, not_terms: Sequence[str] | str | None) -> None:
        super().__init__()
        one_of("guidelines.terms_need_opinion", terms_need_opinion, True, False, None)
        if isinstance(not_terms, str):
            path = Path(not_terms)
            if not path.is_file():
                raise ValueError(f"guidelines.not_terms={not_terms}: no such file; give one, or a list of words")
            not_terms = path.read_text(encoding="utf-8").split("\n")
        self.terms_need_opinion = terms_need_opinion
        self.not_terms = frozenset(word.strip().lower() for word in not_terms or () if word.strip())
        self.terms: list[int] = []

    def prepare(self) -> dict[str, Any]:
        """Find out which labels are terms."""
        labels, kinds = self.session.task.labels, term_kinds(self.session)
        self.terms = [place for place, label in enumerate(labels) if label[2:] in kinds]
        if self.terms_need_opinion and len(self.terms) + 1 == len(labels):
            expected = f"expected a span type of opinions beside the terms ({', '.join(sorted(kinds))})"
            raise ValueError(f"guidelines.terms_need_opinion=true: {expected}, which the source has not; leave it null")
        return {"guidelines/not_terms": sorted(self.not_terms)[:50]}

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``barred``: (nodes,) True for words that are in no term."""
        words = [e.word(place).lower() in self.not_terms for e in examples for place in range(len(e.words))]
        return {"barred": torch.tensor(words, dtype=torch.bool)}

    def transform(self, output: Output, batch: Batch) -> Output:
        """In scoring and prediction: what the guidelines rule out is no term."""
        if self.training or not self.terms:
            return output
        read = batch.node_first_piece >= 0

        def without(logits: Tensor) -> Tensor:
            logits[:, self.terms] += NEVER * self.own(batch, "barred")[read].unsqueeze(1)
            if self.terms_need_opinion:
                tags = logits.argmax(-1)
                others = [tag for tag in range(1, logits.shape[1]) if tag not in self.terms]
                opinion = torch.isin(tags, torch.tensor(others, device=tags.device))
                texts = batch.node_places()[0][read]
                judged = torch.zeros(len(batch.words), dtype=torch.bool, device=tags.device)
                judged[texts[opinion]] = True
                logits[:, self.terms] += NEVER * (~judged[texts]).unsqueeze(1)
            return logits

        return with_word_logits(output, batch, without)

    def memory(self) -> dict[str, Any]:
        return {"terms": self.terms, "not_terms": sorted(self.not_terms)}

    def recall(self, memory: dict[str, Any]) -> None:
        self.terms, self.not_terms = list(memory["terms"]), frozenset(map(str, memory["not_terms"]))
