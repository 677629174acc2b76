"""Labels that somebody else wrote: read, doubted where there is reason to, learnt, and never taken for gold."""

import json
from pathlib import Path

import pytest

import domadapt
from domadapt.data.readers import read
from tests.support import corpora


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
