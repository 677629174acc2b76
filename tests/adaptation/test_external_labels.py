"""Labels that somebody else wrote: read, doubted where there is reason to, learnt, and never taken for gold."""

import json
from pathlib import Path

import pytest
import torch

import domadapt
from domadapt.data.readers import read
from domadapt.methods.adaptation.external_labels import posterior
from tests.support import corpora


def noisy(truth: torch.Tensor, wrong: float, classes: int) -> torch.Tensor:
    flipped = torch.rand(len(truth)) < wrong
    return torch.where(flipped, torch.randint(0, classes, truth.shape), truth)


@pytest.mark.parametrize(("wrong", "files"), [(0.2, 1), (0.4, 1), (0.4, 2)])
def test_files_and_network_together_are_right_more_often_than_each(wrong: float, files: int) -> None:
    torch.manual_seed(0)
    truth = torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), 4000, replacement=True)
    logits = torch.randn(4000, 3) + 1.5 * torch.nn.functional.one_hot(truth, 3)
    network = (3 * logits).softmax(-1)  # surer than it is right
    answers = torch.stack([noisy(truth, wrong, 3) for _ in range(files)])
    soft, confusions, temperature = posterior(network, answers)

    def right(found: torch.Tensor) -> float:
        return float((found == truth).float().mean())

    assert right(soft.argmax(-1)) > max(right(network.argmax(-1)), *(right(answer) for answer in answers)) + 0.01
    assert confusions.sum(-1) == pytest.approx(torch.ones(files, 3), abs=1e-4)
    assert temperature > 1


def test_where_no_file_says_anything_the_network_is_kept() -> None:
    network = torch.tensor([[0.7, 0.3], [0.3, 0.7]]).repeat(20, 1)
    soft, _, temperature = posterior(network, torch.tensor([[0, 1] * 10 + [-1, -1] * 10]))
    assert soft[20:] == pytest.approx((network.log() / temperature).softmax(-1)[20:], abs=1e-3)
    assert (soft[:20].max(-1).values > soft[20:].max(-1).values).all()


def test_quoted_strings_are_found_in_their_text(tmp_path: Path) -> None:
    row = {"text": "A fantastic fan, a loud fan.", "spans": [
        {"text": "fan", "type": "aspect"}, {"text": "fan", "label": "aspect"}, {"text": "lid", "type": "aspect"},
    ]}  # fmt: skip
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    corpus = read(tmp_path / "a.jsonl", domain="laptop")
    assert [(span.start, span.end) for span in corpus.records[0].spans or ()] == [(12, 15), (24, 27)]
    assert corpus.warnings["span whose text is not in the text, left out"] == 1


def test_a_run_learns_from_a_file_and_takes_it_for_no_gold(tmp_path: Path) -> None:
    overrides = [*corpora(tmp_path), f"paths.cache={tmp_path}/cache", f"paths.runs={tmp_path}/runs"]
    texts = [record.text for record in read(tmp_path / "target.jsonl", domain="laptop", labelled=False).records]
    lines = [{"text": text, "spans": [{"text": text.split()[-1].strip("."), "type": "aspect"}]} for text in texts[:8]]
    path = tmp_path / "llm.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"text": "None of theirs.", "spans": []}]))
    given = ["adaptation=external_labels", f"adaptation.external_labels.path={path}"]
    metrics = domadapt.train([*overrides, *given], seed=1)
    assert metrics["config"]["target_labels"] == 0 and metrics["role"] == "adapted"
    assert metrics["stages"]["external_labels/texts"] == len({line["text"] for line in lines})
    assert 0 <= metrics["stages"]["external_labels/llm.jsonl"] <= 1
    assert all(line["losses"]["external_labels"] > 0 for line in metrics["curve"])
    path.write_text('{"text": "None of theirs.", "spans": []}\n')
    with pytest.raises(ValueError, match="none of its 1 labelled texts is among"):
        domadapt.train([*overrides, *given], seed=2)
    with pytest.raises(ValueError, match=r"external_labels.path=None: expected a file"):
        domadapt.train([*overrides, given[0]], seed=2)
