"""`domadapt analyze` from a model to a page, and what it refuses."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from domadapt.api import train
from tests.support import Command, corpora, finished, of_family, records, write_jsonl

HOSTILE = '<script>alert("x")</script>\u202e'


def given(task: str) -> tuple[Path, list[str]]:
    """A tiny model, and the data that it was trained on."""
    model = finished(task)
    return model, [word for word in corpora(model.parent) if word.startswith("data")]


@pytest.mark.parametrize("task", ["extraction", "classification"])
def test_a_page_and_its_numbers(task: str, command: Command) -> None:
    model, data = given(task)
    code, out, err = command(
        "analyze", f"model={model}", *data, "data.target.name='<b>x</b>'", "scored_texts=6", "texts=30"
    )
    assert code == 0, err
    assert "written: analysis.html and analysis.json" in out and "det: head" in out
    html = Path("analysis.html").read_text(encoding="utf-8")
    assert "<script" not in html and "<b>x" not in html and "&lt;b&gt;x&lt;/b&gt;" in html
    found = json.loads(Path("analysis.json").read_text(encoding="ascii"))
    assert found["sides"]["source"] == {"domain": "source", "texts": 24, "scored": 2}
    assert found["sides"]["target"]["scored"] == 6
    assert found["unreachable"] is None and found["unreadable"] is None and "can't be had" not in unescape(html) + out
    det = next(r for r in found["heads"]["relations"] if r["name"] == "det")
    assert det["words"]["source"] == 24 and len(det["grid"]["before"]) == 2 and len(det["grid"]["before"][0]) == 4
    for shares in found["patterns"]["shares"].values():
        assert all(sum(layer) == pytest.approx(1, abs=0.001) for rows in shares.values() for layer in rows)
    assert set(found["change"]["weights"]) == {"embeddings", "layer 0", "layer 1"}
    sides = found["ablation"]["sides"]
    assert set(sides) == {"source", "target"} and [len(heads) for heads in sides["target"]["heads"]] == [4, 4]
    assert found["ablation"]["headline"] == ("span_f1" if task == "extraction" else "macro_f1")
    assert html.count("<figcaption>") == html.count("<figure>") == html.count("</figcaption>")
    assert "The target&#39;s test labels are read here" in html


def test_without_target_labels_and_unscored(command: Command) -> None:
    model, data = given("extraction")
    blind = [word for word in data if "test_path" not in word and "train_path" not in word]
    code, _, err = command("analyze", f"model={model}/model", *blind, "texts=8", "scored_texts=4", "output=a.html")
    assert code == 0, err
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
    code, out, err = command("analyze", f"model={model}", *words, "texts=40", "scored_texts=0")
    assert code == 0, err
    html = Path("analysis.html").read_text(encoding="utf-8")
    assert "<script" not in html and "\u202e" not in html + out
    assert "Not asked for (scored_texts=0)." in html
    assert "\u202e" not in Path("analysis.json").read_text(encoding="ascii")


def refused(command: Command, *arguments: str) -> str:
    code, out, err = command("analyze", *arguments)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1, err
    assert not Path("analysis.html").exists()
    return err


def test_settings_out_of_range(command: Command) -> None:
    model, data = given("extraction")
    told: dict[str, Any] = {
        "texts=1": "texts=1: expected a whole number from 2",
        "texts=many": "texts='many': expected a whole number from 2",
        "scored_texts=-1": "scored_texts=-1: expected a whole number from 0",
        "batch_size=0": "batch_size=0: expected a whole number from 1",
        "output=a.pdf": "output=a.pdf: expected a name that ends in .html",
        "device=tpu": "tpu",
    }
    for word, words in told.items():
        assert words in refused(command, f"model={model}", *data, word)


def test_what_is_read_is_not_overwritten(command: Command, tmp_path: Path) -> None:
    model, data = given("extraction")
    path = write_jsonl(tmp_path / "a.json", [{"id": "1", "text": "Fast."}, {"id": "2", "text": "The fan whines."}])
    words = [f"data.target.path={path}" if word.startswith("data.target.path=") else word for word in data]
    assert "which is read; it would be lost" in refused(command, f"model={model}", *words, "output=a.html")


def test_models_that_will_not_do(command: Command, tmp_path: Path) -> None:
    task, lacking = "extraction", "spans"
    model, data = given(task)
    assert "model is not set" in refused(command, *data)
    assert "nowhere: not a model folder" in refused(command, "model=nowhere", *data)
    path = Path(next(word for word in data if word.startswith("data.source.path=")).partition("=")[2])
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    bare = write_jsonl(tmp_path / "bare.jsonl", [{k: v for k, v in row.items() if k != lacking} for row in rows])
    words = [f"data.source.path={bare}" if word.startswith("data.source.path=") else word for word in data]
    err = refused(command, f"model={model}", *words)
    assert f"has {lacking}, and the model was trained with task={task}" in err
    dots = write_jsonl(
        tmp_path / "dots.jsonl", [row | {"text": "." * (i + 1), "spans": []} for i, row in enumerate(rows)]
    )
    silent = [f"data.source.path={dots}", f"data.target.path={dots}"]
    err = refused(command, f"model={model}", "data=my_files", *silent)
    assert "found no word that depends on another" in err


def test_a_model_that_reads_trees_is_looked_at_with_its_own(command: Command, tmp_path: Path) -> None:
    settings = [*corpora(tmp_path), "injection=tree_bias", "trainer.epochs=1", f"paths.cache={tmp_path}/cache"]
    data = [word for word in settings if word.startswith("data")]
    for control in ("none", "shuffled"):
        train([*settings, f"control={control}", f"paths.run={tmp_path}/{control}"])
    words = [*data, "texts=4", "scored_texts=0", f"paths.cache={tmp_path}/cache"]
    err = refused(command, f"model={tmp_path}/shuffled", *words)
    assert "it reads the trees of shuffled" in err and "would be looked at with those of spacy" in err
    assert command("analyze", f"model={tmp_path}/none", *words)[0] == 0
    # Of text that the parser makes no sense of its labels mean little, and that is told.
    code, out, err = command("predict", f"model={tmp_path}/none", "text=😀😀")
    assert code == 0 and "parse kept that may mean little: no Latin letter in the text (1 times)" in err, out


def test_a_model_without_attention(command: Command, tmp_path: Path) -> None:
    data = [word for word in corpora(tmp_path) if word.startswith("data")]
    settings = [
        "backbone=rnn_from_scratch",
        "trainer.epochs=1",
        "trainer.least_steps=0",
        "trainer.checkpoint_seconds=60",
    ]
    train([*data, *settings, f"paths.run={tmp_path}/rnn"])
    assert "rnn: a BiLSTM, which has no attention to look at" in refused(command, f"model={tmp_path}/rnn", *data)


def analysed(command: Command, folder: Path, kind: str) -> tuple[str, str, dict[str, Any]]:
    """What the terminal, the page and the file say of a trained model of some architecture."""
    data = [word for word in corpora(folder) if word.startswith("data")]
    write_jsonl(folder / "source.jsonl", records("camera", 60))  # enough for probes
    settings = ["trainer.epochs=1", "trainer.least_steps=0", "trainer.checkpoint_seconds=60", "trainer.precision=32"]
    train([*data, *of_family(folder / "backbone", kind), *settings, f"paths.run={folder}/run"])
    code, out, err = command("analyze", f"model={folder}/run", *data, "texts=60", "scored_texts=4")
    assert code == 0, err
    found = json.loads(Path("analysis.json").read_text(encoding="ascii"))
    return out, unescape(Path("analysis.html").read_text(encoding="utf-8")), found


NO_HEADS = (
    "Heads and layers switched off, heads against relations, patterns of attention and change of maps can't be had: "
)


@pytest.mark.parametrize("kind", ["deberta-v2", "mpnet"])
def test_attention_that_cannot_be_reached_is_left_out_with_the_reason(
    kind: str, command: Command, tmp_path: Path
) -> None:
    out, html, found = analysed(command, tmp_path, kind)
    why = found["unreachable"]
    assert "computes its attention in a way of its own" in why and found["unreadable"] is None
    assert [found[part] for part in ("heads", "patterns", "ablation")] == [None] * 3
    assert found["change"]["maps"] is None and set(found["change"]["weights"]) == {"embeddings", "layer 0", "layer 1"}
    assert found["structural_probe"]["reason"] == found["domain_shift"]["reason"] == ""
    for model in ("before", "after"):
        probed, apart = found["structural_probe"]["found"][model], found["domain_shift"]["a_distances"][model]
        assert [len(probed["source"]), len(probed["target"]), len(apart)] == [3] * 3
    assert set(found["domain_shift"]["compared"]) >= {"words", "relations", "aspect terms", "opinion-aspect paths"}
    assert f"{NO_HEADS}{why}." in html and f"{NO_HEADS}{why}." in out
    short = f"{tmp_path / 'backbone'} computes its attention in a way of its own, which can't be replaced."
    assert html.count(f"This can't be had: {short}") == 3 and f"The change of maps can't be had: {short}" in html
    assert html.count("<figure>") == 3 and "Of the weights those of " in html
    for told in ("The pretrained model's trees are clearest in ", "A linear classifier tells the domains apart "):
        assert told in html and told in out


@pytest.mark.parametrize(
    ("kind", "words"),
    [("albert", "shares weights between its layers"), ("xlnet", "gives states of shape"), ("xlm", "splits its layers")],
)
def test_layers_that_cannot_be_read_are_left_out_with_the_reason(
    kind: str, words: str, command: Command, tmp_path: Path
) -> None:
    out, html, found = analysed(command, tmp_path, kind)
    why, stack = found["unreadable"], kind == "xlnet"  # whose layers give pieces first, but are there
    assert words in why and "last layer" not in why  # which nobody asked for
    assert found["structural_probe"]["reason"] == found["domain_shift"]["reason"] == why
    assert (found["structural_probe"]["found"], found["domain_shift"]["a_distances"]) == ({}, {})
    assert found["domain_shift"]["compared"]["words"]["different"] and "Of what is met in " in html
    assert (found["change"]["weights"] is None) != stack and found["heads"] is None
    parts = "Structural probes and A-distances" if stack else "Structural probes, A-distances and change of weights"
    for told in (f"{parts} can't be had: {why}.", f"{NO_HEADS}{found['unreachable']}."):
        assert told in html and told in out
    assert f"No probes: {why}." in html and f"No A-distance: {why}." in html
    assert (f"The change of each layer's weights can't be had: {why}." in html) != stack
