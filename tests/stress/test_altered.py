"""Altered run folders: each is left out by name, and the others are reported, studied, resumed."""

import copy
import json
import math
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from domadapt.reporting.report import report
from domadapt.runs.groups import NEEDED, group, read_metrics, read_runs
from domadapt.runs.status import read_results, set_aside
from domadapt.statistics.compare import compare

GOOD = Path(__file__).parents[1] / "runs" / "finished_run.json"
NUMBERS = [math.nan, math.inf, -math.inf, -3, 1e300, 10**400]
OTHERS: list[Any] = ["words", [], [1], {"a": "b"}, None, True]


@cache
def content() -> dict[str, Any]:
    """A small metrics.json with something in every field."""
    made: dict[str, Any] = json.loads(GOOD.read_text(encoding="utf-8"))
    choice = {"epoch": 1, "target_test": {made["headline"]: 0.5}}
    made["selection"] = {"validator": "last", "epoch": 1, "gap": 0.0, "choices": {"last": choice, "oracle": choice},
                         "target_curve": [0.5, 0.4]}  # fmt: skip
    made["counts"] |= {"truncated": {"test": {"texts": 1, "words": 2}}, "warnings": {"odd": 1}}
    bins = [{"confidence": 0.5, "accuracy": 0.5, "count": 3}]
    off = dict.fromkeys(("error", "scaled_error", "source_dev_error", "source_dev_scaled_error"), 0.1)
    made["calibration"] = {"bins": bins, "temperature": 1.5, **off}
    made["expected"] = {"score": 0.5, "low": 0.4, "high": 0.6, "estimate": "counts", "usual_error": 0.02,
                        "temperature": 1.5, "texts": 3, "estimates": {"counts": {made["headline"]: 0.5}}}  # fmt: skip
    return made | {"target_test_sizes": {"all": 4, "clean": 4}}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be altered: everywhere, but of free-form fields only near the top."""
    if at:
        yield at
    free = at[:1] in (("config",), ("versions",), ("hardware",), ("stages",))
    if isinstance(value, dict) and not (free and len(at) > 1):
        for name, inner in value.items():
            yield from places(inner, (*at, name))
    if isinstance(value, list) and value:
        yield from places(value[0], (*at, 0))


def altered(at: tuple[Any, ...], put: Callable[[dict[str, Any], Any], None]) -> dict[str, Any]:
    made = copy.deepcopy(content())
    inner: Any = made
    for name in at[:-1]:
        inner = inner[name]
    put(inner, at[-1])
    return made


def variants(at: tuple[Any, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    for value in (*NUMBERS, *OTHERS):
        yield f"{value!r:.9}", altered(at, lambda inner, name, v=value: inner.__setitem__(name, v))  # type: ignore[misc]
    yield "missing", altered(at, lambda inner, name: inner.pop(name))


@pytest.mark.parametrize("at", [*places(content())], ids=lambda at: ".".join(map(str, at)))
def test_an_altered_field_is_refused_by_name_or_harmless(at: tuple[Any, ...], tmp_path: Path) -> None:
    """Whatever stands in it; numbers out of range, NaN and infinity are refused wherever a report counts with them."""
    path, refused = tmp_path / "metrics.json", set()
    is_number = type(_at(content(), at)) in (int, float)
    for name, made in variants(at):
        path.write_text(json.dumps(made), encoding="utf-8")
        try:
            run = read_metrics(path)
        except ValueError as error:
            assert str(path) in str(error) and "run that cell again" in str(error)
            assert at == ("format",) or read_results(tmp_path, made.get("key")) is None  # type: ignore[arg-type]
            refused.add(name)
            continue
        other = read_metrics(GOOD)
        assert compare(group([other, run]), "source_only")
    assert {"nan", "inf", "-inf"} <= refused
    if at[0] in NEEDED:
        assert "missing" in refused or len(at) > 1
    if is_number and at[0] not in ("config", "hardware", "stages", "versions", "seed"):
        assert {"1e+300", "'words'", "[]"} <= refused, refused


def _at(value: Any, at: tuple[Any, ...]) -> Any:
    for name in at:
        value = value[name]
    return value


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "without_its_end": lambda path: path.write_bytes(path.read_bytes()[:-2]),
    "no_json": lambda path: path.write_text("Domain adaptation\n", encoding="utf-8"),
    "a_list": lambda path: path.write_text("[1, 2]", encoding="utf-8"),
    "bytes": lambda path: path.write_bytes(bytes(range(256))),
    "deep": lambda path: path.write_text("[" * 100_000, encoding="utf-8"),
    "huge_number": lambda path: path.write_text('{"format": ' + "9" * 5000 + "}", encoding="utf-8"),
    "another_format": lambda path: path.write_text(json.dumps(content() | {"format": 99}), encoding="utf-8"),
    "nan_score": lambda path: path.write_text(json.dumps(content() | {"target_test": _scores(math.nan)})),
    "infinite_score": lambda path: path.write_text(json.dumps(content() | {"target_test": _scores(math.inf)})),
    "percent": lambda path: path.write_text(json.dumps(content() | {"target_test": _scores(52.0)})),
    "no_headline": lambda path: path.write_text(json.dumps(content() | {"headline": "bleu"})),
    "no_key": lambda path: path.write_text(json.dumps({k: v for k, v in content().items() if k != "role"})),
    "a_folder": lambda path: (path.unlink(), path.mkdir(), (path / "inside").touch()),
}


def _scores(score: float) -> dict[str, float]:
    return {content()["headline"]: score}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sound runs, and one of each damage."""
    picks = {name: {"epoch": 1, "target_test": _scores(0.5)} for name in ("last", "entropy", "oracle")}
    for seed in (1, 2):
        sound = content() | {"seed": seed, "method": "source_only", "role": "source_only", "key": f"{seed}"}
        sound["selection"] = content()["selection"] | {"choices": picks}
        (tmp_path / "runs" / f"sound-{seed}").mkdir(parents=True)
        (tmp_path / "runs" / f"sound-{seed}" / "metrics.json").write_text(json.dumps(sound), encoding="utf-8")
    for name, damage in DAMAGE.items():
        shutil.copytree(tmp_path / "runs" / "sound-1", tmp_path / "runs" / name)
        damage(tmp_path / "runs" / name / "metrics.json")
    return tmp_path / "runs"


def test_damaged_runs_are_left_out_of_report_by_name(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = read_runs(folder)
    assert [Path(run.folder).name for run in found.runs] == ["sound-1", "sound-2"]
    assert len(found.skipped) == len(DAMAGE)
    report(folder, folder / "report.html", ("html", "markdown", "csv"))
    for name in DAMAGE:
        damaged = f"{folder / name / 'metrics.json'}"
        assert any(damaged in message and "left out" in message for message in caplog.messages)
        assert f"{name}/metrics.json" in (folder / "report.md").read_text(encoding="utf-8").replace("\\", ""), name
    assert "p=0" not in (folder / "report.md").read_text(encoding="utf-8").replace(" ", "").replace("p=0.", "")


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_result_is_set_aside_and_the_run_made_again(
    folder: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = folder / name
    try:
        key = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["key"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        key = "1"
    assert read_results(run, key) is None
    (run / "metrics.json.damaged").mkdir()  # from another time
    (run / "metrics.json.damaged" / "inside").touch()
    set_aside(run)
    assert not (run / "metrics.json").exists()
    assert (run / "metrics.json.damaged").exists()
    assert str(run / "metrics.json") in caplog.text and "the run is made again" in caplog.text


def test_results_of_another_run_are_not_overwritten(folder: Path) -> None:
    assert read_results(folder / "sound-1", "1") is not None
    with pytest.raises(ValueError, match="holds the results of another run"):
        read_results(folder / "sound-1", "2")
