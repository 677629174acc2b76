"""Matplotlib without pyplot, made into an SVG element that a page can take in; the same bytes every time."""

import io
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from domadapt.reporting.visible import visible

SVG = "http://www.w3.org/2000/svg"
INK = "#010203"  # stands for the page's own text colour, and is replaced by it
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


def plain(axes: Axes, ink: str) -> None:
    """Only what is read: two axes, faint lines across, all in one colour."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(ink)
    axes.tick_params(colors=ink)
    axes.yaxis.label.set_color(ink)
    axes.grid(axis="y", color=ink, alpha=0.15)
    axes.set_axisbelow(True)


def wrapped(name: str, width: int, lines: int = 3) -> str:
    """A name on several lines.

    >>> wrapped("lisa (trainer.epochs=8)", 18)
    'lisa\\n(trainer.epochs=8)'
    """
    found = textwrap.wrap(visible(name), width, max_lines=lines, placeholder="…", break_on_hyphens=False)
    return "\n".join(found)


def element(figure: Figure, alt: str) -> str:
    """A figure drawn in :data:`INK` as an element for a page: no prolog, metadata, page-wide styles, named groups.

    Args:
        figure: made under :func:`drawing`.
        alt: what it shows, in words.
    """
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
    for group in root.iter(f"{{{SVG}}}g"):
        group.attrib.pop("id", None)
    for size in ("width", "height"):
        root.attrib.pop(size)
    root.attrib |= {"role": "img", "aria-label": visible(alt), "class": "figure"}
    return ElementTree.tostring(root, encoding="unicode").replace(INK, "currentColor")
