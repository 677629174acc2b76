"""`domadapt analyze` from a model to a page, and what it refuses."""

import json
from collections import Counter
from html import unescape
from pathlib import Path

import pytest

from domadapt.analysis.shift import labels_of
from domadapt.analysis.subject import _annotated
from domadapt.data.records import Record, Span
from tests.support import Command, corpora, finished, read_jsonl, trained, write_jsonl

SIDES = ("source", "target")
MARKED = ["data.target.name='<b>x</b>'"]
HOSTILE = '<script>alert("x")</script>\u202e'


def given(task: str) -> tuple[Path, list[str]]:
    """A tiny model, and the data that it was trained on."""
    model = finished(task)
    return model, [word for word in corpora(model.parent) if word.startswith("data")]


@pytest.mark.parametrize("task", ["extraction", "classification"])
def test_a_page_and_its_numbers(task: str, command: Command) -> None:
    model, data = given(task)
    out, _ = command("analyze", f"model={model}", *data, *MARKED, "scored_texts=40", "texts=30")
    assert "written: analysis.html and analysis.json" in out and "det: head" in out
    html = Path("analysis.html").read_text(encoding="utf-8")
    Path("mine.json").write_text('{"model": "my own"}')
    _, told = command("analyze", f"model={model}", *data, "output=mine.html", code=2)
    assert "output=mine.json: is there, and domadapt has not written it" in told
    assert "<script" not in html and "<b>x" not in html and "&lt;b&gt;x&lt;/b&gt;" in html
    found = json.loads(Path("analysis.json").read_text(encoding="ascii"))
    assert found["sides"]["source"] == {"domain": "source", "texts": 24, "scored": 2}
    assert found["unreachable"] is None and found["unreadable"] is None and "can't be had" not in unescape(html) + out
    det = next(r for r in found["heads"] if r["name"] == "det")
    assert det["words"]["source"] == 24 and "One head of " in html.partition("</title>")[0]
    sides = found["ablation"]["sides"]
    assert set(sides) == {"source", "target"} and [len(heads) for heads in sides["target"]["heads"]] == [4, 4]
    run = json.loads((model / "metrics.json").read_text())
    assert found["sides"]["target"]["scored"] == run["target_test_sizes"]["all"]
    assert sides["target"]["score"] == pytest.approx(run["target_test"][run["headline"]], abs=1e-6)
    assert found["ablation"]["headline"] == ("span_f1" if task == "extraction" else "macro_f1")
    assert html.count("<figcaption>") == html.count("<figure>") == html.count("</figcaption>")
    assert "The target&#39;s test labels are read here" in html


def test_without_target_labels_and_unscored(command: Command) -> None:
    model, data = given("extraction")
    blind = [word for word in data if "test_path" not in word and "train_path" not in word]
    command("analyze", f"model={model}/model", *blind, "texts=8", "scored_texts=4", "output=a.html")
    html = Path("a.html").read_text(encoding="utf-8")
    assert "There are no labels of target, so this is source alone." in html and "test labels are read" not in html
    assert set(json.loads(Path("a.json").read_text())["ablation"]["sides"]) == {"source"}
    before = Path("a.html").read_bytes()
    command("analyze", f"model={model}/model", *blind, "texts=8", "scored_texts=4", "output=a.html")
    assert Path("a.html").read_bytes() == before  # the same every time


def test_hostile_text_steers_nothing(command: Command, tmp_path: Path) -> None:
    model, data = given("extraction")
    rows = [{"id": str(i), "text": f"The {HOSTILE} lens number {i} is great, the menu is dull."} for i in range(30)]
    path = write_jsonl(tmp_path / "hostile.jsonl", rows)
    words = [f"data.target.path={path}" if word.startswith("data.target.path=") else word for word in data]
    out, _ = command("analyze", f"model={model}", *words, "texts=40", "scored_texts=0")
    html = Path("analysis.html").read_text(encoding="utf-8")
    assert "<script" not in html and "\u202e" not in html + out
    assert "Not asked for (scored_texts=0)." in html
    assert "\u202e" not in Path("analysis.json").read_text(encoding="ascii")


def refused(command: Command, *arguments: str) -> str:
    out, err = command("analyze", *arguments, code=2)
    assert out == "" and len(err.splitlines()) == 1, err
    assert not Path("analysis.html").exists()
    return err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["texts=1"], "texts=1: expected a whole number from 2"),
        (["texts=many"], "texts='many': expected a whole number from 2"),
        (["scored_texts=-1"], "scored_texts=-1: expected a whole number from 0"),
        (["batch_size=0"], "batch_size=0: expected a whole number from 1"),
        (["output=a.pdf"], "output=a.pdf: expected a name that ends in .html"),
        (["device=tpu"], "tpu"),
        (["model=???"], "model is not set"),
        (["data.target.path=a.json", "output=a.html"], "which is read; it would be lost"),
        (["data.source.path=bare.jsonl"], "has spans, and the model was trained with task=extraction"),
        (["~data", "data=my_files", *(f"data.{side}.path=dots.jsonl" for side in SIDES)], "found no word that"),
    ],
)
def test_what_will_not_do(words: list[str], told: str, command: Command) -> None:
    model, data = given("extraction")
    path = Path(next(word for word in data if word.startswith("data.source.path=")).partition("=")[2])
    rows = read_jsonl(path)
    write_jsonl(Path("a.json"), [{"id": "1", "text": "Fast."}, {"id": "2", "text": "The fan whines."}])
    write_jsonl(Path("bare.jsonl"), [{k: v for k, v in row.items() if k != "spans"} for row in rows])
    write_jsonl(Path("dots.jsonl"), [row | {"text": "." * (i + 1), "spans": []} for i, row in enumerate(rows)])
    settings = dict(word.split("=", 1) for word in [f"model={model}", *(data if words[0] != "~data" else [])])
    settings |= dict(word.split("=", 1) for word in words if word != "~data")
    assert told in refused(command, *(f"{name}={value}" for name, value in settings.items()))


def test_a_model_that_reads_trees_is_looked_at_with_its_own(command: Command, tmp_path: Path) -> None:
    data = [word for word in corpora(tmp_path) if word.startswith("data")]
    for control in ("none", "shuffled"):
        trained(tmp_path, control, "injection=tree_bias", "trainer.epochs=1", f"control={control}")
    words = [*data, "texts=4", "scored_texts=0", f"paths.cache={tmp_path}/cache"]
    err = refused(command, f"model={tmp_path}/shuffled", *words)
    assert "it reads the trees of shuffled" in err and "would be looked at with those of spacy" in err
    command("analyze", f"model={tmp_path}/none", *words)
    # Of text that the parser makes no sense of its labels mean little, and that is told.
    out, err = command("predict", f"model={tmp_path}/none", "text=😀😀")
    assert "parse that may be wrong: no Latin letter in the text (1 time)" in err, out


def test_a_model_without_attention(command: Command, tmp_path: Path) -> None:
    data = [word for word in corpora(tmp_path) if word.startswith("data")]
    trained(tmp_path, "rnn", "backbone=rnn_from_scratch", "trainer.epochs=1")
    assert "rnn: a BiLSTM, which has no attention to look at" in refused(command, f"model={tmp_path}/rnn", *data)


def test_of_whole_texts_spans_have_no_say() -> None:
    both = Record("1", "camera", "Fast.", label="good", spans=(Span(0, 4, "aspect"),))
    assert [labels_of(record) for kind in ("sequence", "token") for record in _annotated(kind, [both])] == [
        Counter({"good": 1}),
        Counter({"aspect": 1}),
    ]
