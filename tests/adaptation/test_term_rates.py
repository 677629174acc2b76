"""Is the model starved of recall on the target? Seen without a label, and what follows from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import domadapt
from domadapt.methods.term_rates import PerText, expected_terms, found_terms
from tests.support import corpora

NONE, BEGIN, INSIDE, OTHER = range(4)


def words(*texts: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of words with these labels, and where texts begin."""
    labels = torch.tensor([label for text in texts for label in text])
    begins = torch.tensor([place == 0 for text in texts for place in range(len(text))])
    return 9.0 * torch.nn.functional.one_hot(labels, 4), begins


def test_spans_are_counted_as_they_are_decoded_and_end_with_their_text() -> None:
    logits, begins = words([NONE, BEGIN, INSIDE, NONE, BEGIN], [BEGIN, NONE], [OTHER])
    assert found_terms(logits, begins, [BEGIN, INSIDE]) == 3
    assert expected_terms(logits, begins, [BEGIN, INSIDE], PerText(without=0.5, judged=2.0)) == 0.5 + 0.5 + 2.0


def test_where_all_words_are_inside_few_spans_are_much() -> None:
    logits, begins = words([BEGIN, *[INSIDE] * 29])
    assert found_terms(logits, begins, [BEGIN, INSIDE]) == 10


@pytest.mark.parametrize(("found", "rewritten"), [(0.4, True), (1.0, False)])
def test_only_a_model_that_is_starved_is_taught_the_words_and_a_resumed_one_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: float, rewritten: bool
) -> None:
    import domadapt.methods.adaptation.term_substitution as module

    changed: list[int] = []
    plain = module.TermSubstitution.augment

    def augment(self: Any, records: Sequence[Any], epoch: int, random: Any) -> Sequence[Any]:
        result = plain(self, records, epoch, random)
        changed.append(sum(old is not new for old, new in zip(records, result, strict=True)))
        return result

    monkeypatch.setattr(module, "found_of_expected", lambda *of: found)
    monkeypatch.setattr(module.TermSubstitution, "augment", augment)
    recipe = ["adaptation=best", "trainer.epochs=3", "adaptation.self_training.start=2", "selection=last"]
    curve = domadapt.train([*corpora(tmp_path), *recipe])["curve"]
    assert changed[0] == 0 and (min(changed[1:]) > 0) == rewritten and len(changed) == 3
    assert ("self_training" in curve[2]["losses"]) == rewritten


def test_what_was_seen_is_remembered() -> None:
    from domadapt.methods.adaptation.term_substitution import TermSubstitution
    from tests.support import setting_of, tiny_encoder

    method = TermSubstitution(0.5, 0.7, 0.4, 0.75, 0.12, None, enough=1.0)
    setting_of(tiny_encoder(), method)
    method.looks = True
    assert not method.starved, "nothing is rewritten before anybody has looked"
    method.recall({"found": 0.3})
    assert method.starved and method.memory() == {"found": 0.3}
    method.recall({"found": 1.3})
    assert not method.starved and method.setting.counted["enough terms"]
