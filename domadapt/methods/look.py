"""The look before the recipe acts: is the model starved of recall in the target, or does it find enough as it is?"""

from collections.abc import Sequence

import torch
from torch import Tensor

from domadapt.data.batches import Example
from domadapt.methods.found_terms import (
    expected_terms,
    found_terms,
    judging,
    of_judged_texts,
    read_words,
    share_of_expected,
)
from domadapt.methods.setting import Setting
from domadapt.methods.term_rates import NEED_OPINION, by_sentence, counted_texts, of_the_source, terms_per_text
from domadapt.methods.term_types import term_kinds, term_labels

LEARNT = 0.5  # share of the terms to expect in source dev, from which on what is found in the target tells something
MUTE = 0.65  # so many texts that judge, as a share of those in source dev, are too few to tell by


def found_of_expected(setting: Setting, texts: int, batch_size: int) -> float | None:
    """Terms that the model means to find in target texts, as a share of those to expect, beside that in source dev.

    Clearly below 1 it is starved of recall: the target's words are strange to it. Near 1 or above there is nothing to
    be had from making it bolder. That it finds too few or too many everywhere, early in training, cancels out. Where
    much fewer texts judge than in source dev it is starved of judgements, too, and of these texts too few terms are
    expected: then that share is what is told. Labelled target texts, where there are some, tell how many to expect.

    Args:
        setting: of the run.
        texts: size of the sample; of what validators read, where no method reads the target.
        batch_size: of reading it.

    Returns:
        None where it is too early to tell: less than half of what is to be expected is found in source dev.
    """
    terms, kinds, judged_only = term_labels(setting), term_kinds(setting), setting.counted.get(NEED_OPINION, False)
    few, sentences = setting.domains.target_records, by_sentence(setting)
    labelled = [count for judges, count in counted_texts(few, kinds, sentences) if judges or not judged_only]
    rates = terms_per_text(of_the_source(setting.domains), kinds, sentences)

    def words(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        outputs = setting.outputs(examples, batch_size, "count terms", alone=True)
        read = [read_words(*both, by_sentence(setting))[:2] for both in outputs]
        logits, begins = (torch.cat(parts) for parts in zip(*read, strict=True))
        judged = of_judged_texts(logits, begins, terms) if judged_only else torch.ones_like(begins)
        return logits[judged], begins[judged]

    target = setting.target_sample(texts, seed=0) or setting.validation
    if not setting.dev or not target:
        return 1.0
    logits, begins = words(setting.dev)
    if found_terms(logits, begins, terms) < LEARNT * max(1.0, expected_terms(logits, begins, terms, rates)):
        return None
    found = words(target)
    judged, in_source = judging(*found, terms).mean(), judging(logits, begins, terms).mean()
    if judged < MUTE * in_source:
        return float(judged / in_source)
    return share_of_expected(*found, terms, rates, labelled) / share_of_expected(logits, begins, terms, rates)
