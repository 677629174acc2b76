"""Tasks: scores against counting by hand, decoding against the tags that made the spans."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domadapt.data.records import Record, Span, bio_tags
from domadapt.tasks.classification import Classification
from domadapt.tasks.extraction import Extraction
from domadapt.tasks.task import Prediction, set_scores

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


def test_extraction_scores_a_hand_counted_example() -> None:
    task = Extraction(["aspect", "opinion"])
    gold = [
        Record("1", "d", "battery life is great", spans=(Span(0, 12, "aspect"), Span(16, 21, "opinion"))),
        Record("2", "d", "nothing here", spans=()),
    ]
    predicted = [
        Prediction(spans=(Span(0, 7, "aspect"), Span(16, 21, "opinion"))),
        Prediction(spans=(Span(0, 7, "aspect"),)),
    ]
    scores = task.score(gold, predicted)
    assert (scores["aspect_f1"], scores["opinion_f1"], scores["span_f1"]) == (0.0, 1.0, 0.5)


def test_micro_average_counts_all_spans_together() -> None:
    gold = [Record("1", "d", "bread and soup and staff", spans=(Span(0, 5, "POS"), Span(10, 14, "NEG")))]
    predicted = [Prediction(spans=(Span(0, 5, "POS"), Span(10, 14, "POS"), Span(19, 24, "POS")))]
    micro = Extraction(["POS", "NEG", "NEU"], average="micro").score(gold, predicted)
    macro = Extraction(["POS", "NEG", "NEU"]).score(gold, predicted)
    assert (micro["span_precision"], micro["span_recall"], micro["span_support"]) == (1 / 3, 1 / 2, 2)
    assert micro["span_f1"] == pytest.approx(0.4)  # 2 * 1 right of 3 found and 2 gold
    assert macro["span_f1"] == pytest.approx(0.5 / 3)  # POS 1/2, NEG and NEU 0
    assert {k: v for k, v in micro.items() if not k.startswith("span_")}.items() <= macro.items()
    with pytest.raises(ValueError, match="task.average='mean': expected macro or micro"):
        Extraction(average="mean")


def test_classification_is_compared_by_what_is_asked_for() -> None:
    task = Classification(["bad", "good"], headline="accuracy")
    assert (task.headline, Classification().headline) == ("accuracy", "macro_f1")
    assert task.headline in task.score([Record("1", "d", "a", label="good")], [Prediction(label="good")])
    with pytest.raises(ValueError, match="task.headline='f1': expected macro_f1 or accuracy"):
        Classification(headline="f1")


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


def test_labels_come_from_the_source() -> None:
    records = [Record("1", "d", "a", label="good"), Record("2", "d", "b", label="bad")]
    task = Classification()
    task.learn_labels(records)
    assert task.labels == ["bad", "good"]
    with pytest.raises(
        ValueError, match=r"record 3 of d: label is 'goood'; expected 'bad' or 'good'; did you mean 'good'"
    ):
        task.check([Record("3", "d", "c", label="goood")])
    with pytest.raises(ValueError, match="record 3 of d: label is missing"):
        task.check([Record("3", "d", "c")])
    with pytest.raises(ValueError, match="at least 2"):
        Classification().learn_labels(records[:1])


def test_extraction_needs_annotated_records_of_known_types() -> None:
    task = Extraction()
    with pytest.raises(ValueError, match="the source has no spans"):
        task.learn_labels([Record("1", "d", "a", label="good")])
    task.learn_labels([Record("1", "d", "a", spans=(Span(0, 1, "aspect"),))])
    with pytest.raises(ValueError, match="record 2 of d: spans or tags is missing"):
        task.check([Record("2", "d", "a")])
    with pytest.raises(ValueError, match=r"span type is 'place'; expected 'aspect'"):
        task.check([Record("2", "d", "a", spans=(Span(0, 1, "place"),))])


def test_classification_scores_macro_f1() -> None:
    task = Classification(["bad", "good"])
    gold = [Record(str(i), "d", "x", label=label) for i, label in enumerate(["good", "good", "bad"])]
    scores = task.score(gold, [Prediction("good"), Prediction("bad"), Prediction("bad")])
    assert scores["macro_f1"] == pytest.approx(2 / 3)
    assert scores["accuracy"] == pytest.approx(2 / 3)


def test_classification_decodes_the_likeliest_class() -> None:
    from domadapt.models.output import Output

    task = Classification(["bad", "good"])
    (prediction,) = task.decode(Output(torch.zeros(1, 1, 1), torch.tensor([[0.0, 2.0]])), None, [])  # type: ignore[arg-type]
    assert (prediction.label, round(prediction.confidence, 3)) == ("good", 0.881)
