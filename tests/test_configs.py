"""Every yaml says in its first line what it is for, composes, names only what exists; every experiment runs."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from hydra.utils import get_object
from omegaconf import OmegaConf

from domadapt.benchmarking.loop import benchmark, cells
from domadapt.config.compose import compose, groups, make, settings
from domadapt.config.overrides import lengthen
from domadapt.config.resolvers import AUTO, RECIPE
from domadapt.utils.text import nested_values
from tests.support import CONF, Command, records, write_csv, write_jsonl, write_texts

FILES = sorted(CONF.rglob("*.yaml"))
NAMES = [str(path.relative_to(CONF)) for path in FILES]
OPTIONS = [(path.parent.name, path.stem) for path in FILES if path.parent != CONF]


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_the_first_line_is_a_comment_and_every_target_exists(path: Path) -> None:
    """That there is one above every key: tests/test_docs.py."""
    assert path.read_text(encoding="utf-8").startswith("# "), f"{path}: the first line says what the file is for"
    for part in nested_values(OmegaConf.to_container(OmegaConf.load(path), resolve=False)):
        assert not isinstance(part, dict) or callable(get_object(part.get("_target_", "builtins.dict"))), part


@pytest.mark.parametrize("verb", sorted(path.stem for path in CONF.glob("*.yaml")))
def test_every_verb_composes(verb: str) -> None:
    assert OmegaConf.to_container(compose(verb), resolve=True)


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_composes_into_a_run(group: str, option: str) -> None:
    added = "" if group in dict(groups("train")) else "+"  # debug, say, is no part of a usual run
    if option == "ray" and find_spec("ray") is None:  # no part of the extra `dev`: it is large
        with pytest.raises(ValueError, match=r"launcher=ray is an extra: pip install 'domadapt\[ray\]'"):
            compose("train", [f"{added}{group}={option}"])
        return
    config = compose("train", [f"{added}{group}={option}"])
    OmegaConf.to_container(config, resolve=True)
    assert config.pair
    assert config.method


EXPERIMENTS = sorted(p.stem for p in (CONF / "experiment").glob("*.yaml") if "benchmark:" in p.read_text("utf-8"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_matrix_composes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOMADAPT_BENCHMARK_DATA", raising=False)
    overrides = [f"experiment={name}", "benchmark.seeds=[1]"]
    matrix = settings(compose("benchmark", overrides), "benchmark")
    assert matrix.benchmark["experiment"] == name
    names, pairs = [*matrix.benchmark["methods"]], matrix.benchmark["pairs"]  # there, so that it can be set
    if pairs:
        assert len(set(map(str, pairs))) == len(pairs)
        matrix.benchmark["pairs"] = pairs[:1]
    every_method = cells(matrix, [])
    matrix.benchmark |= {"pairs": pairs and [pairs[0], pairs[-1]], "only": names[:1]}
    two_pairs = cells(matrix, [])
    assert len({cell.pair for cell in two_pairs}) == len(two_pairs)
    methods = matrix.benchmark["methods"].items()
    called = [next((o.partition("=")[2] for o in given if o.startswith("method=")), name) for name, given in methods]
    assert [cell.config["method"] for cell in every_method] == called
    for cell in (*two_pairs, *every_method):
        if cell.config["task"]["_target_"] != AUTO:  # which the data tells
            make(cell.config["task"])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_control_differs_from_its_method_in_the_trees_alone(name: str) -> None:
    block = compose("benchmark", [f"experiment={name}"]).benchmark
    controlled = block.get("controls") or {}
    assert controlled.keys() <= block.methods.keys()
    for method, controls in controlled.items():
        assert len(controls) > 1  # one of them neutral: what beats only a harmful one has not gained
        assert f"{method}@linear" in controls
        for control in controls:
            assert [*block.methods[control]] == [*block.methods[method], f"control={control.partition('@')[2]}"]


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "recipe"),
        (["adaptation=[recipe,guidelines]"], "recipe+guidelines"),
        (["injection=gnn"], "recipe+gnn"),
        (["injection=gnn", "control=shuffled"], "recipe+gnn@shuffled"),
        (["target_labels=8"], "recipe+8_labels"),
        (["adaptation=term_substitution"], "term_substitution"),
        (["experiment=shipped", "trainer.epochs=2"], "recipe"),
    ],
)
def test_one_switch_is_the_recipe_wherever_it_is_used(overrides: list[str], name: str) -> None:
    """It sets methods, epochs and selection, which the command line may change."""
    cfg = compose("train", ["adaptation=recipe", "data=hotel_laptop", *overrides])
    assert cfg.method == name
    if name.startswith("recipe"):
        assert {*RECIPE} <= {*cfg.adaptation} and cfg.selection.name == "last"
        assert cfg.trainer.extra_epochs == 1 and cfg.adaptation.self_training.average
        assert cfg.adaptation.averaging.start == 0.5
    for given, expected in (("trainer.extra_epochs=0", 0), ("trainer.extra_epochs=5", 5)):
        assert compose("train", ["adaptation=recipe", given]).trainer.extra_epochs == expected
    assert compose("train", ["adaptation=recipe", "selection=source_dev"]).selection.name == "source_dev"


def test_my_matrix_runs_as_soon_as_paths_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(tmp_path / "a.csv", records("camera", 16))
    write_texts(tmp_path / "b.txt", records("laptop", 10, 5))
    given = ["experiment=my_matrix", f"source.path={tmp_path}/a.csv", f"target.path={tmp_path}/b.txt"]
    small = ["backbone=tiny_random", "trainer.epochs=1", "trainer.device=cpu", "benchmark.seeds=[1]", "source.name=a"]
    small.append("trainer.min_steps=0")
    less = ["benchmark.only=[source_only,masked_lm]"]
    overrides = [lengthen(o) for o in [*given, *small, *less, f"paths.runs={tmp_path}/runs"]]
    done = benchmark(settings(compose("benchmark", overrides), "benchmark"), overrides)
    assert [metrics["method"] for metrics in done] == ["source_only", "masked_lm"]
    assert all(metrics["target_test"] is None for metrics in done)
    assert {(metrics["source"], metrics["target"]) for metrics in done} == {("a", "target")}
    assert "masked_lm" in capsys.readouterr().out


def test_a_pair_may_be_a_list_of_overrides(tmp_path: Path) -> None:
    for name in ("hotels", "spas"):
        write_jsonl(tmp_path / f"{name}.jsonl", records(name, 4))
    source = f'"source.name=hotels","source.path={tmp_path}/hotels.jsonl"'
    target = f'"target.name=spas","target.path={tmp_path}/spas.jsonl"'
    overrides = ["experiment=my_matrix", f"benchmark.pairs=[[{source},{target}]]", "benchmark.seeds=[1]"]
    found = cells(settings(compose("benchmark", overrides), "benchmark"), overrides)
    assert {cell.pair for cell in found} == {"hotels_to_spas"}
    assert {cell.config["data"]["source"]["path"] for cell in found} == {f"{tmp_path}/hotels.jsonl"}


def test_a_copy_of_my_matrix_is_an_experiment(command: Command, tmp_path: Path) -> None:
    """As its comment says: another name in the file, and the folder on the command line."""
    text = (CONF / "experiment" / "my_matrix.yaml").read_text(encoding="utf-8")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "hotels.yaml").write_text(text.replace("my_matrix", "hotels"), encoding="utf-8")
    given = ["benchmark", "--config-dir", str(tmp_path), "experiment=hotels", "--cfg", "job", "--package", "benchmark"]
    shown, _ = command(*given)
    assert yaml.safe_load(shown)["experiment"] == "hotels"


class Own:
    """A class as a stranger's: a path from a text, a tuple from a list, a function from settings of its own."""

    def __init__(self, path: Path, inner: Callable[[], int], kinds: tuple[str, ...], names: list[str]) -> None:
        self.path = path / "a"  # a text has no such operator


class Unfound(type):
    """As annotations are in Python 3.14 whose types are imported for type checkers alone."""

    @property
    def __signature__(cls) -> None:
        raise NameError("name 'Session' is not defined")


class OfUnfound(metaclass=Unfound):
    """Of such annotations."""


def test_an_error_of_ones_own_class_blames_no_setting_that_fits() -> None:
    inner = {"_target_": "builtins.int", "_partial_": True}
    own = {"_target_": f"{__name__}.Own", "path": "a.txt", "kinds": ["a"], "inner": inner, "names": None}
    for more, told in (({"name": 1}, "unexpected keyword argument 'name'"), ({}, "unsupported operand")):
        with pytest.raises(ValueError, match=rf"names=None: expected list\[str\]; .*{told}") as error:
            make(own | more)
        assert "expected Path" not in str(error.value) and "Callable" not in str(error.value)
    assert isinstance(make({"_target_": f"{__name__}.OfUnfound"}), OfUnfound)
