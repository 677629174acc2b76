"""Tags of a text decoded together: against every sequence, counted by hand, and through saved models alike."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import domadapt
from domadapt.models.output import Output
from domadapt.tasks.decoding import marginals, transition_scores, viterbi
from domadapt.tasks.extraction import Extraction
from tests.support import corpora, setting_of, tiny_encoder


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_best_sequence_and_marginals_against_every_sequence(data: Any) -> None:
    """Texts of several lengths in one batch, each as if it were alone."""
    count = data.draw(st.integers(2, 3))
    lengths = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    torch.manual_seed(data.draw(st.integers(0, 10**6)))
    scores = torch.randn(len(lengths), max(lengths), count).log_softmax(-1)
    transitions = data.draw(st.sampled_from([0.0, 0.5, 2.0])) * torch.randn(count + 1, count)
    best = viterbi(scores, torch.tensor(lengths), transitions)
    every = marginals(scores, torch.tensor(lengths), transitions)
    for text, length in enumerate(lengths):
        sequences = [*itertools.product(range(count), repeat=length)]

        def total(tags: tuple[int, ...], text: int = text) -> float:
            steps = zip((count, *tags), tags, strict=False)
            return sum(float(scores[text, i, tag] + transitions[last, tag]) for i, (last, tag) in enumerate(steps))

        totals = torch.tensor([float(total(tags)) for tags in sequences])
        found = sequences.index(tuple(best[text, :length].tolist()))
        assert float(totals[found]) == pytest.approx(float(totals.max()), abs=1e-4)
        shares = totals.softmax(0)
        for i, tag in itertools.product(range(length), range(count)):
            expected = sum(float(share) for tags, share in zip(sequences, shares, strict=True) if tags[i] == tag)
            assert float(every[text, i, tag].exp()) == pytest.approx(expected, abs=1e-4)


def test_transitions_are_counted_with_a_tenth_added() -> None:
    """By hand: of three words after the first, two follow tag 0."""
    scores = transition_scores([np.array([0, 1]), np.array([0, 0]), np.array([], dtype=np.int64)], 2).double().exp()
    after_0 = torch.tensor([1.1, 1.1]) / 2.2
    opening, alone = torch.tensor([2.1, 0.1]) / 2.2, torch.tensor([3.1, 1.1]) / 4.2
    torch.testing.assert_close(scores[0], (after_0 / alone).double(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(scores[1], (torch.tensor([0.5, 0.5]) / alone).double(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(scores[2], (opening / alone).double(), atol=1e-5, rtol=1e-5)


def test_weight_zero_is_word_by_word_and_transitions_mend_a_broken_span() -> None:
    session = setting_of(tiny_encoder(), texts=["first two books"])
    batch = session.collator(session.target)
    words = [example.words for example in session.target]
    read = batch.node_first_piece[batch.node_first_piece >= 0]
    logits = torch.zeros(*batch.input_ids.shape, 5)
    # B-aspect, O a little likelier than I-aspect, I-aspect
    logits.view(-1, 5)[read] = torch.tensor([[0.0, 3, 0, 0, 0], [1.2, 0, 1, 0, 0], [0.0, 0, 3, 0, 0]])
    output = Output(torch.zeros(*batch.input_ids.shape, 4), logits)

    def found(task: Extraction) -> list[tuple[int, int]]:
        task.transitions = transition_scores([np.array([1, 2, 2, 0, 0])] * 9, 5)
        (prediction,) = task.decode(output, batch, words)
        assert all(0 < span.confidence <= 1 for span in prediction.spans)
        return [(span.start, span.end) for span in prediction.spans]

    types = ["aspect", "opinion"]
    assert found(Extraction(types, transition_weight=0)) == [(0, 5), (10, 15)]
    assert found(Extraction(types)) == [(0, 15)]


def test_a_saved_model_decodes_by_what_its_source_had(tmp_path: Path) -> None:
    domadapt.train([*corpora(tmp_path), "trainer.precision=32", f"paths.run={tmp_path}/run"])
    task = domadapt.load(tmp_path / "run" / "model").session.task
    assert isinstance(task, Extraction) and task.transition_weight == 0.5
    names = {name: place for place, name in enumerate(task.labels)}
    after_aspect = task.transitions[names["B-aspect"]]
    assert after_aspect[names["O"]] > after_aspect[names["B-opinion"]], "no opinion follows at once"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"transition_weight": -1}, "task.transition_weight=-1: expected a number from 0 to 10"),
        ({"transition_weight": "much"}, "task.transition_weight='much': expected a number"),
        ({"transitions": [[0.0]]}, r"task.transitions: \(1, 1\) scores; expected one row more than the 3 tags"),
    ],
)
def test_what_can_not_be_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Extraction(["aspect"], **given)


def test_confidences_are_calibrated_and_decisions_are_not_moved(tmp_path: Path) -> None:
    """The temperature that source dev asks for is saved with the model, and is in what it predicts."""
    metrics = domadapt.train([*corpora(tmp_path), "trainer.precision=32", f"paths.run={tmp_path}/run"])
    model: Any = domadapt.load(tmp_path / "run" / "model", precision="32")
    task = model.session.task
    assert task.temperature == pytest.approx(metrics["calibration"]["temperature"], abs=1e-3) != 1.0
    texts = ["The lens is superb.", "A dull zoom and a weak strap."]
    sure = {temperature: [] for temperature in (0.5, task.temperature, 50.0)}
    spans = []
    for temperature, found in sure.items():
        task.temperature = temperature
        predictions = model.predict(texts)
        spans.append([[(s.start, s.end, s.type) for s in p.spans] for p in predictions])
        found += [p.confidence for p in predictions]
    assert spans[0] == spans[1] == spans[2]
    assert all(a > b > c for a, b, c in zip(*[sure[t] for t in sorted(sure)], strict=True))
