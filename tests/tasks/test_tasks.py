"""Tasks: scores counted by hand, decoding against every sequence, the same through saved models."""

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import domadapt
from domadapt.analysis import expected
from domadapt.data.records import Location, Record, Span, bio_tags
from domadapt.models.contracts import Output
from domadapt.tasks.classification import Classification
from domadapt.tasks.decoding import marginals, transition_scores, viterbi
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import Prediction, class_scores, set_scores
from tests.support import setting_of, tiny_encoder, trained

GOOD, NOTHING = Record("1", "d", "a", label="good"), Record("3", "d", "c")
ODD = Record("3", "d", "c", label="goood", spans=(Span(0, 1, "place"),))
READ = Record("4", "d", "c", label="goo\x1b", where=Location(Path("a.csv"), 2))
LABELS, SPANS = partial(Classification, ["bad", "good"]), partial(Extraction, ["aspect"])
items = st.sets(st.integers(0, 12), max_size=8)


@given(items, items)
def test_span_scores_are_counts_of_exact_matches(gold: set[int], found: set[int]) -> None:
    both = len(gold & found)
    precision = both / len(found) if found else 0.0
    recall = both / len(gold) if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if both else 0.0
    scores = set_scores(gold, found, "x")
    assert scores["x_f1"] == pytest.approx(f1)
    assert (scores["x_precision"], scores["x_recall"]) == (pytest.approx(precision), pytest.approx(recall))


def test_micro_average_counts_all_spans_together() -> None:
    gold = [Record("1", "d", "bread and soup and staff", spans=(Span(0, 5, "POS"), Span(10, 14, "NEG")))]
    predicted = [Prediction(spans=(Span(0, 5, "POS"), Span(10, 14, "POS"), Span(19, 24, "POS")))]
    micro = Extraction(["POS", "NEG", "NEU"], average="micro").score(gold, predicted)
    macro = Extraction(["POS", "NEG", "NEU"]).score(gold, predicted)
    assert (micro["span_precision"], micro["span_recall"], micro["span_support"]) == (1 / 3, 1 / 2, 2)
    assert micro["span_f1"] == pytest.approx(0.4)  # 2 * 1 right of 3 found and 2 gold
    assert macro["span_f1"] == pytest.approx(0.5 / 2)  # POS 1/2, NEG 0; the gold has no NEU
    assert {k: v for k, v in micro.items() if not k.startswith("span_")}.items() <= macro.items()
    renamed = [Record("1", "d", gold[0].text, spans=(Span(0, 5, "span"), Span(10, 14, "NEG")))]
    for average, score in (("micro", 2 / 3), ("macro", 1 / 2)):  # whatever a type is called
        found = Extraction(["span", "NEG"], average).score(renamed, [Prediction(spans=(Span(0, 5, "span"),))])
        assert found["span_f1"] == pytest.approx(score) and next(iter(found)) == "span_f1"
        sums = {"span": np.array([1, 0, 0]), "NEG": np.array([0, 0, 1])}
        assert expected.scores(sums, "span_f1", average)["span_f1"] == pytest.approx(score)


tags = st.lists(st.sampled_from(["O", "B-aspect", "I-aspect", "B-opinion", "I-opinion"]), max_size=12)


@given(tags)
def test_spans_and_tags_agree(sequence: list[str]) -> None:
    words = np.array([(2 * i, 2 * i + 1) for i in range(len(sequence))]).reshape(-1, 2)
    task = Extraction(["aspect", "opinion"])
    numbers = np.array([task.labels.index(tag) for tag in sequence], dtype=np.int64)
    spans = task.spans(numbers, words, [1.0] * len(sequence))
    restored = bio_tags([tuple(w) for w in words.tolist()], spans)
    expected, previous = [], "O"
    for tag in sequence:  # an I that continues nothing begins a span
        begins = tag[0] == "I" and previous[2:] != tag[2:]
        expected.append("B" + tag[1:] if begins else tag)
        previous = tag
    assert restored == expected


def test_classification_is_compared_by_what_is_asked_for() -> None:
    task = Classification(["bad", "good"])
    assert (task.headline, Classification(headline="accuracy").headline) == ("macro_f1", "accuracy")
    gold = [Record(str(i), "d", "x", label=label) for i, label in enumerate(["good", "good", "bad"])]
    scores = task.score(gold, [Prediction("good"), Prediction("bad"), Prediction("bad")])
    assert scores["macro_f1"] == pytest.approx(2 / 3) and scores["accuracy"] == pytest.approx(2 / 3)
    assert class_scores(["macro", "b"], ["macro", "c"], ["macro", "b", "c"])["macro_f1"] == 0.5


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
    counted = transition_scores([np.array([0, 1]), np.array([0, 0]), np.array([], dtype=np.int64)], 2)
    scores = torch.from_numpy(counted).double().exp()
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


@pytest.mark.parametrize(
    ("make", "given", "told"),
    [
        (SPANS, {"transition_weight": -1}, "task.transition_weight=-1: expected a number from 0 to 10"),
        (SPANS, {"transition_weight": "much"}, "task.transition_weight='much': expected a number"),
        (SPANS, {"transitions": [[0.0]]}, r"task.transitions: \(1, 1\) scores; expected one row more than the 3 tags"),
        (SPANS, {"average": "mean"}, "task.average='mean': expected macro or micro"),
        (LABELS, {"headline": "f1"}, "task.headline='f1': expected macro_f1 or accuracy"),
        (Classification, {"labels": ["a", "b", "b"]}, r"task.labels=\['a', 'b', 'b'\]: 'b' is there twice, and would"),
        (Classification().learn_labels, {"records": [GOOD]}, "at least 2"),
        (Extraction().learn_labels, {"records": [GOOD]}, "the source has no spans"),
        (LABELS().check, {"records": [ODD]}, "record 3 of d: label is 'goood'; expected 'bad' or 'good'; did you mean"),
        (LABELS().check, {"records": [GOOD, READ]}, r"a.csv:2: label is 'goo\\x1b'; expected 'bad' or 'good'; did you"),
        (Classification(["x", "y"]).check, {"records": [GOOD]}, "rename it, or train with it in task.labels"),
        (LABELS().check, {"records": [NOTHING]}, "record 3 of d: label is missing"),
        (SPANS().check, {"records": [NOTHING]}, "record 3 of d: spans or tags is missing"),
        (SPANS().check, {"records": [ODD]}, "span type is 'place'; expected 'aspect'"),
    ],
)
def test_what_can_not_be_is_refused(make: Callable[..., object], given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make(**given)


def test_a_saved_model_decodes_by_what_its_source_had_and_is_calibrated(tmp_path: Path) -> None:
    """The temperature that source dev asks for is saved with the model; it moves confidences, and no decision."""
    metrics = trained(tmp_path, "run", "trainer.precision=32")
    model: Any = domadapt.load(tmp_path / "run" / "model", precision="32")
    task = model.session.task
    assert isinstance(task, Extraction) and task.transition_weight == 0.5
    after_aspect = dict(zip(task.labels, task.transitions[task.labels.index("B-aspect")], strict=False))
    assert after_aspect["O"] > after_aspect["B-opinion"], "no opinion follows at once"
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


def test_what_nobody_annotated_is_left_out_and_counted() -> None:
    for task, field, other in ((SPANS(), "spans", "label"), (LABELS(), "label", "spans")):
        one, none = (Record("1", "d", "So.", **{field: given}) for given in (() if field == "spans" else "good", None))
        beside, warnings = Record("2", "d", "So.", **{other: () if other == "spans" else "good"}), Counter[str]()
        assert task.usable((one, none, beside), warnings) == (one,) and [*warnings.values()] == [2]
        assert task.usable((none, beside), warnings) == (none, beside)  # that none is annotated is told by check
