"""How Sphinx builds these pages: `make docs`. Warnings are errors there."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from domadapt import __version__  # noqa: E402

project, author, release = "domadapt", "the authors of domadapt", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme, html_title, html_copy_source = "furo", "domadapt", False
html_show_copyright = False
html_static_path, html_css_files = ["pages.css"], ["pages.css"]
exclude_patterns = ["examples"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_use_ivar = True
highlight_language = "none"
suppress_warnings = ["ref.python"]  # a name that two modules carry: the nearer is linked

BLOCK = re.compile(r"^% modules: (\S+)$", re.MULTILINE)


def modules(package: str) -> str:
    """Every public module of a package, from its docstrings."""
    folder = ROOT / package.replace(".", "/")
    names = [path.stem for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")]
    directive = "```{{eval-rst}}\n.. automodule:: {0}.{1}\n   :members:\n   :ignore-module-all:\n```"
    parts = [f"### `{name}`\n\n{directive.format(package, name)}" for name in names]
    return "\n\n".join(parts)


def fill(app: object, page: str, source: list[str]) -> None:
    """Put in what a page asks for with a line `% modules: domadapt.syntax`."""
    source[0] = BLOCK.sub(lambda match: modules(match[1]), source[0])


def setup(app: object) -> None:
    """Sphinx calls this."""
    app.connect("source-read", fill)  # type: ignore[attr-defined]
