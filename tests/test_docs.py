"""README.md and docs/: every page is found, every link leads somewhere, what is shown to be typed works."""

import ast
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from benchmarks import reference
from benchmarks.tables import PAGES, ROOT
from domadapt.cli.main import VERBS
from domadapt.config.compose import compose
from domadapt.config.overrides import check_words, positional, quote, several_trackers, train_arguments
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
            verb, words = "train", train_arguments(words)
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
        elif key not in ("defaults", "_target_", "_partial_", "needs"):
            yield name


def test_every_setting_has_its_comment_and_its_line() -> None:
    asked = re.findall(r"^<!-- settings: (\w+) -->$", TEXTS["docs/settings.md"], re.MULTILINE)
    groups = {path.name for path in CONF.iterdir() if path.is_dir() and any(path.glob("*.yaml"))} - {"experiment"}
    assert sorted(asked) == sorted({path.stem for path in CONF.glob("*.yaml")} | groups)
    for path in [*CONF.glob("*.yaml"), *(file for group in groups for file in (CONF / group).glob("*.yaml"))]:
        name = path.stem if path.parent == CONF else path.parent.name
        config = OmegaConf.load(path)
        lines = reference.settings(name)
        assert "|  |" not in lines, f"{path}: a setting without a comment"
        whole = path.parent == CONF or "@package _global_" in path.read_text(encoding="utf-8")
        prefix = "" if whole or name in ("launcher", "sweeper") else f"{name}."
        together = [len(row.settings) for row in reference.rows(path, prefix)]
        most = 4 if path.stem == "my_files" else 3  # the target's columns are as the source's above them
        assert max(together, default=0) <= most, f"{path}: a comment that stands for more than three settings"
        for key in _leaves(config, prefix) if isinstance(config, DictConfig) else ():
            own = key.startswith("hydra.") and not key.startswith(("hydra.launcher.", "hydra.sweeper."))
            own = own or key == "selection.name"  # says what the choice says
            above = f"`{key.rpartition('.')[0]}`"  # whose value has a key within braces on one line
            assert own or re.search(rf"`{re.escape(key)}[`.]", lines) or above in lines, f"{path}: {key}"


def test_the_method_that_is_shown_trains(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DOCS / "examples" / "own_method"
    monkeypatch.syspath_prepend(folder)
    places = [f"--config-dir={folder / 'conf'}", f"paths.run={tmp_path}/run", f"paths.cache={tmp_path}/cache"]
    command("train", *places, "adaptation=least_entropy", *corpora(tmp_path))
    curve = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))["curve"]
    assert 0 < curve[-1]["losses"]["entropy"] < 10


NOTEBOOK, SPANS = ROOT / "docs" / "tutorial.ipynb", ROOT / "docs" / "spans.md"
# Of each cell with code, what it prints on any machine.
PRINTED = (
    (),
    ("epoch 3 of 3: loss", "epoch 4 of 4: loss"),
    ("too few to expect a score from", "Predicted of 20 target texts", "words that set them apart"),
    ("positive", "negative"),
    ("report.html",),
    (),
)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Of each command of docs/spans.md, by its verb: lines that it prints with any network.
SAID = {
    "adapt": ("Expect a span F1 of about", "Before adapting", "Predicted of 430 target texts", "predictions, drawn"),
    "predict": ('"spans": [',),
    "score": ("170 labelled texts of hotel_labelled.jsonl", "  span F1 ", "precision"),
    "guide": ("hotel_guided: a model as hotel_adapted, with guidelines",),
    "compare": ("a: hotel_adapted/source_only", "of 430 texts are labelled differently"),
    "report": ("report.html",),
}
TINY = "backbone=tiny_random"
QUICK = [TINY, "trainer.epochs=1", "trainer.extra_epochs=0", "trainer.min_steps=0"]


def printed(cell: Any) -> str:
    """What a reader sees below a cell."""
    return "".join("".join(out.get("text") or out.get("data", {}).get("text/plain", "")) for out in cell["outputs"])


def test_the_notebook_is_kept_with_outputs_and_its_links_lead_to_pages() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for cell, phrases in zip(code, PRINTED, strict=True):
        assert all(phrase in printed(cell) for phrase in phrases), printed(cell)
    assert not re.search(r"/(tmp|home|root|work)/", "".join(map(printed, code)))
    links = LINK.findall("".join(line for cell in cells if cell not in code for line in cell["source"]))
    assert links and all((NOTEBOOK.parent / link).is_file() for link in links)


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a network that takes seconds, and learns as fast: what is kept was printed by the real one."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name in ("TMPDIR", "HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    written, small = NOTEBOOK.read_text(encoding="utf-8"), f'quick = [\\"{TINY}\\", \\"trainer.learning_rate=0.01\\", '
    assert written.count("quick = [") == 1
    notebook = nbformat.reads(written.replace("quick = [", small), as_version=4)
    here = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, kernel_name="python3", resources=here).execute()
    for cell, phrases in zip([c for c in notebook.cells if c.cell_type == "code"], PRINTED, strict=True):
        assert all(phrase in printed(cell) for phrase in phrases), printed(cell)
    assert not [*(tmp_path / "TMPDIR").glob("tmp*")]  # the last cell removes what the first made


def test_the_tutorial_on_spans_runs(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a network that takes seconds: what its page shows was printed by the real one."""
    monkeypatch.setenv("DOMADAPT_CACHE", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "data", tmp_path / "data")
    ran = []
    for block in CONSOLE.findall(SPANS.read_text(encoding="utf-8")):
        parts = re.split(r"^\$ (.*)$", block, flags=re.MULTILINE)[1:]
        for line, shown in zip(parts[::2], parts[1::2], strict=True):
            words = shlex.split(line, comments=True)
            if words[0] == "cp":
                shutil.copy(words[1], words[2])
                continue
            ran.append(words[1])
            out, told = command(*words[1:], *(QUICK if words[1] == "adapt" else []))
            for phrase in SAID[words[1]]:
                assert phrase in shown and phrase in out + told, (line, phrase, out)
    assert set(ran) == set(SAID)


def test_readme_quotes_the_card_of_the_tutorial() -> None:
    [card] = re.findall(r"```text\n(.*?)```", TEXTS["README.md"], re.DOTALL)
    lines = {line.strip() for line in SPANS.read_text(encoding="utf-8").splitlines()}
    assert all(line.strip() in lines for line in card.splitlines() if line.strip() != "...")
