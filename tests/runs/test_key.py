"""A cell's key: everything that changes its numbers, and nothing else."""

import importlib.metadata
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import domadapt
from domadapt.config.compose import compose
from domadapt.runs import key
from domadapt.runs.key import cell_key, foreign_code, run_folder
from domadapt.training.options import read_options
from tests.support import ran

REPOSITORY = Path(__file__).parents[2]
SPANS, CLASSES = (["data=camera_laptop", f"task={task}"] for task in ("extraction", "classification"))
CELLS = {
    "source_only": SPANS,
    "lisa": [*SPANS, "injection=lisa"],
    "gnn": [*SPANS, "injection=gnn"],
    "lisa_gnn": [*SPANS, "injection=[lisa,gnn]"],
    "shuffled": [*SPANS, "injection=lisa", "control=shuffled"],
    "masked_lm": [*SPANS, "adaptation=masked_lm"],
    "rnn": [*SPANS, "backbone=rnn_from_scratch"],
    "installed": [*SPANS, "parser=spacy"],
    "infomax": [*SPANS, "selection=infomax"],
    "labels": CLASSES,
    "labels_lisa": [*CLASSES, "injection=lisa"],
    "files": ["data=my_files", "task=auto"],
}
ALL = set(CELLS)
Keys = Callable[[], dict[str, str]]


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the corpora and the parser that travel with the package."""
    shutil.copytree(REPOSITORY / "data", tmp_path / "shipped", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(key, "shipped", lambda: tmp_path / "shipped")
    return tmp_path / "shipped"


@pytest.fixture(scope="module")
def configs() -> dict[str, Any]:
    return {name: compose("train", overrides) for name, overrides in CELLS.items()}


@pytest.fixture
def keys(configs: dict[str, Any]) -> Iterator[Keys]:
    def ask() -> dict[str, str]:
        key.installed.cache_clear()
        return {name: cell_key(config) for name, config in configs.items()}

    yield ask
    key.installed.cache_clear()


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text(encoding="utf-8") if path.exists() else "") + text, encoding="utf-8")


def test_cells_and_code_that_differ_have_keys_that_differ(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys()
    assert len(set(before.values())) == len(CELLS)
    monkeypatch.setattr(key, "NUMERICS", key.NUMERICS + 1)
    assert changed(before, keys()) == ALL


@pytest.mark.parametrize(
    ("file", "cells"),
    [
        ("camera/CARD.md", set()),
        ("hotel/train.jsonl", set()),
        ("parser/train.cfg", set()),
        ("laptop/test.jsonl", ALL - {"files"}),
        ("parser/model/meta.json", ALL - {"labels", "installed"}),
    ],
)
def test_a_file_that_is_read_counts_and_no_other(shipped: Path, keys: Keys, file: str, cells: set[str]) -> None:
    before = keys()
    append(shipped / file, "\nNEW = 1\n")
    assert changed(before, keys()) == cells


EXTRA = "trainer.extra_epochs=2"


def test_source_only_takes_no_additional_epochs() -> None:
    plain, more = (compose("train", [*CELLS["lisa"], "injection=none", *given]) for given in ([], [EXTRA]))
    assert cell_key(plain) == cell_key(more) and read_options(more).epochs == plain.trainer.epochs
    assert read_options(compose("train", [*CELLS["lisa"], EXTRA])).epochs == plain.trainer.epochs + 2


@pytest.mark.parametrize(
    ("override", "counts"),
    [
        ("seed=7", True),
        ("trainer.learning_rate=0.1", True),
        ("trainer.extra_epochs=1", True),
        ("selection=entropy", True),
        ("trainer.threads=0", False),
        ("trainer.threads=2", True),  # threads change roundings
        ("trainer.threads=3", True),
        ("trainer.weight_decay=0.5", True),
        ("paths.runs=elsewhere", False),
        ("target_labels=1", True),
        ("tracking=csv", False),
        ("launcher=joblib", False),
        ("sweeper=grid", False),
        ("method=called_otherwise", False),
    ],
)
def test_what_changes_numbers_counts(configs: dict[str, Any], override: str, counts: bool) -> None:
    changed = cell_key(compose("train", [*CELLS["lisa"], override]))
    assert (changed != cell_key(configs["lisa"])) == counts


VERSIONS = {**dict.fromkeys(key.NUMERIC, ALL), "en_core_web_sm": {"installed"}}  # libraries, and a pipeline


@pytest.mark.parametrize("package", VERSIONS)
def test_another_version_is_another_cell(keys: Keys, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = keys(), importlib.metadata.version
    monkeypatch.setattr(key, "version", lambda name: "0.0" if name == package else real(name))
    assert changed(before, keys()) == VERSIONS[package]


def test_hardware_counts_by_what_settings_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(*overrides: str) -> str:
        return cell_key(compose("train", overrides))

    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    plain = on()
    assert on("trainer.device=cpu", "trainer.precision=32") == plain == on("trainer.hardware=cpu 32-true")
    half = on("trainer.precision=bf16-mixed")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    assert on() == half != plain
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A")
    first = on()
    assert first == on("trainer.hardware=cuda A bf16-mixed")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "B")
    assert len({plain, half, first, on(), on("trainer.device=cpu", "trainer.precision=32")}) == 4


def test_a_cell_is_not_run_on_hardware_that_its_key_does_not_say(tmp_path: Path) -> None:
    given = ["data=hotel_laptop", "trainer.hardware=cuda A bf16-mixed", f"paths.run={tmp_path}"]
    with pytest.raises(ValueError, match=r"trainer.hardware='cuda A bf16-mixed': expected null or .* 'cpu "):
        domadapt.train(given)


def test_a_strangers_method_counts_with_what_it_may_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path / "stranger_file.py", "def f(): ...\n")
    append(tmp_path / "stranger_package" / "deep" / "mine.py", "def f(): ...\n")
    append(tmp_path / "site-packages" / "stranger_installed.py", "")
    append(tmp_path / "site-packages" / "neighbour.py", "")
    for folder in (tmp_path, tmp_path / "site-packages"):
        monkeypatch.syspath_prepend(str(folder))
    for target, file, counts in (
        ("stranger_file.f", "stranger_file.py", True),
        ("stranger_file.f", "beside.py", True),
        ("stranger_package.deep.mine.f", "stranger_package/deep/other.py", True),
        ("stranger_package.deep.mine.f", "beside.py", False),
        ("stranger_installed.f", "site-packages/neighbour.py", False),
    ):
        config = compose("train", [f"+injection.mine={{_target_: {target}}}"])
        before = cell_key(config)
        append(tmp_path / file, "NEW = 1\n")
        assert (cell_key(config) != before) == counts, (target, file)
    config = compose("train", [f"+injection.mine={{_target_: stranger_file.f, whatever: {tmp_path}/words.csv}}"])
    (keys := set()).add(cell_key(config))
    for content in ("a\n", "b\n"):  # a file that a setting names, whatever the setting is called
        (tmp_path / "words.csv").write_text(content)
        keys.add(cell_key(config))
    assert len(keys) == 3
    assert foreign_code("builtins.dict") == foreign_code("nowhere.f") == []


def test_a_runs_folder_needs_no_quotes(tmp_path: Path) -> None:
    folder = run_folder(compose("train", [f"paths.runs={tmp_path}", "seed=3"]))
    assert "=" not in folder.name and folder.name.startswith("seed3-")
    for path in (str(folder), "données (2)/it's, new=1", "папка"):
        assert compose("train", [f"paths.run={path}"]).paths.run == path


def test_corpora_in_a_folder_of_ones_own_count_as_the_shipped_ones(shipped: Path) -> None:
    config = compose("train", ["data=camera_laptop", f"data.root={shipped}"])
    before = cell_key(config)
    assert before == cell_key(compose("train", ["data=camera_laptop"]))
    append(shipped / "hotel/train.jsonl", "{}\n")
    assert cell_key(config) == before
    append(shipped / "camera/train.jsonl", "{}\n")
    assert cell_key(config) != before


FILES = ["data=my_files", *(f"{name}={{}}/a" for name in ("source.path", "target.path", "target.test_path"))]


WORDS = ["adaptation=guidelines", "adaptation.guidelines.terms=a"]
PLACED = [FILES, ["parser=conllu", "parser.path={}/a"], ["parser.target={}"], WORDS]
PLACED += [[f"{name}=folder"] for name in ("backbone.name", "parser.name", "parser.source")]  # of the working folder


@pytest.mark.parametrize("named", PLACED)
def test_files_and_folders_count_by_their_content_wherever_they_lie(
    tmp_path: Path, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys() -> list[str]:
        found = []
        for place, config in configs.items():
            monkeypatch.chdir(place)
            found.append(cell_key(config))
        return found

    places, files = (tmp_path / "one", tmp_path / "copy"), ("a", "folder/config.json", "folder/config.cfg")
    for path in (place / file for place in places for file in files):
        append(path, "# text = a\n")
    configs = {place: compose("train", [word.format(place) for word in named]) for place in places}
    before = keys()
    for file in files:
        append(tmp_path / "copy" / file, "# text = b\n")
    assert before[0] == before[1] == keys()[0] != keys()[1]


def test_another_process_has_the_same_key() -> None:
    program = "from domadapt import compose; from domadapt.runs import key\n"
    program += "print(key.cell_key(compose('train', ['injection=lisa'])))"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    assert ran(program, env=env).strip() == cell_key(compose("train", ["injection=lisa"]))
