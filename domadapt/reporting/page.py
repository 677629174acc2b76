"""A report as one HTML page: no script, nothing loaded from elsewhere."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from domadapt.reporting.blocks import Section, numbered
from domadapt.utils.text import visible


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page.

    Args:
        title: its heading.
        sections: in their order; those of level 2 are listed at the top.

    Returns:
        HTML. Every string but the figures' is escaped, and its control characters are written out.
    """
    environment = Environment(
        loader=PackageLoader("domadapt.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = lambda value: visible(str(value))
    environment.filters["numbered"] = numbered
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template("report.html.jinja").render(title=title, sections=sections)
