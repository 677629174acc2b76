"""What the user knows of how the target would be annotated: switches, stated and never learnt.

Guidelines are part of the shift between corpora, and no unlabelled text tells them. Whether an aspect without an
opinion counts: in some corpora a sentence is annotated only where it judges. Whether what the text is about as a whole,
the product itself, is a term. Unset, both leave predictions as they are. Results with a switch set are results of a
user who knows it, and say so by the method's name.

Products are found in the unlabelled target: nouns that go with 'this', 'my', 'your', 'our', or name what does ('a Dell
laptop'), in more than a quarter of their uses (:func:`domadapt.syntax.noun_features.owned_nouns`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.methods.method import Method
from domadapt.methods.products import ARE_TERMS, products
from domadapt.methods.term_rates import NEED_OPINION, of_judged_texts, text_begins
from domadapt.methods.term_types import term_kinds, term_labels
from domadapt.methods.units import with_word_logits
from domadapt.models.encoder import Output

NEVER = -30.0  # added to logits


class Guidelines(Method):
    """Switches at decoding.

    Args:
        entity_is_term: False takes the product itself out of the terms; True lets no other method tell it from other
            nouns; None leaves it.
        terms_need_opinion: True drops terms from texts in which no span of another type is found; None leaves them.

    Raises:
        ValueError: a switch is neither true, false nor null, or (by :meth:`prepare`) nothing in the source judges.
    """

    used_at_prediction = True
    reads = frozenset({"corpus_parses"})

    def __init__(self, entity_is_term: bool | None, terms_need_opinion: bool | None) -> None:
        super().__init__()
        switches = {"entity_is_term": entity_is_term, "terms_need_opinion": terms_need_opinion}
        for name, value in switches.items():
            if not (value is None or isinstance(value, bool)):  # 0 is false to Python, and would be ignored here
                raise ValueError(f"guidelines.{name}={value!r}: expected true, false or null")
        self.entity_is_term, self.terms_need_opinion = entity_is_term, terms_need_opinion
        self.products: frozenset[str] = frozenset()
        self.terms: list[int] = []

    def prepare(self) -> dict[str, Any]:
        """Find the products, and which labels are terms."""
        setting = self.setting
        if setting.task.kind != "token":
            return {}
        kinds, self.terms = term_kinds(setting), term_labels(setting)
        others = sorted({kind for label in setting.task.labels if (kind := label[2:])} - kinds)
        if self.terms_need_opinion and not others:
            raise ValueError(
                f"guidelines.terms_need_opinion=true: expected a span type that judges beside the terms "
                f"({', '.join(sorted(kinds))}), which the source has not; leave it null"
            )
        setting.counted[NEED_OPINION] = bool(self.terms_need_opinion)
        setting.counted[ARE_TERMS] = bool(self.entity_is_term)
        self.products = products(setting, "target")
        return {"guidelines/products": sorted(self.products)[:50]}

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``products``: (nodes,) True for words that name the product."""
        words = [e.text[s:t].lower() in self.products for e in examples for s, t in e.words.tolist()]
        return {"products": torch.tensor(words, dtype=torch.bool)}

    def transform(self, output: Output, batch: Batch) -> Output:
        """In scoring and prediction: terms that the guidelines rule out are none."""
        if self.training or not self.terms:
            return output

        def barred(rows: Tensor) -> Tensor:
            if self.entity_is_term is False:
                named = self.own(batch, "products")[batch.node_first_piece >= 0]
                rows[:, self.terms] += (NEVER * named).unsqueeze(1)
            if self.terms_need_opinion:
                judged = of_judged_texts(rows, text_begins(batch), self.terms)
                rows[:, self.terms] += (NEVER * ~judged).unsqueeze(1)
            return rows

        return with_word_logits(output, batch, barred)

    def memory(self) -> dict[str, Any]:
        """The products, and which labels are terms."""
        return {"products": sorted(self.products), "terms": self.terms}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take them back."""
        self.products, self.terms = frozenset(memory["products"]), list(memory["terms"])
