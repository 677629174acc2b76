"""What the user knows of how the target would be annotated: switches, stated and never learnt.

Guidelines are part of the shift between corpora, and no unlabelled text tells them. Whether a term counts on which no
opinion is given: in some corpora only what is judged is annotated. Whether what the text is about as a whole, the
product itself, is a term. Unset, both leave predictions as they are. Results with a switch set are results of a
user who knows it, and say so by the method's name.

An opinion is given on a term that few arcs of the dependency tree part from it: as few as hold nine in ten of the
source's terms, of those in texts with an opinion (three arcs in reviews of devices, laptops and restaurants alike). So
texts in which both are found are parsed at prediction. Costs that and a count of the source; training is as without.
Fails where what is stated does not hold: terms that need no opinion lost 4 to 8 points of F1 where one was asked for
anywhere in their text. Ours.

Products are found in the unlabelled target: nouns that go with 'this', 'my', 'your', 'our', or name what does ('a Dell
laptop'), in more than a quarter of their uses (:func:`domadapt.syntax.noun_features.owned_nouns`).
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.data.records import Record
from domadapt.methods.found_terms import of_judged_texts, text_begins
from domadapt.methods.method import Method
from domadapt.methods.products import ARE_TERMS, products
from domadapt.methods.term_rates import NEED_OPINION
from domadapt.methods.term_types import term_kinds, term_labels
from domadapt.methods.units import joined_kinds, read_words_of, with_word_logits
from domadapt.models.output import Output
from domadapt.syntax.parser import Parse
from domadapt.syntax.trees import arcs_from
from domadapt.tasks.tagged import tagged

NEVER = -30.0  # added to logits
SHARE = 0.9  # of the source's terms, in texts with an opinion, that have one so near


class Guidelines(Method):
    """Switches at decoding.

    Args:
        entity_is_term: False takes the product itself out of the terms; True lets no other method tell it from other
            nouns; None leaves it.
        terms_need_opinion: True drops terms that no span of another type is near in the tree; None leaves them.

    Attributes:
        arcs: how far in the tree an opinion may be; None where its text is all that the source tells.

    Raises:
        ValueError: a switch is neither true, false nor null, or (by :meth:`prepare`) nothing in the source judges.
    """

    used_at_prediction = True
    reads = frozenset({"corpus_parses"})
    tasks = frozenset({"token"})

    def __init__(self, entity_is_term: bool | None, terms_need_opinion: bool | None) -> None:
        super().__init__()
        switches = {"entity_is_term": entity_is_term, "terms_need_opinion": terms_need_opinion}
        for name, value in switches.items():
            if not (value is None or isinstance(value, bool)):  # 0 is false to Python, and would be ignored here
                raise ValueError(f"guidelines.{name}={value!r}: expected true, false or null")
        self.entity_is_term, self.terms_need_opinion = entity_is_term, terms_need_opinion
        self.products: frozenset[str] = frozenset()
        self.terms: list[int] = []
        self.arcs: int | None = None
        if terms_need_opinion:
            self.reads = self.reads | {"parser_at_prediction"}

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
        told: dict[str, Any] = {"guidelines/products": sorted(self.products)[:50]}
        if self.terms_need_opinion:
            records = setting.domains.source_train
            self.arcs = arcs_to_opinions(records, list(setting.parser.parse(records)), kinds, SHARE)
            told["guidelines/arcs"] = "any" if self.arcs is None else self.arcs
        return told

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
                rows[:, self.terms] += (NEVER * self.unjudged(rows, batch)).unsqueeze(1)
            return rows

        return with_word_logits(output, batch, barred)

    def unjudged(self, rows: Tensor, batch: Batch) -> Tensor:
        """(words with a piece,) True in texts without an opinion, and in terms far from any; by likeliest labels."""
        judged = of_judged_texts(rows, text_begins(batch), self.terms)
        if self.arcs is None:
            return ~judged
        (texts, numbers, begins), kept = read_words_of(batch), judged.cpu().numpy()
        opinions: dict[int, list[int]] = {}
        terms: dict[int, list[slice]] = {}
        for first, last, kind in tagged(rows.argmax(-1).cpu().numpy(), begins, joined_kinds(self.setting.task)):
            text, words = int(texts[first]), slice(first, last + 1)
            if 2 * kind + 1 not in self.terms:
                opinions.setdefault(text, []).extend(numbers[words].tolist())
            elif kept[first]:
                terms.setdefault(text, []).append(words)
        for text, parse in zip(terms, self.setting.parsed([batch.examples[text] for text in terms]), strict=True):
            near = {word for word, arcs in arcs_from(parse, opinions[text]).items() if arcs <= self.arcs}
            for words in terms[text]:
                kept[words] = not near.isdisjoint(numbers[words].tolist())
        return ~torch.from_numpy(kept).to(rows.device)

    def memory(self) -> dict[str, Any]:
        """The products, which labels are terms, and how near opinions are."""
        return {"products": sorted(self.products), "terms": self.terms, "arcs": self.arcs}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take them back."""
        self.products, self.terms = frozenset(memory["products"]), list(memory["terms"])
        self.arcs = memory.get("arcs")  # models of before have none


def arcs_to_opinions(
    records: Sequence[Record], parses: Sequence[Parse], kinds: Collection[str], share: float
) -> int | None:
    """The fewest arcs within which that share of terms has an opinion, of the terms in texts that have one.

    Args:
        records: annotated.
        parses: of them.
        kinds: span types of terms; the others are opinions.
        share: of the terms.

    Returns:
        None where too many have theirs in another tree, another sentence perhaps.
    """
    apart: list[float] = []
    for record, parse in zip(records, parses, strict=True):
        spans = [
            (span.type in kinds, range(*(parse.within(span.start, span.end) or (0, 0)))) for span in record.spans or ()
        ]
        if near := arcs_from(parse, [word for is_term, words in spans if not is_term for word in words]):
            terms = [words for is_term, words in spans if is_term]
            apart += [min((near[word] for word in words if word in near), default=inf) for words in terms]
    most = float(np.quantile(apart, share, method="inverted_cdf")) if apart else inf
    return int(most) if most < inf else None
