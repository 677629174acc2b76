r"""Labels of the target that rules make, each for as much as the source says it is worth, beside the task's loss.

Where spans are extracted, double propagation (Qiu et al. 2011) from the source's opinion words through the target's
dependency trees tells how likely each noun is part of a term; where texts are classified, words that go with a class in
the source do (:mod:`domadapt.methods.weak_evidence` has both, and how they are denoised). With probabilities
:math:`q_i` over groups g of the task's classes, terms and all else, or each class by itself,

.. math:: L = L_{task} + w \frac{\sum_i v_i \sum_g -q_{ig} \log \sum_{c \in g} p_{ic}}{\sum_i v_i},
          \qquad v_i = 1 - \frac{H(q_i)}{\ln G} .

Where a term begins and what type it has is left to the task. Other words than nouns are not labelled.

Costs parsing the target once, and a pass over a target batch a step; nothing at prediction. Fails where terms are not
what is judged (parts that are only named), where the source's opinion words are not the target's, and where the rate of
terms among nouns differs much: probabilities carry over less well than ranks. Needs a parser that tags parts of speech.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from domadapt.data.batches import Example
from domadapt.methods.method import Method, Step, in_range
from domadapt.methods.opinion_paths import path_rules as learn_path_rules
from domadapt.methods.term_types import term_kinds, term_labels
from domadapt.methods.units import entropy, logits_of, merge, rows_by_text
from domadapt.methods.weak_evidence import (
    FloatArray,
    class_evidence,
    judging_words,
    learnt,
    noun_evidence,
    nouns_of,
    rule_evidence,
    within,
)
from domadapt.syntax.double_propagation import double_propagation

LONGEST = 3  # arcs of a path rule


class WeakLabels(Method):
    """Soft labels by rule.

    Args:
        rounds: of propagation.
        least: relations that must tell a word before it is listed.
        weight: of the loss.
        path_rules: at most, of the source's (:mod:`domadapt.syntax.path_rules`), as further evidence; 0 for none.
    """

    reads = frozenset({"target", "corpus_parses"})

    def __init__(self, rounds: int, least: int, weight: float, path_rules: int = 0) -> None:
        super().__init__({"weak_labels": weight})
        in_range("weak_labels.rounds", rounds, 1)
        in_range("weak_labels.least", least, 1)
        in_range("weak_labels.path_rules", path_rules, 0)
        self.rounds, self.least, self.path_rules = rounds, least, path_rules
        self.labels: dict[str, Tensor] = {}  # by text: (words, 2), or (1, classes); zeros for words without a label
        self.names: list[str] = []  # of the group of each class

    def prepare(self) -> dict[str, Any]:
        """Run the rules over both domains, and learn from the source what they are worth.

        Raises:
            ValueError: spans are to be extracted, and those of no type are mostly nouns, so none is a term.
        """
        setting = self.setting
        if setting.task.kind == "token":
            return self._words()
        records, texts = setting.domains.source_train, setting.domains.unlabeled.texts
        parses = setting.corpus_parses("source"), setting.corpus_parses("target")
        self.names = setting.task.labels
        found = class_evidence(records, parses[0], texts, parses[1], self.names, self.rounds)
        self.labels = {t.text: torch.tensor(row[None]).float() for t, row in zip(texts, found, strict=True)}
        return {"weak_labels/shares": dict(zip(self.names, found.mean(0).tolist(), strict=True))}

    def _words(self) -> dict[str, Any]:
        setting = self.setting
        records, texts = setting.domains.source_train, setting.domains.unlabeled.texts
        own, parses = setting.corpus_parses("source"), setting.corpus_parses("target")
        kinds, terms = term_kinds(setting), set(term_labels(setting))
        if not kinds:
            raise ValueError(
                "weak_labels: expected a span type whose words are mostly nouns, as terms are; the source has none of "
                f"{', '.join(label[2:] for label in setting.task.labels[1::2])}; leave the method out"
            )
        self.names = ["term" if label in terms else "other" for label in range(len(setting.task.labels))]
        seeds = judging_words(records, own, kinds)
        told = (
            double_propagation(records, own, seeds, self.rounds, self.least),
            double_propagation(texts, parses, seeds, self.rounds, self.least),
        )
        known, asked = noun_evidence(records, own, told[0]), noun_evidence(texts, parses, told[1])
        if self.path_rules:
            rules = learn_path_rules(records, own, kinds, seeds, self.path_rules, LONGEST)
            known = both(known, rule_evidence(records, own, told[0].opinions, rules))
            asked = both(asked, rule_evidence(texts, parses, told[1].opinions, rules))
        true = [[within(r, p, i, kinds, True) for i in nouns_of(r, p)] for r, p in zip(records, own, strict=True)]
        classes = np.array([is_term for row in true for is_term in row], dtype=np.int64)
        found = learnt(np.concatenate(known), classes, np.concatenate(asked), 2)
        ends = np.cumsum([len(rows) for rows in asked])
        for text, parse, rows in zip(texts, parses, np.split(found, ends[:-1]), strict=True):
            labels = torch.zeros(len(parse.words), 2)
            labels[nouns_of(text, parse)] = torch.tensor(rows).float()
            self.labels[text.text] = labels
        return {
            "weak_labels/seeds": len(seeds),
            "weak_labels/opinions": len(told[1].opinions),
            "weak_labels/terms": len(told[1].terms),
            "weak_labels/nouns": len(found),
            "weak_labels/share": float(found[:, 1].mean()) if len(found) else 0.0,
        }

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """``labels``: (words or texts, groups) probabilities; zeros for what has no label."""
        if not self.labels:
            return {}
        counts = [len(e.words) if self.setting.task.kind == "token" else 1 for e in examples]
        return {"labels": rows_by_text(self.labels, examples, counts, len(set(self.names)))}

    def losses(self, step: Step) -> dict[str, Tensor]:
        """Of the target batch."""
        if step.target is None or not self.labels:
            return {}
        batch, token = step.target.batch, self.setting.task.kind == "token"
        labels = self.own(batch, "labels")
        labels = labels[batch.node_first_piece >= 0] if token else labels
        order = ["other", "term"] if token else self.names
        logits = logits_of(step.target.output, batch, token).float()
        return {"weak_labels": step.target.weight * weak_cross_entropy(logits, labels, self.names, order)}


def both(first: Sequence[FloatArray], second: Sequence[FloatArray]) -> list[FloatArray]:
    """Of each text, two tables of features side by side."""
    return [np.hstack(tables) for tables in zip(first, second, strict=True)]


def weak_cross_entropy(logits: Tensor, labels: Tensor, names: list[str], order: list[str]) -> Tensor:
    """Of groups of classes, each row for as much as its label tells; zero without labels that tell anything.

    Args:
        logits: (rows, classes).
        labels: (rows, groups) probabilities; zeros for rows without a label.
        names: of each class's group.
        order: of the groups.

    >>> labels, names, order = torch.tensor([[0.1, 0.9], [0.0, 0.0]]), ["other", "term", "term"], ["other", "term"]
    >>> near, far = torch.tensor([[0.0, 2.0, 2.0]] * 2), torch.tensor([[4.0, 0.0, 0.0]] * 2)
    >>> bool(weak_cross_entropy(near, labels, names, order) < weak_cross_entropy(far, labels, names, order))
    True
    """
    met = list(dict.fromkeys(names))
    grouped = merge(logits.softmax(-1), names)[:, [met.index(name) for name in order]]
    losses = -(labels * grouped.clamp(min=1e-8).log()).sum(-1)
    weight = (1 - entropy(labels) / math.log(len(order))).clamp(min=0) * (labels.sum(-1) > 0)
    return (weight * losses).sum() / weight.sum().clamp(min=1e-8)
