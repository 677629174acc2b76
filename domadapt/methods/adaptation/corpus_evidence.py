r"""What the target's text says as a whole about its words, as a shift of each word's logits at decoding.

A tagger reads one sentence at a time. Whether 'warranty' is a term can be seen from all sentences together: how the
domain uses the word, and what the tagger says of it elsewhere. To the log-odds :math:`a_i` of word i being part of a
term, of type t met n times in the unlabelled target, is added

.. math:: d_i = \lambda (\ell_t - \bar\ell)
          + \mu \frac{n}{n + k} (\bar a_t - a_i) + h_t + c,

where :math:`\ell_t` is the log-odds of being a term at the type's rank among the domain's nouns
(:mod:`domadapt.methods.term_types`), learnt on the source and centred on the target, and :math:`\bar a_t` the mean of
the type's log-odds over the target. For words that name the product itself, :math:`h_t` is as far below zero as it
takes for them to be found no more often, beside other nouns, than the source's annotation has its own products, nor
than the network found them when it had read the source alone; or than a few labelled target texts have theirs, if there
are some (:mod:`domadapt.methods.products`). Where another method has seen that enough terms are found as it is, all of
this is zero: what the source taught holds there. The constant c is zero, unless more than ``cap`` times as many terms
are found in the unlabelled text as the source's rates let expect,

.. math:: \sum_{\text{target texts}} E_{source}[\text{terms} \mid \text{is another span, such as an opinion, found?}],

which says that the target is annotated more sparingly than the model labels; then it is as far below zero as it takes.
What the network finds as it is, before it adapts, is never capped: some domains have more terms than others.

No target label is read. Costs a pass over target text after each epoch; prediction looks each word up in a table, and
needs no parser. Nothing for tasks without terms. Fails where what counts as a term is a matter of the sentence.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from domadapt.data.batches import Batch, Example
from domadapt.methods.found_terms import expected_terms, found_terms, held_to, read_words
from domadapt.methods.method import Method, in_range
from domadapt.methods.products import found_rate, held_back, left_alone, product_rate, products
from domadapt.methods.term_rates import ENOUGH_TERMS, FOUND_TERMS, PerText, by_sentence, terms_per_text
from domadapt.methods.term_types import term_kinds, term_labels, term_types
from domadapt.methods.units import with_word_logits
from domadapt.models.output import Output
from domadapt.syntax.nouns import is_noun

log = logging.getLogger(__name__)
CLIP = 8.0  # of log-odds that are pooled
KNOWN = 3.0  # uses that a type's mean is trusted half at


class CorpusEvidence(Method):
    """Type-level evidence at decoding.

    Args:
        rank: weight of a noun's rank, lambda.
        pooled: weight of what the model says of a type elsewhere, mu.
        cap: how many times the expected number of terms may be found.
        products: whether products are held back.
        texts: target texts that are read after each epoch; a fixed sample.
        batch_size: of these.
    """

    reads = frozenset({"target", "corpus_parses"})
    used_at_prediction = True

    def __init__(
        self, rank: float, pooled: float, cap: float, texts: int, batch_size: int, products: bool = False
    ) -> None:
        super().__init__()
        in_range("corpus_evidence.cap", cap, 1.0, 1e6)
        in_range("corpus_evidence.rank", rank, 0.0, 10.0)
        in_range("corpus_evidence.pooled", pooled, 0.0, 1.0)
        in_range("corpus_evidence.texts", texts, 1)
        in_range("corpus_evidence.batch_size", batch_size, 1)
        if not isinstance(products, bool):
            raise ValueError(f"corpus_evidence.products={products!r}: expected true or false")
        self.rank, self.pooled, self.cap, self.holds_back = rank, pooled, cap, products
        self.texts, self.batch_size = texts, batch_size
        self.types: dict[str, int] = {}
        self.terms: list[int] = []  # labels of terms
        self.prior, self.mean, self.count, self.held = (torch.zeros(0) for _ in range(4))  # (types,)
        self.noun, self.product, self.product_rate = torch.zeros(0), torch.zeros(0), 1.0
        self.constant = 0.0
        self.asked = False  # whether it was seen how often the network finds products
        self.rates = PerText(0.0, 0.0)

    def prepare(self) -> dict[str, Any]:
        """Rank the nouns; find which labels are terms."""
        setting, domains = self.setting, self.setting.domains
        self.used_at_prediction = setting.task.kind == "token"
        if not self.used_at_prediction:
            return {"corpus_evidence/types": 0}
        records, texts = domains.source_train, domains.unlabeled.texts
        self.terms = term_labels(setting)
        self.rates = terms_per_text(records, term_kinds(setting), by_sentence(setting))
        ranked = term_types(setting)
        uses, nouns = Counter[str](), Counter[str]()
        for text, parse in zip(texts, setting.corpus_parses("target"), strict=True):
            for word, (start, end) in enumerate(parse.words.tolist()):
                uses[text.text[start:end].lower()] += 1
                nouns[text.text[start:end].lower()] += is_noun(parse, word, text.text)
        self.types = {word: place for place, word in enumerate(sorted(uses))}
        found = {word: float(ranked.log_odds(rank)) for word, rank in ranked.target.items()}
        total = sum(ranked.counts.values())
        centre = sum(ranked.counts[word] * value for word, value in found.items()) / max(1.0, total)
        mostly = {word for word in found if nouns[word] > uses[word] / 2}
        self.prior = torch.tensor([found[w] - centre if w in mostly else 0.0 for w in self.types])
        self.mean, self.count, self.held = (torch.zeros(len(self.types)) for _ in range(3))
        named = products(setting, "target") & mostly if self.holds_back else frozenset()
        self.noun, self.product = (torch.tensor([w in some for w in self.types]) for some in (mostly, named))
        told: dict[str, Any] = {"corpus_evidence/types": len(self.types), "corpus_evidence/nouns": len(mostly)}
        if named:
            own = setting.corpus_parses("source"), term_kinds(setting), products(setting, "source")
            self.product_rate = product_rate(records, *own)
            if few := domains.target_records:  # which tell more of the target than the source does
                theirs = setting.corpus_parses("labelled target"), term_kinds(setting), products(setting, "target")
                self.product_rate = product_rate(few, *theirs, expected=self.product_rate)
            told |= {"corpus_evidence/products": len(named), "corpus_evidence/product_rate": self.product_rate}
        return told

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``types``: (nodes,) number of each word's type, -1 for one that the target has not."""
        known = self.types
        places = [known.get(e.text[s:t].lower(), -1) for e in examples for s, t in e.words.tolist()]
        return {"types": torch.tensor(places, dtype=torch.int64)}

    def transform(self, output: Output, batch: Batch) -> Output:
        """The shift, in scoring and prediction."""
        if self.training or not self.terms or not len(self.types):
            return output
        types = self.own(batch, "types")[batch.node_first_piece >= 0]

        def shifted(rows: Tensor) -> Tensor:
            shift = self.shift(self.log_odds(rows), types) + self.held_of(types) + self.constant
            rows[:, self.terms] += shift.unsqueeze(1)
            return rows

        return with_word_logits(output, batch, shifted)

    def log_odds(self, logits: Tensor) -> Tensor:
        """(rows,) of being part of a term."""
        others = [i for i in range(logits.shape[-1]) if i not in self.terms]
        logits = logits.float()
        return logits[:, self.terms].logsumexp(-1) - logits[:, others].logsumexp(-1)

    def shift(self, odds: Tensor, types: Tensor, apart: bool = False) -> Tensor:
        """(rows,) what is added to the log-odds of words, but for the constant.

        Args:
            odds: (rows,) of the model.
            types: (rows,) number of each word's type, -1 for unknown.
            apart: the words are among those counted: each type's mean is that of its other words.
        """
        if not len(self.prior):
            return torch.zeros_like(odds)
        known, place = types >= 0, types.clamp(min=0)
        prior = self.rank * self.prior.to(odds.device)[place] * known
        own = (odds + prior).clamp(-CLIP, CLIP)
        count, mean = self.count.to(odds.device)[place], self.mean.to(odds.device)[place]
        if apart:
            mean = (mean * count - own) / (count - 1).clamp(min=1)
            count = count - 1
        trust = self.pooled * count.clamp(min=0) / (count.clamp(min=0) + KNOWN)
        return prior + trust * (mean - own) * known

    def held_of(self, types: Tensor) -> Tensor:
        """(rows,) what is added to the log-odds of products."""
        return self.held.to(types.device)[types.clamp(min=0)] * (types >= 0)

    def after_epoch(self, epoch: int) -> None:
        """Read the target with the model as it is now, and count again."""
        if not self.terms or not len(self.types):
            return
        examples = self.setting.target_sample(self.texts, seed=0)
        found = []
        # Of the network alone, as its words are shifted before other methods speak: theirs is no evidence of a word.
        for batch, output in self.setting.outputs(examples, self.batch_size, "evidence", alone=True):
            rows, begins, read = read_words(batch, output, by_sentence(self.setting))
            found.append((rows, self.own(batch, "types").cpu()[read], begins))
        logits, types, first = (torch.cat(parts) for parts in zip(*found, strict=True))
        odds, known = self.log_odds(logits), types >= 0
        noun = known & self.noun[types.clamp(min=0)]
        product = self.product[types[noun]]
        if ENOUGH_TERMS in self.setting.counted and not self.asked:  # before products stand in terms' places
            self.asked = True
            if not self.setting.domains.target_records:
                self.product_rate = min(self.product_rate, found_rate(odds[noun], product, self.product_rate))
        if self.setting.counted.get(ENOUGH_TERMS):
            self.prior, known = torch.zeros_like(self.prior), torch.zeros_like(known)
        own = (odds + self.rank * self.prior[types.clamp(min=0)] * known).clamp(-CLIP, CLIP)
        size = len(self.types)
        self.count = torch.zeros(size).index_add(0, types[known], torch.ones(int(known.sum())))
        self.mean = torch.zeros(size).index_add(0, types[known], own[known]) / self.count.clamp(min=1)
        shift = self.shift(odds, types, apart=True)
        nouns = (odds + shift)[noun], product
        self.held = (0.0 if left_alone(self.setting) else held_back(*nouns, self.product_rate)) * self.product
        self.constant = self.capped(logits, shift + self.held_of(types), first)

    def capped(self, logits: Tensor, shift: Tensor, begins: Tensor) -> float:
        """The constant that keeps the number of terms below the cap: zero where it is."""
        if not len(begins):
            return 0.0
        known = self.setting.counted
        enough = known.get(ENOUGH_TERMS) and not self.setting.domains.target_records
        cap = max(self.cap, known.get(FOUND_TERMS, 0.0)) if enough else self.cap
        most = cap * expected_terms(logits, begins, self.terms, self.rates)

        def found(constant: float) -> int:
            moved = logits.clone()
            moved[:, self.terms] += (shift + constant).unsqueeze(1)
            return found_terms(moved, begins, self.terms)

        constant = held_to(most, found)
        if constant:
            told = "corpus_evidence: more than %.1f times the terms to expect were found in the target; "
            log.info(told + "all are held back by %.1f in log-odds (corpus_evidence.cap)", cap, -constant)
        return constant

    def memory(self) -> dict[str, Any]:
        """The table."""
        numbers = {"prior": self.prior, "mean": self.mean, "count": self.count, "constant": self.constant}
        seen = {"asked": self.asked, "product_rate": self.product_rate}  # for a run that is resumed
        return {"words": list(self.types), "terms": self.terms, "held": self.held, **numbers, **seen}

    def recall(self, memory: dict[str, Any]) -> None:
        """Take the table back."""
        self.types = {word: place for place, word in enumerate(memory["words"])}
        self.terms, self.constant = list(memory["terms"]), float(memory["constant"])
        self.prior, self.mean, self.count = memory["prior"], memory["mean"], memory["count"]
        self.held = memory.get("held", torch.zeros(len(self.types)))  # models of before have none
        self.asked, self.product_rate = bool(memory.get("asked")), float(memory.get("product_rate", self.product_rate))
