"""What the target's words say of whole texts: taught by the network, never by a text itself, in the source's shares."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import domadapt
from domadapt.methods.adaptation.lexical_view import FOLDS, LexicalView, folds_of
from domadapt.methods.adaptation.self_training import soft_cross_entropy
from domadapt.methods.class_shares import MOST, to_source_shares
from domadapt.tasks.classification import Classification
from domadapt.training.build import build
from tests.support import corpora

WORDS = {0: ["dull", "weak"], 1: ["crisp", "sharp"], 2: ["plain", "usual"]}


def made(**settings: Any) -> LexicalView:
    own = {"weight": 1.0, "words": 1, "features": 100, "inverse_penalty": 5.0, "start": 0, "texts": 500}
    return LexicalView(**{**own, "batch_size": 4, **settings})


def prepared(method: LexicalView, texts: Sequence[str], source: Sequence[int], classes: int = 2) -> LexicalView:
    setting = SimpleNamespace(
        task=Classification([str(i) for i in range(classes)]),
        source=[SimpleNamespace(label=label) for label in source],
        target_sample=lambda count, seed: [SimpleNamespace(text=text) for text in texts],
    )
    method.attach(setting)  # type: ignore[arg-type]
    method.prepare()
    return method


def reviews(classes: Sequence[int]) -> list[str]:
    return [f"the {WORDS[c][i % 2]} thing number {i}" for i, c in enumerate(classes)]


def sure_of(classes: Sequence[int], count: int = 2) -> Tensor:
    """(texts, classes) probabilities of a network that is rather sure."""
    return torch.nn.functional.one_hot(torch.tensor(classes), count) * 0.8 + 0.2 / count


@pytest.mark.parametrize("count", [2, 3])
def test_words_go_with_the_classes_that_the_network_gives_their_texts(count: int) -> None:
    classes = [i % count for i in range(60)]
    texts = reviews(classes)
    method = prepared(made(), texts, classes, count)
    method.teach(texts, sure_of(classes, count))
    new = [f"{WORDS[c][0]} and {WORDS[c][1]}" for c in range(count)]
    assert method.opinion(new).argmax(-1).tolist() == list(range(count))
    assert method.opinion(["never met"]).abs().max() < 0.2


def test_each_fold_is_the_regression_on_the_others_and_all_are_calibrated() -> None:
    """Written out plainly, for two classes of which one is four times as frequent as in the source."""
    classes = [int(i % 5 > 0) for i in range(80)]
    texts = reviews(classes)
    said = sure_of(classes)
    said[3] = torch.tensor([0.5, 0.5])  # the network can't tell: it teaches nothing
    method = prepared(made(), texts, [0, 1])
    method.teach(texts, said)
    assert method.vectorizer is not None
    rows, own = method.vectorizer.transform(texts), said.argmax(-1).numpy()
    shares = np.bincount(own, minlength=2) / 80
    weights = np.array([abs(2 * float(said[i, 0]) - 1) * 0.5 / shares[own[i]] for i in range(80)])
    odds = np.zeros(80)
    for fold in range(FOLDS):
        taken = [i for i in range(80) if folds_of([texts[i]])[0] != fold and i != 3]
        plain = LogisticRegression(C=5.0, max_iter=1000).fit(rows[taken], own[taken], sample_weight=weights[taken])
        mine = [i for i in range(80) if folds_of([texts[i]])[0] == fold]
        odds[mine] = plain.decision_function(rows[mine])
    both = np.stack([-odds / 2, odds / 2], axis=1)
    plain = LogisticRegression().fit(both[weights > 0], own[weights > 0], sample_weight=weights[weights > 0])
    shares = np.bincount(own, weights)
    expected = plain.decision_function(both) - np.log(shares[1] / shares[0])
    found = method.opinion(texts)
    np.testing.assert_allclose(found[:, 1] - found[:, 0], expected, atol=2e-2)


def test_a_text_is_not_read_by_what_it_has_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LexicalView, "calibrate", lambda *given: None)  # two numbers of all texts together
    classes = [i % 2 for i in range(60)]
    texts, said = reviews(classes), sure_of(classes)
    method = prepared(made(), texts, classes)
    method.teach(texts, said)
    before = method.opinion(texts)
    said[7] = said[7].flip(0)
    method.teach(texts, said)
    after = method.opinion(texts)
    same = torch.from_numpy(folds_of(texts) == folds_of([texts[7]])[0])
    torch.testing.assert_close(after[same], before[same], atol=0.05, rtol=0)  # but for the classes' shares
    assert (after - before)[~same].abs().max() > 0.1


def test_how_often_the_target_is_of_a_class_is_not_learnt() -> None:
    """Nine kind texts in ten, in the target or in both: of a text without a telling word next to nothing is said."""
    classes = [int(i % 10 > 0) for i in range(300)]
    texts = [text if i % 3 else f"the thing number {i}" for i, text in enumerate(reviews(classes))]
    for source in ([0, 1], classes):
        method = prepared(made(), texts, source)
        method.teach(texts, sure_of(classes))
        neither, kind, unkind = (
            float(odds[1] - odds[0]) for odds in method.opinion(["the thing", "the crisp thing", "the dull thing"])
        )
        assert unkind < -1 < abs(neither) < 1 < kind


def test_of_a_class_that_is_not_found_nothing_is_said() -> None:
    classes = [2 * (i % 2) for i in range(60)]
    texts = reviews(classes)
    method = prepared(made(), texts, [0, 1, 2], classes=3)
    method.teach(texts, sure_of(classes, 3))
    said = method.opinion(["the dull thing", "the plain thing"])
    assert said[:, 1].tolist() == [0.0, 0.0]
    assert said[0, 0] > 0 > said[0, 2] and said[1, 2] > 0 > said[1, 0]


def test_labels_count_so_that_all_of_them_are_of_the_sources_classes() -> None:
    setting = SimpleNamespace(
        task=Classification(["a", "b", "c"]), source=[SimpleNamespace(label=label) for label in (0, 0, 1, 1)]
    )
    found = torch.tensor([0] * 8 + [1] * 2)
    counts = to_source_shares(found, setting)  # type: ignore[arg-type]
    assert counts.tolist() == pytest.approx([0.5 / 0.8, 0.5 / 0.2, 0.0])
    rare = to_source_shares(torch.tensor([0] * 99 + [1]), setting)  # type: ignore[arg-type]
    assert rare[1] == MOST


def test_a_row_counts_by_its_likeliest_class() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 2), torch.randn(6, 2).mul(4).log_softmax(-1)
    counts = torch.tensor([0.5, 2.0])
    weights = [float(counts[row.argmax()]) * (1.0 if row.exp().max() > 0.7 else 0.1) for row in labels]
    each = [soft_cross_entropy(logits[i : i + 1], labels[i : i + 1], 0.5, 0.7) for i in range(6)]
    expected = sum(w * float(one) for w, one in zip(weights, each, strict=True)) / sum(weights)
    assert float(soft_cross_entropy(logits, labels, 0.5, 0.7, counts=counts)) == pytest.approx(expected, rel=1e-5)


def test_it_is_silent_where_there_is_nothing_to_learn(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        method = prepared(made(), ["one", "two"], [0, 1])
    assert "no word is met in 3 texts" in caplog.text
    assert method.memory() == {"words": []} and method.collate([]) == {}
    assert not method.used_at_prediction  # a stock model is left
    texts = reviews([0] * 20)
    method = prepared(made(), texts, [0, 1])
    method.teach(texts, sure_of([0] * 20))  # all of one class
    assert not method.opinion(texts).any()


def test_a_runs_network_teaches_it_and_a_saved_model_says_the_same(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), "adaptation=lexical_view", "adaptation.lexical_view.start=1"]
    domadapt.train([*overrides, "task=classification", f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"])
    model = domadapt.load(tmp_path / "run" / "model")
    method: Any = model.setting.methods["lexical_view"]
    assert len(method.memory()["words"]) == len(method.vectorizer.idf_) > 0
    text = "The battery is great."
    odds = np.log(model.probabilities([text])[0])
    opinion = method.opinion([text])[0].numpy()
    method.weight = 0.0
    alone = np.log(model.probabilities([text])[0])
    moved = (odds - alone) - (odds - alone).mean()
    np.testing.assert_allclose(moved, opinion - opinion.mean(), atol=1e-4)
    whispered = replace(model, lowercase=True)
    assert (whispered.probabilities([text.upper()]) == whispered.probabilities([text.lower()])).all()
    again = made()
    again.recall(method.memory())
    torch.testing.assert_close(again.opinion([text])[0], torch.from_numpy(opinion))


def test_where_words_are_classified_it_is_no_part_of_the_model(tmp_path: Path) -> None:
    chosen = ["adaptation=lexical_view", "task=extraction", f"paths.cache={tmp_path}/cache"]
    setting, _ = build(domadapt.compose("train", [*corpora(tmp_path), *chosen]))
    method = setting.methods["lexical_view"]
    assert method.prepare() == {"lexical_view/features": 0}
    method.after_epoch(10)
    assert not method.used_at_prediction and method.memory() == {"words": []}


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match=r"lexical_view.features=0: expected a whole number from 1"):
        made(features=0)
