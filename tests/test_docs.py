"""README.md and docs/: every page is found, every link leads somewhere, and what is shown to be typed works."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from benchmarks import reference
from benchmarks.tables import PAGES, ROOT
from domadapt.cli.main import VERBS
from domadapt.config.compose import compose
from domadapt.config.overrides import adapting, check_words, positional, quote, several_trackers
from tests.support import Command, corpora

QUOTED = ("predict", "parse", "serve", "export")
DOCS, CONF = ROOT / "docs", ROOT / "conf"
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PAGES}
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILLED = re.compile(r"^% modules: \S+$", re.MULTILINE)  # a page that has more headings when it is built


def test_the_navigation_names_every_page_once() -> None:
    trees = [body for kind, body in BLOCK.findall(TEXTS["docs/index.md"]) if kind == "{toctree}"]
    named = [line for body in trees for line in body.splitlines() if line and not line.startswith(":")]
    pages = {name.removeprefix("docs/").removesuffix(".md") for name in TEXTS if name.startswith("docs/")}
    assert sorted(named) == sorted(pages - {"index"})


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    text = TEXTS[page]
    included = [kind.split()[-1] for kind, _ in BLOCK.findall(text) if re.match(r"\{(literal)?include\}", kind)]
    for link in [*LINK.findall(BLOCK.sub("", text)), *included]:
        name, _, anchor = link.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        if "://" not in link:
            assert path.is_file(), f"{page}: {link}: no such file"
            whole = path.read_text(encoding="utf-8") if anchor else ""
            known = not anchor or FILLED.search(whole) or anchor in set(_anchors(whole))
            assert known, f"{page}: {link}: no such heading"


def _anchors(text: str) -> Iterator[str]:
    for line in BLOCK.sub("", text).splitlines():
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower())
            yield words.replace(" ", "-")


@pytest.mark.parametrize("page", [page for page in TEXTS if "domadapt.train(" in TEXTS[page]])
def test_what_is_shown_in_python_composes(page: str) -> None:
    """Every list of overrides is one that `domadapt.train` takes."""
    blocks = [ast.parse(body) for kind, body in BLOCK.findall(TEXTS[page]) if kind == "python"]
    nodes = [node for block in blocks for node in ast.walk(block)]
    names = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "domadapt.train"]
    assert calls
    for call in calls:
        assert isinstance(call.args[0], ast.List)
        overrides = list[str]()
        for item in call.args[0].elts:
            spread = isinstance(item, ast.Starred)
            value = ast.literal_eval(names[ast.unparse(item.value)] if isinstance(item, ast.Starred) else item)
            overrides += value if spread else [value]
        compose("train", overrides)


def _commands(text: str) -> Iterator[list[str]]:
    for kind, body in BLOCK.findall(text):
        for line in body.replace("\\\n", " ").splitlines() if not kind else ():
            if line.startswith("domadapt ") and "--config-dir" not in line:
                yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("page", [page for page in TEXTS if any(_commands(TEXTS[page]))])
def test_what_is_shown_to_be_typed_composes(page: str) -> None:
    for verb, *words in _commands(TEXTS[page]):
        assert verb in VERBS
        if verb == "adapt":
            verb, words = "train", adapting(words)
        words = positional(verb, several_trackers(words))
        check_words(verb, words)
        if "launcher=ray" in words:  # an extra that is not installed for tests
            continue
        if "-m" in words:  # one value of each that is swept over
            swept = [word.partition("=") for word in words if word != "-m" and "(" not in word]
            words = [f"{name}={value.split(',')[0]}" for name, _, value in swept]
        compose(verb, [quote(word) for word in words] if verb in QUOTED else words)


def _leaves(node: Any, prefix: str) -> Iterator[str]:
    for key, value in node.items_ex(resolve=False):
        name = f"{prefix}{key}"
        if isinstance(value, DictConfig) and len(value):
            yield from _leaves(value, f"{name}.")
        elif key not in ("defaults", "_target_"):
            yield name


def test_every_setting_has_its_line() -> None:
    asked = re.findall(r"^<!-- settings: (\w+) -->$", TEXTS["docs/settings.md"], re.MULTILINE)
    groups = {path.name for path in CONF.iterdir() if path.is_dir() and any(path.glob("*.yaml"))} - {"experiment"}
    assert sorted(asked) == sorted({path.stem for path in CONF.glob("*.yaml")} | groups)
    for path in [*CONF.glob("*.yaml"), *(file for group in groups for file in (CONF / group).glob("*.yaml"))]:
        name = path.stem if path.parent == CONF else path.parent.name
        config = OmegaConf.load(path)
        lines = reference.settings(name)
        whole = path.parent == CONF or "@package _global_" in path.read_text(encoding="utf-8")
        prefix = "" if whole or name in ("launcher", "sweeper") else f"{name}."
        for key in _leaves(config, prefix) if isinstance(config, DictConfig) else ():
            own = key.startswith("hydra.") and not key.startswith(("hydra.launcher.", "hydra.sweeper."))
            own = own or key == "selection.name"  # says what the choice says
            assert own or re.search(rf"`{re.escape(key)}[`.]", lines) or _flow(lines, key), f"{path}: {key}"


def _flow(lines: str, key: str) -> bool:
    """A key within braces on one line stands in the value of the setting above it."""
    return f"`{key.rpartition('.')[0]}`" in lines


def test_settings_of_one_comment_share_a_line_and_choices_have_their_titles() -> None:
    lines = reference.settings("trainer").splitlines()
    assert "How training runs. The same budget serves every method." in lines
    assert "| `trainer.device` | `auto` | auto (a GPU if there is one), cpu or cuda. |" in lines
    [shared] = [line for line in lines if "`trainer.warmup`" in line]
    assert shared.startswith(
        "| `trainer.learning_rate`<br>`trainer.weight_decay`<br>`trainer.warmup` | `2.0e-4`<br>`0."
    )
    assert "- **`injection=none`**: No syntax." in reference.choices("injection").splitlines()
    with pytest.raises(ValueError, match="settings: nowhere: no such file or folder in conf/"):
        reference.settings("nowhere")


def test_the_method_that_is_shown_trains(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DOCS / "examples" / "own_method"
    monkeypatch.syspath_prepend(folder)
    places = [f"--config-dir={folder / 'conf'}", f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"]
    code, _, told = command("train", *places, "adaptation=least_entropy", *corpora(tmp_path))
    assert code == 0, told
    curve = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))["curve"]
    assert 0 < curve[-1]["losses"]["entropy"] < 10
