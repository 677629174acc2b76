"""Figures as SVG for a page: its colours, its words, nothing that acts."""

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from domadapt.reporting.frames import owner
from domadapt.runs.groups import Pair
from domadapt.utils.text import visible

# Okabe and Ito's palette: told apart by colour-blind readers, visible on white and on black.
STANDING = {"floor": "#bdbdbd", "rnn_from_scratch": "#8c8c8c", "source_only": "#0072b2", "in_domain": "#009e73"}
# The rest of it, then Tol's muted one.
ADAPTED = ("#e69f00", "#d55e00", "#cc79a7", "#56b4e9", "#aa4499", "#999933", "#6699cc", "#882255")
LIGHTER = 0.5  # of a control: the share of what its method's colour lacks to white


def palette(pairs: Sequence[Pair]) -> dict[str, str]:
    """Colours by the methods' names; a control has its method's, lighter."""
    every = {method.name: (pair, method) for pair in pairs for method in pair.methods}
    own = sorted(name for name, (_, method) in every.items() if method.role not in (*STANDING, "control"))
    found = {name: ADAPTED[place % len(ADAPTED)] for place, name in enumerate(own)}
    found |= {name: STANDING[method.role] for name, (_, method) in every.items() if method.role in STANDING}
    for name, (pair, method) in every.items():
        if method.role == "control":
            lead = owner(pair, method)
            color = to_rgb(found[lead.name] if lead else STANDING["rnn_from_scratch"])
            lighter: Any = tuple(part + LIGHTER * (1 - part) for part in color)
            found[name] = to_hex(lighter)
    return found


SVG = "http://www.w3.org/2000/svg"
INK = "#010203"  # stands for the page's own text colour, and is replaced by it
NUMBER = re.compile(r"-?\d+\.\d+")
FONTS = re.compile(r"font(-family)?: [^;]*'DejaVu Sans'[^;]*;?\s*")  # the page's own font instead
WIDTH = 5.0  # inches: on a phone the figure is hardly shrunk, so that its text stays readable


@contextmanager
def drawing() -> Iterator[None]:
    """Settings that figures are made and written under."""
    options: dict[Any, Any] = {
        "svg.hashsalt": "domadapt",
        "svg.fonttype": "none",
        "text.parse_math": False,  # a method may be called $x$
        "font.size": 10.0,
        "font.family": "sans-serif",
    }
    with matplotlib.rc_context(options), warnings.catch_warnings():
        # Names in other scripts: the browser has the glyphs even where matplotlib's font has not.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def drawn(alt: str, height: float, draw: Callable[[Canvas], object]) -> str:
    """A figure of a height in inches as an SVG element in the page's text colour."""
    with drawing():
        figure = Canvas(figsize=(WIDTH, height), layout="constrained", facecolor="none")
        draw(figure)
        return element(figure, alt)


def key(name: str, **look: Any) -> Line2D:
    """A line of a legend; with a space in front, for matplotlib hides names that begin with an underscore."""
    return Line2D([], [], **look, label=f" {name}")


def legend(figure: Canvas, handles: Sequence[Any], columns: int = 3, place: Any = "outside upper left") -> None:
    """Names what colours and strokes mean, outside the axes."""
    figure.legend(handles=handles, loc=place, ncols=columns, frameon=False, labelcolor=INK, fontsize=8)


def plain(axes: Axes, grid: Literal["x", "y", "both"] = "y") -> None:
    """Only what is read: two axes, faint lines across, all in one colour."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(INK)
    axes.grid(axis=grid, color=INK, alpha=0.15)
    axes.set_axisbelow(True)


def wrapped(name: str, width: int, lines: int = 3) -> str:
    """A name on several lines."""
    return "\n".join(textwrap.wrap(visible(name), width, max_lines=lines, placeholder="…", break_on_hyphens=False))


def element(figure: Canvas, alt: str) -> str:
    """A figure, made under :func:`drawing`, as an element: no prolog, metadata, page-wide styles, named groups."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    # HTML knows xlink:href by that very name: without it, marks and ticks are not drawn.
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            only_style = len(child) == 1 and child.find(f"{{{SVG}}}style") is not None
            if only_style or child.tag == f"{{{SVG}}}metadata":
                parent.remove(child)
    for size in ("width", "height"):
        root.attrib.pop(size)
    _shrink(root)
    root.attrib |= {"role": "img", "aria-label": visible(alt), "class": "figure"}
    return ElementTree.tostring(root, encoding="unicode").replace(INK, "currentColor")


def _shrink(root: ElementTree.Element) -> None:
    """Drop what draws nothing, and digits that nobody sees: a page holds hundreds of figures."""
    for item in root.iter():
        item.tail = None
        if item.tag != f"{{{SVG}}}text" and not (item.text or "").strip():
            item.text = None
        if item.tag == f"{{{SVG}}}g":
            item.attrib.pop("id", None)
        for name in ("d", "x", "y", "transform", "points"):
            if name in item.attrib:
                short = NUMBER.sub(lambda found: f"{float(found[0]):.1f}", item.get(name, ""))
                item.set(name, " ".join(short.split()))
        if item.get("transform", "").startswith("rotate(-0"):
            del item.attrib["transform"]
        if "style" in item.attrib:
            item.set("style", FONTS.sub("", item.get("style", "")).strip("; ").replace("; ", ";").replace(": ", ":"))
    for parent in reversed(list(root.iter())):
        for child in list(parent):
            if child.tag == f"{{{SVG}}}g" and not len(child):
                parent.remove(child)
