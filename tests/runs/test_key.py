"""A cell's key: everything that changes its numbers, and nothing else. Tried on a copy of the package."""

import ast
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hydra.utils import get_object
from omegaconf import DictConfig

import domadapt
from domadapt.config.compose import compose
from domadapt.runs import code, content, key, provenance
from domadapt.runs.foreign import foreign_code
from domadapt.runs.key import cell_key, run_folder

REPOSITORY = Path(__file__).parents[2]
CELLS = {
    "source_only": [],
    "lisa": ["injection=lisa"],
    "gnn": ["injection=gnn"],
    "lisa_gnn": ["injection=[lisa,gnn]"],
    "shuffled": ["injection=lisa", "control=shuffled"],
    "masked_lm": ["adaptation=masked_lm"],
    "rnn": ["backbone=rnn_from_scratch"],
    "infomax": ["selection=infomax"],
    "labels": ["task=classification"],
    "labels_lisa": ["task=classification", "injection=lisa"],
    "files": ["data=my_files", "task=auto"],
}
ALL = set(CELLS)
LISA = {"lisa", "lisa_gnn", "shuffled", "labels_lisa"}
Keys = Callable[[], dict[str, str]]


@pytest.fixture(scope="module")
def configs() -> dict[str, DictConfig]:
    told = {name: any(given.startswith("task=") for given in overrides) for name, overrides in CELLS.items()}
    return {
        name: compose("train", [*overrides, *([] if told[name] else ["task=extraction"])])
        for name, overrides in CELLS.items()
    }


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel lays it out."""
    home = tmp_path_factory.mktemp("site") / "domadapt"
    for folder, place in (("domadapt", home), ("conf", home / "conf"), ("data", home / "shipped")):
        shutil.copytree(REPOSITORY / folder, place, ignore=shutil.ignore_patterns("__pycache__"))
    return home


@pytest.fixture
def house(copy: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The copy, which keys are taken of; what a test changes in it is put back."""
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    monkeypatch.setattr(code, "PACKAGE", copy)
    for module in (content, key):
        monkeypatch.setattr(module, "shipped", lambda: copy / "shipped")
    forget()
    yield copy
    for path in set(copy.rglob("*")) - before.keys():
        if path.is_file():
            path.unlink()
    for path, text in before.items():
        if not path.is_file() or path.read_bytes() != text:
            path.write_bytes(text)
    forget()


def forget() -> None:
    """What a process keeps of the code it has seen, and of installed packages."""
    for function in (code.code, code._public, provenance.installed):
        function.cache_clear()


@pytest.fixture
def keys(house: Path, configs: dict[str, DictConfig]) -> Keys:
    def ask() -> dict[str, str]:
        forget()
        return {name: cell_key(config) for name, config in configs.items()}

    return ask


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text(encoding="utf-8") if path.exists() else "") + text, encoding="utf-8")


def test_cells_that_differ_have_keys_that_differ(keys: Keys) -> None:
    assert len(set(keys().values())) == len(CELLS)


@pytest.mark.parametrize(
    "file",
    [
        "methods/injection/new.py",
        "methods/adaptation/new.py",
        "selection/new.py",
        "selection/oracle.py",  # nobody chose it
        "syntax/conllu.py",
        "data/joint_absa.py",
        "reporting/report.py",
        "auditing/audit.py",
        "training/unlabelled.py",
        "reporting/target_card.py",
        "statistics/bootstrap.py",
        "benchmarking/plan.py",
        "bundling/bundle.py",
        "tracking/tracker.py",
        "runs/status.py",
        "inference/model.py",
        "cli/main.py",
        "api.py",
        "__init__.py",
        "conf/selection/new.yaml",
        "shipped/camera/CARD.md",
        "shipped/hotel/train.jsonl",
        "shipped/parser/train.cfg",
    ],
)
def test_what_a_cell_does_not_reach_runs_nothing_again(house: Path, keys: Keys, file: str) -> None:
    before = keys()
    append(house / file, "\nNEW = 1\n")
    assert changed(before, keys()) == set()


@pytest.mark.parametrize(
    ("file", "cells"),
    [
        ("methods/injection/lisa.py", LISA),
        ("methods/injection/gnn.py", {"gnn", "lisa_gnn"}),
        ("methods/adaptation/masked_lm.py", {"masked_lm"}),
        ("syntax/controls.py", {"shuffled"}),
        ("selection/infomax.py", {"infomax"}),
        ("selection/source_dev.py", ALL - {"infomax"}),
        ("models/bilstm.py", {"rnn"}),
        ("tasks/classification.py", {"labels", "labels_lisa", "files"}),  # files: the task is told by them
        ("tasks/extraction.py", ALL - {"labels", "labels_lisa"}),
        ("tasks/scores.py", ALL),
        ("data/records.py", ALL),
        ("data/readers/conll.py", ALL),  # found in its folder, by no import
        ("data/readers/new.py", ALL),  # and asked of every file
        ("training/fit.py", ALL),
        ("methods/__init__.py", ALL),
        ("shipped/laptop/test.jsonl", ALL - {"files"}),
        ("shipped/parser/model/meta.json", ALL - {"labels"}),
    ],
)
def test_what_it_reaches_runs_it_again_and_no_other(house: Path, keys: Keys, file: str, cells: set[str]) -> None:
    before = keys()
    append(house / file, "\nNEW = 1\n")
    assert changed(before, keys()) == cells


def test_docstrings_comments_and_layout_run_nothing_again(house: Path, keys: Keys) -> None:
    before = keys()
    for path in house.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                node.body[0] = ast.parse("'Otherwise said.'").body[0]
        path.write_text(f'"""Otherwise said."""\n# without comments\n\n{ast.unparse(tree)}\n', encoding="utf-8")
    assert changed(before, keys()) == set()


@pytest.mark.parametrize("package", provenance.NUMERIC)
def test_another_version_of_a_library_is_another_cell(
    keys: Keys, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = keys(), importlib.metadata.version
    monkeypatch.setattr(provenance, "version", lambda name: "0.0" if name == package else real(name))
    assert changed(before, keys()) == ALL


def test_an_installed_pipeline_counts_by_its_version(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose("train", ["parser=spacy"])
    before, real = cell_key(config), importlib.metadata.version
    monkeypatch.setattr(provenance, "version", lambda name: "0.0" if name == "en_core_web_sm" else real(name))
    forget()
    assert cell_key(config) != before


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
    given = ["trainer.hardware=cuda A bf16-mixed", f"paths.run={tmp_path}", f"paths.cache={tmp_path}"]
    with pytest.raises(ValueError, match=r"trainer.hardware='cuda A bf16-mixed': expected null or .* 'cpu "):
        domadapt.train(given)


def test_ours_that_foreign_code_imports_counts(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's method may stand on one of ours, or read with our readers."""
    append(tmp_path / "stranger" / "__init__.py", "")
    append(tmp_path / "stranger" / "mine.py", "def f():\n    from domadapt.methods.injection.lisa import Lisa\n")
    append(tmp_path / "strangers.py", "from domadapt import read\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    of_lisa = compose("train", ["data=my_files", "+injection.mine={_target_: stranger.mine.f}"])
    reads = compose("train", ["data=my_files", "+injection.mine={_target_: strangers.f}"])
    reads.data = {"_target_": "strangers.f", "pair": "a_to_b"}
    before = cell_key(of_lisa), cell_key(reads)
    append(house / "methods/injection/lisa.py", "\nNEW = 1\n")
    forget()
    lisa = cell_key(of_lisa), cell_key(reads)
    assert lisa[0] != before[0] and lisa[1] == before[1]
    append(house / "data/readers/conll.py", "\nNEW = 1\n")
    forget()
    assert cell_key(reads) != before[1]


def test_what_foreign_code_imports_from_beside_it_counts(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path / "loner.py", "def f():\n    from loner_helper import g\n")
    append(tmp_path / "loner_helper.py", "import json, torch, loner_far.deep\n")
    append(tmp_path / "loner_far" / "deep.py", "import loner\nfrom domadapt.methods.injection.lisa import Lisa\n")
    append(tmp_path / "other.py", "")
    append(tmp_path / "without_init" / "method.py", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = compose("train", ["+injection.mine={_target_: loner.f}"])
    plain = compose("train", ["+injection.mine={_target_: without_init.method.f}"])
    found = [cell_key(config)]
    for name in ("loner.py", "loner_helper.py", "loner_far/deep.py"):
        append(tmp_path / name, "\nNEW = 1\n")
        found.append(cell_key(config))
    append(house / "methods/injection/lisa.py", "\nNEW = 1\n")
    forget()
    found.append(cell_key(config))
    assert len(set(found)) == 5
    append(tmp_path / "other.py", "NEW = 1\n")
    assert cell_key(config) == found[-1]
    before = cell_key(plain)
    append(tmp_path / "without_init" / "method.py", "NEW = 1\n")
    assert cell_key(plain) != before


def test_of_an_installed_package_no_neighbour_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path / "site-packages" / "loner_installed.py", "import loner_neighbour\n")
    append(tmp_path / "site-packages" / "loner_neighbour.py", "")
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    assert [path.name for path in foreign_code("loner_installed.f")] == ["loner_installed.py"]
    assert foreign_code("builtins.dict") == foreign_code("nowhere.f") == []


def test_a_runs_folder_is_found_under_the_name_that_it_once_had(tmp_path: Path) -> None:
    config = compose("train", [f"paths.runs={tmp_path}", "seed=3"])
    folder = run_folder(config)
    assert "=" not in folder.name and folder.name.startswith("seed3-")
    assert compose("train", [f"paths.run={folder}"]).paths.run == str(folder)
    old = folder.with_name(folder.name.replace("seed3", "seed=3"))
    old.mkdir(parents=True)
    assert run_folder(config) == old


def test_corpora_in_a_folder_of_ones_own_count_as_the_shipped_ones(house: Path) -> None:
    config = compose("train", [f"data.root={house}/shipped"])
    before = cell_key(config)
    assert before == cell_key(compose("train"))
    append(house / "shipped/hotel/train.jsonl", "{}\n")
    assert cell_key(config) == before
    append(house / "shipped/camera/train.jsonl", "{}\n")
    assert cell_key(config) != before


def test_a_plan_reads_each_module_once(keys: Keys, configs: dict[str, DictConfig]) -> None:
    first = keys()
    read = code._read.cache_info().misses
    for name, config in configs.items():
        one = config.copy()
        one.seed = 2
        assert cell_key(one) != first[name]
    assert code._read.cache_info().misses == read > 50


def test_the_list_of_what_gives_no_number_is_short_and_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    short = code.reached([])
    assert not {name for name in short if any(f"{name}.".startswith(f"{other}.") for other in code.NO_NUMBERS)}
    assert len(code.NO_NUMBERS) < 8
    for name in code.NO_NUMBERS:
        with monkeypatch.context() as patch:
            patch.setattr(code, "NO_NUMBERS", code.NO_NUMBERS.keys() - {name})
            assert code.reached([]).keys() > short.keys(), f"{name}: the loop does not reach it"


def test_modules_are_found_by_import_but_where_it_is_known() -> None:
    """An import by a name made up at run time hides from the key: in these places it may."""
    hidden = {
        path.relative_to(REPOSITORY).as_posix()
        for path in (REPOSITORY / "domadapt").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id in ("import_module", "__import__", "iter_modules")
    }
    assert hidden == {
        "domadapt/__init__.py",  # public names, each to its module: `code` knows them
        "domadapt/benchmarking/search.py",  # optuna, to quieten it
        "domadapt/training/options.py",  # the data's function, which its ``_target_`` names: the key counts that
        "domadapt/data/readers/__init__.py",  # all that lie beside it: they count
        "domadapt/inference/description.py",  # a saved model's own methods: no run
    }


def test_names_in_the_key_are_names_of_objects() -> None:
    for name in (content.CORPORA, key.SPACY, key.READS_NO_WORDS):
        assert callable(get_object(name))
    assert callable(get_object(f"{code.LOOP}.train"))


def test_another_process_and_another_place_have_the_same_key(copy: Path) -> None:
    program = "import sys; from domadapt import compose; from domadapt.runs import key\n"
    program += "print(key.__file__, key.cell_key(compose('train', ['injection=lisa'])))"
    env = {**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-P", "-c", program]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    place, found = told.stdout.split()
    assert Path(place).is_relative_to(copy)
    assert found == cell_key(compose("train", ["injection=lisa"]))
