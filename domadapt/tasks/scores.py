"""Precision, recall and F1, computed by scikit-learn."""

from collections.abc import Collection, Hashable, Sequence

Scores = dict[str, float]


def set_scores(gold: Collection[Hashable], predicted: Collection[Hashable], prefix: str) -> Scores:
    """Precision, recall and F1 of a predicted set; an item counts only if it is exactly in the gold set.

    >>> set_scores({(0, 4), (6, 9)}, {(0, 4), (6, 8)}, "aspect")["aspect_f1"]
    0.5
    """
    from sklearn.metrics import precision_recall_fscore_support  # over a second, which prediction does not need

    items = sorted({*gold, *predicted}, key=repr)
    gold_set, predicted_set = set(gold), set(predicted)
    truth, guess = [i in gold_set for i in items] or [False], [i in predicted_set for i in items] or [False]
    precision, recall, f1, _ = precision_recall_fscore_support(truth, guess, average="binary", zero_division=0.0)
    return {
        f"{prefix}_f1": float(f1),
        f"{prefix}_precision": float(precision),
        f"{prefix}_recall": float(recall),
        f"{prefix}_support": float(len(gold_set)),
    }


def class_scores(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Scores:
    """Macro F1, accuracy and F1 of each class that occurs in the gold labels.

    >>> class_scores(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])["accuracy"]
    0.6666666666666666
    """
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    present = [label for label in labels if label in set(gold)]
    _, _, each, support = precision_recall_fscore_support(gold, predicted, labels=present, zero_division=0.0)
    result = {"macro_f1": float(each.mean()), "accuracy": float(accuracy_score(gold, predicted))}
    for label, f1, count in zip(present, each, support, strict=True):
        result |= {f"{label}_f1": float(f1), f"{label}_support": float(count)}
    return result
