"""Settings and methods for the reference pages, read from the yaml files of `conf/` and from docstrings."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from domadapt.cli.main import USAGE, VERBS

ROOT = Path(__file__).parents[1]
CONF = ROOT / "conf"
# First author, whether there are more than two, the second of two, year.
PAPER = re.compile(
    r"([A-Z][\w\-]+)((?:, [A-Z][\w\-]+)+(?: (?:&|and) [A-Z][\w\-]+)| et al\.)?( (?:&|and) [A-Z][\w\-]+)?,? \(?(\d{4})\b"
)


@dataclass
class Row:
    """Settings that share one comment."""

    comment: str
    settings: list[tuple[str, str]] = field(default_factory=list)


def rows(path: Path, prefix: str = "") -> list[Row]:
    """Settings of a yaml file, their names behind a prefix (``trainer.``), with the comment that stands above them."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found: list[Row] = []
    for name, key, node in _leaves(yaml.compose(text), prefix):
        line = key.start_mark.line
        above = line
        while above and lines[above - 1].lstrip().startswith("#"):
            above -= 1
        if not above:  # what opens a file is its title: a line of it, where a setting follows right away
            above = min(1, line)
        comment = _joined(lines[above:line])
        if comment or not found or found[-1].settings[-1][0].rpartition(".")[0] != name.rpartition(".")[0]:
            found.append(Row(comment))
        found[-1].settings.append((name, text[node.start_mark.index : node.end_mark.index].strip()))
    return found


def title(path: Path) -> str:
    """The comment that opens a yaml file."""
    text = path.read_text(encoding="utf-8").removeprefix("# @package _global_\n")
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    first = next((key.start_mark.line for _, key, _ in _leaves(yaml.compose(text), "")), None)
    return _joined(lines[: 1 if first == end else end])


def settings(name: str) -> str:
    """Markdown of a verb's own settings, or of every choice of a group: of a yaml file, or of a folder of them."""
    if (path := CONF / f"{name}.yaml").is_file():
        return f"{_prose(title(path))}\n\n{_table(rows(path))}"
    if not (CONF / name).is_dir():
        raise ValueError(f"settings: {name}: no such file or folder in conf/")
    parts = []
    for path in sorted((CONF / name).glob("*.yaml"), key=_order):
        whole = "@package _global_" in path.read_text(encoding="utf-8")
        table = _table(rows(path, "" if whole else f"{name}."))
        parts.append(f"### {name}={path.stem}\n\n{_prose(title(path))}\n\n{table}".rstrip())
    return "\n\n".join(parts)


def verbs() -> str:
    """Markdown table of the verbs, as `domadapt --help` lists them."""
    lines = ["| verb | does |", "| :--- | :--- |"]
    for name, does in re.findall(r"^  (\w+) {2,}(.+(?:\n {10,}.+)*)", USAGE, re.MULTILINE):
        if name in VERBS:
            does = re.sub(r"\s*\n\s*", "; ", does)
            lines.append(f"| `{name}` | {_plain(does)} |")
    return "\n".join(lines)


def groups() -> str:
    """Markdown table of all that can be chosen, by group."""
    lines = ["| setting | choices |", "| :--- | :--- |"]
    for folder in sorted(path for path in CONF.iterdir() if any(path.glob("*.yaml"))):
        names = ", ".join(f"`{path.stem}`" for path in sorted(folder.glob("*.yaml"), key=_order))
        lines.append(f"| `{folder.name}=` | {names} |")
    return "\n".join(lines)


def choices(group: str) -> str:
    """Markdown list of a group's choices with their first lines."""
    found = sorted((CONF / group).glob("*.yaml"))
    if not found:
        raise ValueError(f"choices: {group}: no such folder in conf/")
    return "\n".join(f"- **`{group}={path.stem}`**: {_prose(_first(title(path)))}" for path in found)


def methods(group: str, measured: Mapping[str, list[str]]) -> str:
    """Markdown table of a group's methods: what it does, paper, file, yaml, and the tables that have runs of it."""
    lines = [
        "| method | what it does | paper | file | yaml | measured in |",
        "| :--- | :--- | :--- | :--- | :--- | :--- |",
    ]
    for path in sorted((CONF / group).glob("*.yaml")):
        given = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        each = [given, *(value for value in given.values() if isinstance(value, dict))]  # a recipe's are within it
        if not (target := next((one["_target_"] for one in each if "_target_" in one), None)):
            continue
        module, _, name = str(target).rpartition(".")
        file = f"{module.replace('.', '/')}.py"
        source = (ROOT / file).read_text(encoding="utf-8")
        paper = _paper(source, name)
        where = ", ".join(f"`{one}`" for one in measured.get(path.stem, [])) or "not alone"
        first = _plain(re.split(r"(?<! al)\. ", _first(title(path)).replace("\n", " "))[0].rstrip("."))
        lines.append(f"| `{path.stem}` | {first} | {paper} | `{file}` | `conf/{group}/{path.name}` | {where} |")
    return "\n".join(lines)


def _paper(source: str, name: str) -> str:
    """What the docstring of a class cites, or else that of its module; linked where it gives an address."""
    tree = ast.parse(source)
    nodes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    for text in (ast.get_docstring(node) or "" for node in [*nodes, tree]):
        named = [
            f"{who}{' et al.' if more else other} {year}"
            for who, more, other, year in PAPER.findall(" ".join(text.split()))
        ]
        links = re.findall(r"https?://[^\s)>;]+", text)
        cited = ", ".join(dict.fromkeys(named))
        if cited or links:
            return f"[{cited or 'paper'}]({links[0].rstrip('.,')})" if links else cited
    return ""


def _order(path: Path) -> tuple[int, str]:
    """Your own files first, research corpora last."""
    research = "DOMADAPT_BENCHMARK_DATA" in path.read_text(encoding="utf-8")
    return 0 if path.stem.startswith("my_") else 2 if research else 1, path.stem


def _leaves(node: yaml.Node, prefix: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    for key, value in getattr(node, "value", ()) if isinstance(node, yaml.MappingNode) else ():
        name = f"{prefix}{key.value}"
        own = key.value in ("defaults", "_target_", "_partial_", "needs")
        if own or re.match(r"hydra\.(?!launcher|sweeper)|selection\.name", name):
            continue  # Hydra's own, which say nothing of domadapt, and what the choice itself says
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, key, value


def _joined(lines: list[str]) -> str:
    """Comment lines as text; what is indented in them stays on lines of its own, as code."""
    return "\n".join(line.strip().removeprefix("#").removeprefix(" ").rstrip() for line in lines)


def _first(text: str) -> str:
    """What comes before the first line of code."""
    return text.split("\n  ", 1)[0].rstrip(":")


def _prose(text: str) -> str:
    """A comment as Markdown: indented lines become a block of code, and nothing in it is markup."""
    parts: list[str] = []
    for line in text.splitlines():
        code = line.startswith("  ")
        if code and (not parts or not parts[-1].startswith("```")):
            parts.append("```")
        elif not code and parts and parts[-1].startswith("```"):
            parts[-1] += "\n```"
            parts.append("")
        if code:
            parts[-1] += f"\n{line[2:]}"
        else:
            parts = [*parts[:-1], f"{parts[-1]} {_plain(line)}".strip()] if parts else [_plain(line)]
    if parts and parts[-1].startswith("```"):
        parts[-1] += "\n```"
    return "\n\n".join(part for part in parts if part)


def _plain(text: str) -> str:
    """Text outside of backquotes with its markup escaped."""
    pieces = text.split("`")
    for i in range(0, len(pieces), 2):
        for sign in "\\*_<>[]{}|$":
            pieces[i] = pieces[i].replace(sign, f"\\{sign}")
    return "`".join(pieces)


def _table(found: list[Row]) -> str:
    if not found:
        return ""
    lines = ["| setting | default | |", "| :--- | :--- | :--- |"]
    for row in found:
        names = "<br>".join(f"`{name}`" for name, _ in row.settings)
        values = "<br>".join(_value(value) for _, value in row.settings)
        comment = _plain(" ".join(row.comment.split()))
        lines.append(f"| {names} | {values} | {comment} |")
    return "\n".join(lines)


def _value(text: str) -> str:
    text = re.sub(r"_partial_: true, |_target_: pytorch_lightning[\w.]+, ", "", text)  # what only Hydra reads
    if text == "???":
        return "required"
    if "\n" in text:
        return "see the file"
    if text.startswith("${") and len(text) > 24:  # would leave no room for what it is
        return "computed"
    return f"`{text}`".replace("|", "\\|")
