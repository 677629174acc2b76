"""The command line: what a stranger types, and what they get back."""

import errno
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.hydra import Hydra

import domadapt
from domadapt import api
from domadapt.cli import main as cli
from domadapt.config.overrides import lengthen, quote
from domadapt.utils.files import write_atomic
from tests.support import Command, finished, read_csv, read_jsonl

SENTENCES = ["The lens is sharp.", "A heavy battery, sadly.", "I love this screen!", "The zoom hums."]
MINE = ["data=my_files", "source.path=source.jsonl", "target.path=a.txt"]
SHIPPED = Path(__file__).parents[1] / "data" / "hotel" / "dev.jsonl"
COMMAND = "sys.argv[0] = 'domadapt'; from domadapt.cli.main import main; main()"


def light(code: str, given: Sequence[str], *heavy: str, ends: int = 0, **how: Any) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, which imports none of the heavy packages."""
    code = f"import sys\ntry: {code}\nfinally: assert not (found := {{*{heavy}}} & {{*sys.modules}}), found"
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True, check=False, **how)
    assert done.returncode == ends, done.stderr
    return done


def test_help_and_loading_import_nothing_heavy() -> None:
    assert "domadapt VERB" in light(COMMAND, ["--help"], "torch", "transformers", "spacy", "hydra", "numpy").stdout
    predict = ["predict", f"model={finished('classification')}", "text=Sharp."]
    assert '"label"' in light(COMMAND, predict, "torch", "transformers", "sklearn", "spacy").stdout


def test_a_run_that_is_there_is_told_without_what_trains(tmp_path: Path) -> None:
    texts = {
        "a.csv": "text,label\nSharp.,good\nDull.,bad\nFine.,good\n",
        "b.txt": "Loud.\n",
        "metrics.json": '{"key": "another"}',
    }
    for name, content in texts.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    adapt, heavy = ["adapt", "a.csv", "b.txt", "paths.run=."], ("transformers", "spacy", "scipy", "sklearn")
    done = light(COMMAND, adapt, *heavy, "pytorch_lightning", ends=2, cwd=tmp_path)
    assert "holds the results of another run" in done.stderr


NOWHERE = ["data=my_files", "source.path=nowhere.csv", "target.path=nowhere.txt"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "trainer.epochs=0"], "trainer.epochs=0: expected a whole number from 1"),
        (["train", "data=my_files"], "source.path is not set"),
        (["train", *NOWHERE], "data.source.path=nowhere.csv: no such file"),
        (["train", "experiment=aspect_opinion"], "DOMADAPT_BENCHMARK_DATA"),
        (["predict", "model=nowhere", "text=Hello"], "nowhere: not a model folder"),
        (["export", "model=nowhere", "to=there"], "nowhere: not a model folder"),
        (["serve", "model=nowhere"], "nowhere: not a model folder"),
        (["analyze", "model=nowhere"], "nowhere: not a model folder"),
        (["analyze", "model=FINISHED", *NOWHERE], "data.source.path=nowhere.csv: no such file"),
        (["report", "nowhere"], "runs=nowhere: no such folder"),
        (["audit", *NOWHERE], "data.source.path=nowhere.csv: no such file"),
        (["train", "data=my_files", "source.path=no_text.csv", "target.path=no_text.csv"], "expected a column text"),
        (["adapt", "no_text.csv", "no_text.csv", "source.label=stars"], "no_text.csv:1: header is 'review,stars'; exp"),
        (["adapt", "no_label.csv", "no_label.csv"], "no_label.csv: label is missing in every record"),
        (["adapt", "no_label.csv", "labelled.csv"], "; if the target has the labels, swap the two (source first)"),
        (["adapt", "labelled.csv", "other.csv", "task=extraction"], "task=extraction: the source has no spans"),
        (["adapt", "labelled.csv", "other.csv", "selection=oracle"], "there are no target labels to choose by"),
        (["adapt", "labelled.csv", "other.csv", "target.test_path=other.csv"], "other.csv:2: label is 'odd'; expected"),
        (["score", "model=FINISHED", "input=labelled.csv", "baseline=OTHER"], "labels whole texts and "),
        (["compare", "FINISHED", "OTHER", "input=labelled.csv"], "finds spans; expected two models of one task"),
        (["predict", "model=FINISHED", "input=[a.txt,b.txt]"], "input=['a.txt', 'b.txt']: expected one file;"),
        (["score", "model=FINISHED", "input=no_*.csv"], "input=no_*.csv: expected one file; of several, run the"),
        (["compare", "FINISHED", "FINISHED", "input=no_*.csv"], "input=no_*.csv: expected one file; "),
        (["sample", "model=FINISHED", "input=no_*.csv", "output=x.jsonl"], "input=no_*.csv: expected one file; "),
        (["export", "model=FINISHED", "to=x", "input=[a.txt]"], "input=['a.txt']: expected one file; "),
        (["parse", "input=[other.csv,no_*.csv]"], "input=no_*.csv: expected one file; "),
        (["score", "model=FINISHED", "input=other.csv"], "other.csv:2: label is 'odd'; expected 'negative' or 'po"),
    ],
)
def test_an_error_is_told_before_anything_heavy_is_imported(arguments: list[str], told: str, tmp_path: Path) -> None:
    rows = {"no_text": "review,stars\nSharp.,5", "no_label": "text,stars\nSharp.,5", "other": "text,label\nLoud.,odd"}
    rows["labelled"] = "text,label\nSharp.,good\nDull.,bad\nFine.,good"
    for name, content in rows.items():
        (tmp_path / f"{name}.csv").write_text(f"{content}\n", encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name != "DOMADAPT_BENCHMARK_DATA"}
    heavy = ("torch", "transformers", "spacy", "sklearn", "pytorch_lightning")
    given = [one.replace("FINISHED", str(finished("classification"))) for one in arguments]
    given = [one.replace("OTHER", str(finished("extraction"))) for one in given]
    done = light(COMMAND, given, *heavy, ends=2, cwd=tmp_path, env=env)
    assert done.stderr.startswith(f"domadapt {arguments[0]}: ") and told in done.stderr
    assert (done.stderr.count("\n"), done.stdout) == (1, "")
    assert {path.stem for path in tmp_path.iterdir()} == {*rows}


def test_a_setting_of_a_method_is_refused_before_transformers_is_loaded(tmp_path: Path) -> None:
    wrong = (
        ("adaptation=self_training", "adaptation.self_training.weight=-1"),
        ("injection=lisa", "injection.lisa.head=-1"),
    )
    common = ["domadapt", "train", "data=hotel_laptop", f"paths.runs={tmp_path}"]
    code = f"""
    from domadapt.cli.main import main
    for sys.argv in {[[*common, *given] for given in wrong]}:
        try: main()
        except SystemExit as end: assert end.code == 2"""
    done = light(code, [], "transformers", "spacy", "sklearn", "pytorch_lightning")
    assert done.stderr.count("=-1: expected a") == done.stderr.count("\n") == 2


def test_help_of_a_verb_shows_settings_and_choices(command: Command) -> None:
    for verb in cli.VERBS:
        out, _ = command(verb, "--help")
        assert out.startswith(f"domadapt {verb} ")
        if verb == "train":
            assert "# Random seed of weights" in out and "  * minilm " in out
    assert "# Weight of the head's cross entropy." in command("train", "injection=lisa", "--help")[0]
    assert command("trian", code=2) == ("", f"domadapt: no verb 'trian'; there are {', '.join(cli.VERBS)}\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "injection=lisaa"], "injection=lisaa: there is no such option; expected one of "),
        (["train", "injection=[lisa,gn]"], "injection=gn: there is no such option; expected one of "),
        (["benchmark", "source.path=a.csv"], "data.source.path: is of your own files: add experiment=my_matrix"),
        (["train", "sead=1"], "sead: there is no such setting; did you mean seed?"),
        (["train", "trainer.epoch=1"], "trainer.epoch: there is no such setting; did you mean trainer.epochs?"),
        (["train", "+sed=3"], "sed: there is no such setting; did you mean seed?"),
        (["train", "+trainer.epoch=1"], "trainer.epoch: there is no such setting; did you mean trainer.epochs?"),
        (["train", "text=body"], "text: there is no such setting; did you mean data.source.text or data.target.text?"),
        (["train", "batch_size=8"], "did you mean parser.batch_size or trainer.batch_size?"),
        (["train", "control.seed=2"], "control.seed: there is no such setting; choose control= first"),
        (["benchmark", "seeds=[1]"], "seeds: there is no such setting; did you mean benchmark.seeds?"),
        (["adapt", "FILE", "a.txt", "sead=1"], "sead: there is no such setting; did you mean seed?"),
        (["train", "injection=gnn", "injection.gnn.layers=1"], "injection.gnn has convolution, width, depth, masked, "),
        (["train", "injection.gnn.depth=1"], "injection.gnn: there is no such setting; choose injection= first"),
        (["train", "trainer.max_length=9"], "trainer.max_length: there is no such setting; did you mean max_length?"),
        (["train", "data=hotel_laptop", "source.text=a"], "data.source.text: is of your own files: add data=my_files"),
        (["train", "quite_another_thing=1"], "domadapt train --cfg job shows all\n"),
        (["train", "seed=a=b"], "put text with signs, spaces or umlauts into quotes"),
        (["train", "data=hotel_laptop", "paths.runs=null"], "paths.runs=null: expected a folder"),
        (["train", "data=hotel_laptop", "data.root=nowhere"], "nowhere/hotel/train.jsonl"),
        (["train", "+data.colour=red"], "unexpected keyword argument 'colour'"),
        (["predict", "text=Hello"], "model is not set: give model=VALUE"),
        (["export", "model=nowhere", "to=there", "format=pt"], "format=pt: expected one of hf, onnx, onnx-int8"),
        (["adapt", "FILE", "nowhere.txt"], "data.target.path=nowhere.txt: no such file"),
        (["predict", "model=nowhere", "text= "], "text=' ': blank; expected a text to label"),
        (["parse", "input=[-,-]"], "expected - once: standard input can be read only once"),
        (["parse", "input=blank.txt"], "blank.txt: file is 'blank'; expected records"),
        (["predict", "model=nowhere", "input=blank.txt"], "nowhere: not a model folder"),
        (["train", "data=my_files", "source.path=${oc.env:HOME}", "target.path=a"], "a path is used unchanged"),
        (["predict", "model=nowhere"], 'or one text, text="One text."; got neither'),
        (["predict", "model=blank.txt", "text=a"], "blank.txt: not a model folder (it is a file)"),
        (["train", ""], "one argument is empty"),
        (["predict", "model=", "input=FILE"], "model=: is empty: a variable of the shell that is not set?"),
        (["adapt", "FILE", "a.txt", "model="], "model=: is empty: a variable of the shell that is not set?"),
        (["train", "seed=1,2"], "a list into brackets: [a,b]; a run for each: domadapt train -m"),
        (["train", "seed=range(1,3)"], "seed=range(1,3): one value or a list?"),
        (["train", "data._target_=elsewhere.corpus"], "is installed? (_target_; its file is looked for"),
        (["predict", "model=x", "text=A lens.", "column=text"], "column=text: goes with input=FILE; text= is one text"),
        (["predict", "model=x", "text=A lens.", "format=conll"], "format=conll: goes with input=FILE; text= is one te"),
        (["parse", "input=FILE", "format=csv"], "delimited is for CSV and TSV"),
        (["benchmark", "benchmark.seeds=3"], "benchmark.seeds=3: expected a list"),
        (["benchmark", "benchmark.seeds=[]"], "benchmark.seeds=[]: expected a list"),
        (["benchmark", "benchmark.only=lisa"], "benchmark.only=lisa: expected a list: benchmark.only=[lisa]"),
        (
            ["benchmark", "experiment=syntax", "benchmark.controls.gnn=x"],
            "benchmark.controls.gnn=x: expected a list: [x]",
        ),
        (
            ["benchmark", "experiment=syntax", "benchmark.controls.gnn=[x]"],
            "['x']: no method 'x' in the matrix; expected",
        ),
        (["benchmark", "experiment=syntax", "~benchmark.methods.gnn@shuffled"], "benchmark.only=[...] chooses methods"),
        (["benchmark", "benchmark.methods=x"], "benchmark.methods=x: expected names with lists of overrides"),
        (["parse", "input=FILE", "format=[csv]"], "format is ['csv']; expected one of blitzer_review, conll"),
        (["cache", "clear=true"], "clear=[True]: expected all, or some of parses"),
        (["cache", "clear={a: 1}"], "clear=[{'a': 1}]: expected all, or some of parses"),
        (["predict", "model=x", "text=y", "+outptu=z"], "outptu: there is no such setting; did you mean output?"),
        (["parse"], "input is not set: give input=VALUE"),
        (["parse", "input=nowhere.txt"], "nowhere.txt: file is missing; expected a file that can be read"),
        (["parse", "input=a.txt", "processes=0"], "processes=0: expected a whole number from 1"),
        (["benchmark", "experiment=nope"], "experiment=nope: there is no such option; expected one of amazon_reviews"),
        (["benchmark", "data=my_files"], "data.source.path is not set: give the source's file"),
        (["benchmark", "backbone.name=???"], "backbone.name is not set: give backbone.name=VALUE"),
        (["train", "data=hotel_laptop", "task=extraction", "task.types=[a,b,a]"], "'a' is there twice"),
        (["train", "--seed", "3"], "--seed: settings are written without dashes: seed=3"),
        (["train", "--mutirun"], "or did you mean --multirun?"),
        (["train", "--cfg", "jobs"], "--cfg jobs: expected one of job, hydra, all"),
        (["train", "hello"], "'hello': expected settings as NAME=VALUE, such as seed=1"),
        (["predict", "It's sharp, (very)."], 'a text to label is written text="It\'s sharp, (very)."'),
        (["parse", "my.txt"], "a file of texts is written input=my.txt"),
        (["score", "."], "'.': a model is written model=."),
        (["predict", "model=nowhere", "text=Hello", "output=a.xlsx"], "predict does not write .xlsx; expected .jsonl"),
        (["predict", "model=x", "input=a.csv", "text_pair=answer"], "text_pair=answer: goes with text=; of input= two"),
        (["parse", "input=a.txt", "output=a.csv"], "parse does not write .csv; expected .conllu"),
        (["report", "runs=null"], "runs=null: not a value that it can have"),
        (["report", "runs=5"], "runs=5: expected a folder of runs"),
        (["report", "runs=[5]"], "runs=[5]: expected a folder of runs"),
        (["report", "runs=.", "output=5"], "output=5: expected a name that ends in .html"),
        (["report", "runs=.", "formats=5"], "formats=[5]: expected some of html"),
        (["train", "data=hotel_laptop", "paths=null"], "paths=null: expected folders"),
        (["report", "runs=[]"], "runs=[]: expected a folder of runs"),
        (["report", "runs=.", "output=null"], "output=null: not a value that it can have"),
        (["sample", "model=x", "input=y", "output=null"], "output=null: not a value that it can have"),
        (["cache", "paths=5"], "paths=5: not a value that it can have"),
        (["parse", "input=[]"], "input is not set: give input=VALUE"),
        (["export", "model=x", "to=null"], "to is not set: give to=VALUE"),
        (["train", "data=hotel_laptop", "parser.name=5"], "SpacyParser: name=5: expected str; "),
        (["train", "injection=[1]"], "injection=[1]: expected the name of a choice"),
        (["parse", "input=FILE", "parser=null"], "parser=null: expected the name of a choice"),
        (["train", "data=hotel_laptop", "paths=x"], "paths=x: expected folders"),
        (["train", "data=my_files", "data.source=x"], "data.source.path is not set"),
        (["train", "data=hotel_laptop", "method=5"], "method=5: expected a word, such as method=mine"),
        (["train", "data=hotel_laptop", "paths.share_networks=x"], "paths.share_networks='x': expected true, false or"),
        (["benchmark", "benchmark.methods.source_only=5"], "source_only: 5: expected a list of overrides"),
        (["report", "runs=.", "output=a.csv"], "output=a.csv: expected a name that ends in .html or .htm"),
        (["parse", "input=FILE", "paths.cache=/proc/nope"], "/proc/nope: No such file or directory; name a folder"),
        (["predict", "model=x", "text=a\udcff"], "holds bytes that are not UTF-8"),
        (["audit", "data=hotel_laptop", "seed=x", "output=null"], "seed='x': expected a whole number"),
        (["audit", "data=hotel_laptop", "output=a.html"], "output=a.html: audit does not write .html; expected .json"),
        (["adapt"], "expected two files, got none"),
        (["adapt", "a.csv"], "expected two files, got 1"),
        (["adapt", "a.csv", "b.csv", "c.txt"], "got 3: domadapt adapt LABELLED NEW_TEXTS [settings], such as"),
        (["adapt", "a.csv", "b.csv", "c.txt"], "several labelled files are one pattern, such as '*.csv'"),
        (["adapt", "-", "-"], "source.path=- and target.path=-: standard input can be read once"),
        (["audit", "-", "-"], "source.path=- and target.path=-: standard input can be read once"),
        (["adapt", "a.csv", f"source.name={'x' * 300}", "-cd", "."], "expected two files, got 1"),
        (["adapt", "a.csv", "b.txt", "-m", "seed=1,2"], "adapt is one run"),
        (["score", "model=x", "input=y", "output=a.csv"], "score does not write .csv; expected .jsonl (a JSON object"),
        (["compare", "a", "b", "input=y", "output=a.csv"], "compare does not write .csv; expected .jsonl"),
        (["sample", "model=x", "input=y", "output=a.csv"], "sample does not write .csv; expected .jsonl"),
        (["compare", "a"], "expected two models, got 1"),
        (["compare", "a", "b", "input=x.txt"], "not a model folder"),
        (["score", "model=nowhere", "input=x.csv"], "not a model folder"),
        (["parse", "input=FILE", "paths.cache=null"], "paths.cache=null: expected a folder"),
    ],
)
def test_an_error_of_the_user_is_one_line(command: Command, arguments: list[str], told: str) -> None:
    """And leaves nothing behind."""
    Path("blank.txt").write_text("\n  \n")
    out, err = command(*(argument.replace("FILE", str(SHIPPED)) for argument in arguments), code=2)
    assert err.startswith(f"domadapt {arguments[0]}: ") and told in err
    assert err.count("\n") == 1, err
    assert out == "" and "[hidden]" not in err
    assert [path.name for path in Path().iterdir()] == ["blank.txt"]


def test_a_mistake_in_a_file_of_ones_own_names_the_file_and_the_line(command: Command, tmp_path: Path) -> None:
    write_atomic(tmp_path / "injection" / "mine.yaml", "mine:\n  layers: [1\n")
    _, err = command("train", "--config-dir", str(tmp_path), "injection=mine", code=2)
    assert err.count("\n") == 1 and f'in "{tmp_path}/injection/mine.yaml", line 3, column 1' in err


def test_labels_that_nobody_wants_to_see_end_in_silence() -> None:
    given = [sys.executable, "-m", "domadapt", "predict", f"model={finished('classification')}", "text=Loud."]
    done = subprocess.run(["sh", "-c", f"{shlex.join(given)} >&-"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["train", "--cfg", "job"]])
def test_a_full_disk_under_standard_output_is_told_in_a_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "domadapt", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    told = f"domadapt {arguments[0]}: standard output can't be written (No space left on device); free space,"
    assert done.returncode == 2 and done.stderr.startswith(told) and done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["train", "--help"], ["train", "--cfg", "job"]])
def test_a_reader_that_has_seen_enough_ends_it_in_silence(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "domadapt", *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_character_ends_a_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    for data, expected in ((False, b"\\u2192 \xe9\n"), (True, "→ é\n".encode())):
        printed = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "latin-1"))
        cli.take_any_character(data)
        print("→ é", flush=True)
        assert printed.getvalue() == expected


def test_predict_a_file(command: Command, tmp_path: Path) -> None:
    texts = ["A sharp lens, (really) sharp.", "Ça va 😀: the  battery", "long " * 600]
    run_folder = Path(shutil.copytree(finished("extraction"), tmp_path / "seed=1's"))
    (tmp_path / "my.txt").write_text("\n".join([texts[0], "", *texts[1:]]) + "\n", encoding="utf-8")
    left = tmp_path / "new" / ".out.jsonl.killed.part"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))  # long ago
    for model in (run_folder, run_folder / "model"):  # either folder will do
        out, err = command("predict", f"model={model}", "input=my.txt", "output=new/out.jsonl", "device=cpu")
        assert out == ""
    rows = read_jsonl(tmp_path / "new/out.jsonl")
    assert [row["text"] for row in rows] == texts
    assert [row["id"] for row in rows] == ["input/my:1", "input/my:3", "input/my:4"]
    assert all(span["text"] == row["text"][span["start"] : span["end"]] for row in rows for span in row["spans"])
    assert {span["type"] for row in rows for span in row["spans"]} <= {"aspect", "opinion"}
    assert "blank text, dropped (1 time)" in err
    assert f"1 of 3 texts are longer than the {domadapt.load(run_folder).session.max_length} subwords" in err
    assert [row.get("truncated", False) for row in rows] == [False, False, True]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.jsonl"]
    command("predict", f"model={run_folder}", "input=my.txt", "output=out.csv", "device=cpu")
    none = [{"type": "", "text": ""}]
    spans = [(row["id"], row["text"], one["type"], one["text"]) for row in rows for one in row["spans"] or none]
    table = read_csv(Path("out.csv"))
    assert [(row["id"], row["text"], row["type"], row["span"]) for row in table] == spans
    assert {row["id"] for row in table if row["truncated"]} == {"input/my:4"}
    for folder in ("new", "absent/"):
        _, err = command("predict", f"model={run_folder}", "input=my.txt", f"output={folder}", code=2)
        assert f"output={folder}: is a folder; name a file in it" in err
    command("predict", f"model={run_folder}", "text=Dull.", "output=out.csv")  # its own: replaced
    by_hand = '{"text": "A fan", "spans": []}\n{"text": "Dull", "spans": [{"start": 0, "end": 4, "type": "opinion"}]}\n'
    for name, content in {"gold.csv": "text,label\nThe confidence,b\n", "gold.jsonl": by_hand}.items():
        (tmp_path / name).write_text(content)
        _, err = command("predict", f"model={run_folder}", "text=Dull.", f"output={name}", code=2)
        assert f"output={name}: is there, and domadapt has not written it; give another name" in err
        assert (tmp_path / name).read_text() == content
    (tmp_path / "none.jsonl").write_text('{"text": "A fan", "spans": []}\n' * 2)  # as predictions may be
    command("predict", f"model={run_folder}", "text=Dull.", "output=none.jsonl")


ASKED = ["It's small, isn't it? {a=b}: 'yes' [no] (maybe), 100% \\", "the key is ${oc.env:WANDB_API_KEY}", "???"]
ASKED += ["see https://me:my_password@host"]


def test_predict_gives_the_text_and_spans(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    # An untrained head says O or anything: what matters is that some text gets a span, and that it fits.
    monkeypatch.setenv("WANDB_API_KEY", "0123456789")
    rows = []
    for text in (*SENTENCES, *ASKED):
        out, _ = command("predict", f"model={finished('extraction')}", f"text={text}", "device=cpu")
        rows.append(json.loads(out))
        assert rows[-1]["text"] == text
    assert all(span["text"] == row["text"][span["start"] : span["end"]] for row in rows for span in row["spans"])
    assert any(row["spans"] for row in rows)


def test_parse_twice(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It works well here.\n\nTwo  spaces. Two sentences.\n")
    (tmp_path / "b.jsonl").write_text('{"id": "1", "domain": "x", "text": "Once more, with feeling."}\n')
    arguments = ("parse", "input=[a.txt,b.jsonl]", "output=parses.conllu", f"paths.cache={tmp_path}/cache")
    assert "3 texts: 3 parsed, 0 from cache, 0 damaged files" in command(*arguments)[0]
    first = (tmp_path / "parses.conllu").read_text()
    assert "3 texts: 0 parsed, 3 from cache, 0 damaged files" in command(*arguments)[0]
    assert (tmp_path / "parses.conllu").read_text() == first
    assert first.count("# text = ") == 3
    assert "2 texts: 2 parsed" in command("parse", "input=a.txt", "parser=conllu", "parser.path=parses.conllu")[0]


def test_the_cache_is_shown_and_cleared(command: Command, tmp_path: Path) -> None:
    here = f"paths.cache={tmp_path}/c"
    command("parse", f"input={SHIPPED}", here)
    (tmp_path / "c" / "data").mkdir()
    (tmp_path / "c" / "data" / f"{'0a' * 8}.jsonl").write_text("1" * 2_000_000)
    mine = "mine.txt", "dataset.csv", "stdin_notes.txt"
    for name in mine:
        (tmp_path / "c" / name).touch()
    lines = {line.split()[0]: line.split()[1:] for line in command("cache", here)[0].splitlines()}
    assert lines["data"][:4] == ["1", "files", "2.0", "MB"] and int(lines["parses"][0]) > 0 == int(lines["networks"][0])
    out, _ = command("cache", here, "clear=[data,masked-lm]")
    assert "2.0 MB  removed" in out and not (tmp_path / "c" / "data").exists()
    (tmp_path / "c" / "data").mkdir()
    (tmp_path / "c" / "data" / "reviews.csv").touch()  # of a folder that holds more than the cache
    command("cache", here, "clear=all")
    assert {path.name for path in (tmp_path / "c").rglob("*")} == {*mine, "data", "reviews.csv"}
    _, err = command("cache", here, "clear=parse", code=2)
    assert "clear=['parse']: expected all, or some of parses, masked-lm" in err


PLAIN = ["it's", "a, b", "a=b", "back\\slash", "end\\", "\\'", "[", "5", "ü 😀", "$5 {x}", "'quoted'", '"quoted"']
PLAIN += ["[a,b]", "{a: b}", "null and void", "???", "a\\${b}", "${", "true", "1e3", "a\tb", " x ", "'tis"]
PLAIN += ["'" + "\\a" * 24 + "\\'"]  # of which a search that goes back has no end
PLAIN += ["cost: ${oc.env:SECRET_KEY}", "${oc.env:SECRET_KEY}", "https://me:a_secret@host says", "password=0123456789"]


@pytest.mark.parametrize("value", [*PLAIN, "null"])
def test_free_text_is_not_evaluated(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "0123456789")
    read = api.compose("predict", [quote(f"text={value}"), quote(f"input={value}")])
    assert read.text == api.compose("predict", [quote(f"++text={value}")]).text == value
    assert read.input == value or value in ("[a,b]", "null")  # of files a list, and no file at all


@pytest.mark.parametrize("value", PLAIN)
def test_paths_of_corpora_are_not_evaluated(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "${" in value:
        with pytest.raises(ValueError, match=r"a path is used unchanged, and '\$\{' can't be in it; rename the file"):
            api.compose("train", ["data=my_files", f"source.path={value}"])
        return
    if value in ("'quoted'", '"quoted"', "???"):  # as Hydra has them, so that an override can be used twice
        return
    cfg = api.compose("train", ["data=my_files", f"source.path={value}", f"data.target.test_path={value}"])
    expected = ["a", "b"] if value == "[a,b]" else value
    assert (cfg.data.source.path, cfg.data.target.test_path) == (expected, expected)
    again = api.compose("train", ["data=my_files", lengthen(lengthen(f"source.path={value}"))])
    assert again.data.source.path == expected


OVERWRITING = {
    "predict": (["predict", "model=run", "input=source.jsonl", "output=./source.jsonl"], "source.jsonl"),
    "predict, its model": (["predict", "model=run", "text=Fast.", "output=run/model/domadapt.json"], "domadapt.json"),
    "predict, its run": (
        ["predict", "model=run", "text=Fast.", "output=run/predictions.jsonl"],
        "run/predictions.jsonl",
    ),
    "parse": (["parse", "input=[a.txt,source.jsonl]", "output=linked"], "source.jsonl"),
    "parse, its parses": (["parse", "input=a.txt", "parser=conllu", "parser.path=p", "output=p"], "p, which is read"),
    "audit, the sealed test": (["audit", *MINE, "target.test_path=run/t", "output=run/t"], "run/t"),
    "report": (["report", "run", "output=run/metrics.json"], "run/metrics.json"),
    "report, predictions": (["report", "run", "output=run/predictions.jsonl"], "run/predictions.jsonl"),
    "train": (["train", *MINE, "target.path=t/predictions.jsonl", "paths.run=t"], "t/predictions.jsonl"),
}


def test_a_path_below_home_is_found_whatever_the_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me (1)")
    typed = ["train", "source.path=~/a.csv", "data.target.test_path=~/b.csv", "paths.run=~/x", "seed=1"]
    _, arguments, words = cli.hydra_arguments("train", typed)
    assert arguments[1] == "source.path=~/a.csv"  # as it was typed: results quote no one's home
    paths = ["data.source.path='/home/me (1)/a.csv'", "data.target.test_path='/home/me (1)/b.csv'"]
    assert words == [*paths, "paths.run='/home/me (1)/x'", "seed=1"]
    _, _, words = cli.hydra_arguments("predict", ["predict", "model=~/m", "text=~/ is a home", "input=a~/b"])
    assert words == ["model='/home/me (1)/m'", "text='~/ is a home'", "input='a~/b'"]


def test_an_output_that_can_not_be_written_is_told_before_anything_is_computed(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(finished("extraction"), "run")
    monkeypatch.setattr("domadapt.cli.labelling.labeller", None)  # it would label
    monkeypatch.setattr("os.access", lambda path, how: False)
    _, err = command("compare", "model=run", "other=run", "input=source.jsonl", "output=new/a.jsonl", code=2)
    folder = "name a folder that can be read and written (output; DOMADAPT_CACHE for parses)"
    assert f"{Path.cwd()}: Permission denied; {folder}" in err


def test_a_working_folder_that_was_deleted_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    Path("../gone").rmdir()
    _, err = command("train", "seed=1", code=2)
    assert "domadapt train: the working folder was deleted; change to one that exists" in err


@pytest.mark.parametrize("case", OVERWRITING)
def test_what_is_read_is_not_overwritten(command: Command, case: str) -> None:
    arguments, told = OVERWRITING[case]
    shutil.copytree(finished("extraction"), "run")
    Path("t").mkdir()
    for name in ("a.txt", "p", "run/t", "t/predictions.jsonl", "run/predictions.jsonl"):
        Path(name).touch()
    span = {"start": 0, "end": 3, "type": "aspect"}
    rows = [json.dumps({"id": str(i), "text": f"{text} {i}", "spans": [span]}) for i, text in enumerate(SENTENCES)]
    for name in ("source.jsonl", "a.txt", "run/t", "t/predictions.jsonl"):
        Path(name).write_text("\n".join(rows))
    Path("linked").symlink_to("source.jsonl")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and path.name != ".lock"}
    _, err = command(*arguments, code=2)
    # Some are refused by their name alone, as that of another format.
    refused = any(words in err for words in ("which is read; it would be lost: give another file", "expected .jsonl"))
    assert told in err and (refused or "expected a name that ends in" in err), err
    assert before == {path: path.read_bytes() for path in before}


@pytest.mark.parametrize("verb", ["predict", "parse", "score"])
def test_the_file_behind_standard_input_is_not_overwritten(command: Command, verb: str) -> None:
    """`domadapt predict input=- output=a.txt < a.txt`."""
    name = "a.txt"
    Path(name).write_text("Fast.\n")
    held, file = os.dup(0), os.open(name, os.O_RDONLY)
    os.dup2(file, 0)
    try:
        model = [f"model={finished('extraction')}"] if verb != "parse" else []
        _, err = command(verb, *model, "input=-", "format=plain_text", f"output={name}", code=2)
    finally:
        os.dup2(held, 0)
        os.close(held)
        os.close(file)
    assert Path(name).read_text() == "Fast.\n" and "which is read; it would be lost" in err
    assert f"output={name}: is /dev/stdin, which is read" in err


def test_output_to_a_device_a_link_and_standard_output(command: Command, tmp_path: Path) -> None:
    """The first was replaced by a file, and so was the second; by root, /dev/null, too."""
    (tmp_path / "a.txt").write_text("Fast.\n")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    held = os.open(tmp_path / "pipe", os.O_RDWR)  # neither end waits for the other
    for output in ("link", "pipe", "-"):
        out, _ = command("parse", "input=a.txt", f"output={output}")
        assert ("# text = Fast." in out) == (output == "-")
    assert (tmp_path / "link").is_symlink()
    assert "# text = Fast." in (tmp_path / "file").read_text()
    assert (tmp_path / "pipe").is_fifo()
    assert b"# text = Fast." in os.read(held, 4096)
    os.close(held)


def test_report_takes_paths_without_a_key(command: Command) -> None:
    """Also ones with an equals sign, as run folders have, or a dash before all."""
    odd = Path("-seed=1-it's")
    shutil.copytree(finished("extraction"), odd)
    out, _ = command("report", str(odd), "output=r.html", "formats=[html,markdown,csv]")
    assert out == "r.html\n"
    assert sorted(file.name for file in Path().glob("r.*")) == ["r.html", "r.md", "r.methods.csv", "r.runs.csv"]
    assert command("report", str(odd), "output=s.html", "formats=[csv]")[0] == "s.runs.csv\n"  # which is there


def test_what_is_told_to_end_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "domadapt", "parse", "input=-", "output=out.conllu", f"paths.cache={tmp_path}/c"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path) as process:
        while not [*tmp_path.glob(".out.conllu.*")]:
            assert process.poll() is None
            process.stdin.write(b"The fan whines.\n" * 1000)
            process.stdin.flush()
        process.terminate()
        process.stdin.close()
        assert process.wait() == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["c"]
    assert not [*tmp_path.glob("*out.conllu*")]


def test_a_platform_that_nobody_has_tested_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("--version")[1] == ""
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    out, err = command("--version")
    assert err == "warning: tested on Linux x86-64 alone; this is Linux arm64\n" and out.strip()


def test_a_threshold_leaves_out_what_is_unsure_and_tells_what_that_costs(command: Command) -> None:
    model = finished("classification")
    sure = json.loads(command("predict", f"model={model}", "text=The lens is great.")[0])["confidence"]
    out, err = command("predict", f"model={model}", "text=The lens is great.", f"threshold={sure - 1e-3}")
    assert json.loads(out)["label"] is not None
    cost = r"from [\d.]+: precision (?:\d+ %|none found), recall (?:\d+ %|none annotated) on \d+ held-out texts"
    assert len(re.findall(cost, err)) == 2
    out, _ = command("predict", f"model={model}", "text=The lens is great.", f"threshold={min(1, sure + 1e-3)}")
    assert json.loads(out)["label"] is None
    command("guide", f"model={finished('extraction')}", "to=guided", "terms=[lens]", "types=[aspect]")
    assert "are not known of this model" in command("predict", "model=guided", "text=Hm.", "threshold=0.5")[1]
    for wrong, told in (
        ("threshold={nice: 0.5}", "threshold.nice: the model has no such label or type; expected one of"),
        ("threshold={nice, so: 0.5}", "threshold.nice, so: the model has no such label or type; expected one of"),
        ("threshold=60", "threshold=60: expected a number from 0 to 1"),
        ("threshold={positive: 0.5, positive: 0.9}", "threshold.positive: is given twice"),
        ("trust_code=no", "trust_code='no': expected true or false"),  # a word to Hydra, and words are true to Python
    ):
        out, err = command("predict", f"model={model}", "text=Hm.", wrong, code=2)
        assert out == "" and told in err


def test_a_sample_whose_prompt_could_not_be_written_can_be_asked_for_again(
    command: Command, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        if path.name.endswith(".prompt.txt"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_atomic(path, text)

    Path("texts.txt").write_text("The lens is sharp.\nThe battery is bad.\n", encoding="utf-8")
    asked = ["sample", f"model={tiny_run}", "input=texts.txt", "output=ask.jsonl", "count=2"]
    with monkeypatch.context() as patch:
        patch.setattr("domadapt.cli.labelling.write_atomic", full)
        command(*asked, code=2)
    assert "2 of 2 texts" in command(*asked)[0]


@pytest.mark.parametrize(
    "given", [["-m", "seed=1,2"], ["seed=1"], ["hydra.mode=MULTIRUN"], ["--config-dir=own"], ["-cd", "own"]]
)
def test_hydra_composes_once_unless_a_yaml_may_ask_for_a_sweep(given: list[str]) -> None:
    whole = Hydra.get_mode
    with cli.composed_once(given):
        assert (Hydra.get_mode is whole) == given[0].startswith(("hydra", "--config", "-c"))
    assert Hydra.get_mode is whole
