"""A user's own models: adapt in one line, score on labelled texts, compare two; the scikit-learn face says the same."""

import csv
import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import domadapt
from domadapt.config.overrides import adapting
from tests.support import Command, records, write_jsonl

SMALL = ["backbone=tiny_random", "trainer.epochs=1", "trainer.extra_epochs=0", "trainer.min_steps=0"]


@pytest.fixture(scope="module", params=["sequence", "token"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled texts of one domain and texts of another, as a user has them."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sequence":
        lines = ["text,label", *(f'"{row["text"]}",{row["label"]}' for row in records("camera", 24))]
        (folder / "labelled.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        rows = [{name: row[name] for name in ("id", "domain", "text", "spans")} for row in records("camera", 24)]
        write_jsonl(folder / "labelled.jsonl", rows)
    texts = "".join(row["text"] + "\n" for row in records("laptop", 60, 5))
    (folder / "new.txt").write_text(texts, encoding="utf-8")
    return folder


def test_adapt_then_label_some_then_score_and_compare(folder: Path, command: Command) -> None:
    [labelled] = folder.glob("labelled.*")
    code, out, err = command("adapt", str(labelled), str(folder / "new.txt"), *SMALL)
    assert code == 0, err
    run = folder / "new_adapted"
    assert (run / "model").is_dir() and (run / "source_only" / "model").is_dir()
    assert not [*(run / "source_only").glob("fifty_to_label.*")]
    [to_label] = run.glob("fifty_to_label.*")
    assert f"score model={run} input={to_label}" in out

    code, _, err = command("score", f"model={run}", f"input={to_label}")
    assert code == 2 and "none of its 50 texts has a label" in err

    if to_label.suffix == ".csv":
        rows = list(csv.DictReader(to_label.read_text(encoding="utf-8").splitlines()))
        assert len(rows) == 50
        for row in rows[:40]:
            row["label"] = "positive" if "great" in row["text"] else "negative"
        with to_label.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, ["id", "text", "label"])
            table.writeheader()
            table.writerows(rows)
    else:
        rows = [json.loads(line) for line in to_label.read_text(encoding="utf-8").splitlines()]
        for row in rows[:40]:
            row["spans"] = [{"start": 0, "end": len(row["text"].split()[0]), "type": "aspect"}]
        write_jsonl(to_label, rows)
    code, out, err = command("score", f"model={run}", f"input={to_label}", f"output={folder}/scored.jsonl")
    assert code == 0, err
    assert "40 labelled texts of fifty_to_label" in out and "10 without a label are left out" in out
    assert "(95 % over texts)" in out and "the card expected" in out
    assert len((folder / "scored.jsonl").read_text(encoding="utf-8").splitlines()) == 40

    asked = ["sample", f"model={run}", f"input={folder}/new.txt", f"examples={labelled}", f"output={folder}/ask.jsonl"]
    code, out, err = command(*asked, "count=7")
    assert code == 0, err
    texts = [json.loads(line)["text"] for line in (folder / "ask.jsonl").read_text(encoding="utf-8").splitlines()]
    prompt = (folder / "ask.prompt.txt").read_text(encoding="utf-8")
    assert len({*texts}) == 7 and all(text in prompt for text in texts) and "10 examples" in out
    objects = [json.loads(line) for line in prompt.splitlines() if line.startswith("{")]
    assert sum({"label", "spans"} & row.keys() != set() for row in objects) == 10 and len(objects) == 17
    code, _, err = command(*asked)
    assert code == 2 and "is there already, and may hold labels" in err

    code, out, err = command("compare", str(run / "source_only"), str(run), f"input={folder}/new.txt")
    assert code == 0, err
    assert "of 60 texts are labelled differently" in out
    code, out, _ = command("compare", str(run), str(run), f"input={folder}/new.txt")
    assert code == 0 and "0 of 60 texts are labelled differently" in out


def test_a_saved_model_goes_on_with_newer_texts(tmp_path: Path, command: Command) -> None:
    labelled, other = tmp_path / "a.csv", tmp_path / "c.csv"
    rows = records("camera", 30)
    labelled.write_text("text,label\n" + "".join(f'"{r["text"]}",{r["label"]}\n' for r in rows), encoding="utf-8")
    other.write_text("text,label\nFine lens.,yes\nDull lens.,no\nFine fan.,yes\nDull fan.,no\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("".join(f"{r['text']}\n" for r in records("laptop", 8)), encoding="utf-8")
    plain = ["adaptation=none", f"paths.cache={tmp_path}/cache", "trainer.epochs=1", "trainer.min_steps=0"]
    first = ["backbone=tiny_random", *plain, f"paths.run={tmp_path}/first"]
    domadapt.adapt(labelled, tmp_path / "b.txt", first)
    still = [*plain, "trainer.learning_rate=1e-12"]
    again = domadapt.adapt(labelled, tmp_path / "b.txt", still, model=tmp_path / "first")
    one, two = (load_file(tmp_path / name / "model/encoder/model.safetensors") for name in ("first", "b_adapted"))
    assert all((one[name] - two[name]).abs().max() < 1e-4 for name in one), "the same encoder and head"
    assert again["config"]["backbone"]["name"] == f"{tmp_path}/first/model/encoder"
    go_on = [str(tmp_path / "b.txt"), f"model={tmp_path}/first", *plain]
    code, _, err = command("adapt", str(other), *go_on, f"paths.run={tmp_path}/x")
    assert code == 2 and "it labels whole texts (negative, positive), the source whole texts (no, yes)" in err
    code, _, err = command("adapt", str(labelled), *go_on[:1], f"model={tmp_path}/nowhere", *plain)
    assert code == 2 and "not a model folder" in err


def test_settings_of_the_user_go_before_those_of_adapt() -> None:
    found = adapting(["a.csv", "new.txt", "paths.run=mine", "adaptation=none"])
    assert found == [
        *("data=my_files", "source.path=a.csv", "target.path=new.txt", "source.name=a", "target.name=new"),
        *("paths.run=mine", "adaptation=none"),
    ]


TINY = ["backbone=tiny_random", "trainer.epochs=4", "trainer.learning_rate=0.01", "max_pieces=24"]
ROWS, TARGET = records("camera", 40), [row["text"] for row in records("laptop", 20, 5)]
TEXTS = [row["text"] for row in ROWS]


def test_labels_of_any_kind_come_back_as_they_were(tmp_path: Path) -> None:
    y = [int(row["label"] == "positive") for row in ROWS]
    adapter = domadapt.DomainAdapter(overrides=TINY, folder=tmp_path / "it's, (here)")
    assert adapter.fit(TEXTS, y, target=TARGET) is adapter
    found = adapter.predict(TARGET)
    assert found.dtype.kind == "i" and set(found.tolist()) <= {0, 1}
    shares = adapter.predict_proba(TARGET)
    assert shares.shape == (20, 2) and shares.argmax(1).tolist() == found.tolist()
    assert 0 <= adapter.score(TEXTS, y) <= 1
    [run] = (tmp_path / "it's, (here)").glob("*/*/*/metrics.json")
    again = domadapt.load(run.parent).predict(TARGET)
    assert [int(str(p.label)) for p in again] == found.tolist()
    other = clone(adapter)
    assert other.get_params() == adapter.get_params()
    with pytest.raises(NotFittedError):
        other.predict(TARGET)


def test_spans_go_in_and_come_out(tmp_path: Path) -> None:
    y = [[(s["start"], s["end"], s["type"]) for s in row["spans"]] for row in ROWS]
    adapter = domadapt.DomainAdapter("extraction", TINY).fit(TEXTS, y, target=TARGET)
    assert adapter.metrics_["headline"] == "span_f1"
    found = adapter.predict(TEXTS)
    right = sum(len({*a} & {*b}) for a, b in zip(y, found, strict=True))
    every = sum(map(len, y)) + sum(map(len, found))
    micro = 2 * right / every
    assert adapter.score(TEXTS, y) == pytest.approx(micro, abs=0.25)  # the mean over two types, of the same spans
    with pytest.raises(ValueError, match="finds spans"):
        adapter.predict_proba(TEXTS)


@pytest.mark.parametrize(
    ("y", "target", "told"),
    [(["a"], None, "target=None: give texts"), (["a", "b"], TARGET, "X has 1 texts and y 2 entries")],
)
def test_what_does_not_fit_is_refused(y: list[str], target: list[str] | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        domadapt.DomainAdapter(overrides=TINY).fit(TEXTS[:1], y, target)


def test_all_right_in_few_texts_is_no_certainty(folder: Path, command: Command) -> None:
    """Clopper and Pearson: 30 of 30 may be 88 in 100."""
    labelled, run = folder / "all_right", folder / "new_adapted"
    model = domadapt.load(run)
    texts = [row["text"] for row in records("camera", 30)]
    rows = [{"id": str(i), "text": text} for i, text in enumerate(texts)]
    for row, found in zip(rows, model.predict(texts), strict=True):
        spans = [{"start": s.start, "end": s.end, "type": s.type} for s in found.spans]
        row |= {"label": found.label} if found.label else {"spans": spans}  # type: ignore[dict-item]
    write_jsonl(labelled.with_suffix(".jsonl"), rows)
    code, out, err = command("score", f"model={run}", f"input={labelled}.jsonl")
    assert code == 0, err
    assert "(88.4 to 100.0)" in out and "(100.0 to 100.0)" not in out


def test_what_will_be_refused_is_refused_before_anything_is_trained(folder: Path, command: Command) -> None:
    [labelled] = folder.glob("labelled.*")
    (folder / "german.txt").write_text("Die Anmeldung funktioniert leider nicht mehr, der Dienst ist weg.\n" * 60)
    code, _, err = command("adapt", str(labelled), str(folder / "german.txt"), *SMALL)
    assert code == 2 and "term_substitution: reads trees of german" in err and "backbone=multilingual" in err
    assert not (folder / "german_adapted").exists()
