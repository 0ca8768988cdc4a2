"""The parts of the report as HTML: page.html says how each looks, and escapes what it is filled with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from evaluation.plots.style import style_sheet
from evaluation.tables.table import Table

ENLARGED = 1.62  # pixels a point of a figure, at most: its letters are then as large as the page's
WIDE = 8  # columns, from which on a table is set smaller

_PAGE = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
).get_template("page.html")
_parts: Any = _PAGE.make_module({"sections": (), "models": "", "lead": "", "style": "",
                                 "results": {"command": "", "made": "", "machine": {}}})  # fmt: skip
Part = Callable[..., Markup]
paragraph: Part = _parts.paragraph  # of a text, and perhaps its class
says: Part = _parts.says  # what the numbers say, in sentences, set off
folded: Part = _parts.folded  # a title under which content can be opened, or is open
how: Part = _parts.how  # how something was measured, in sentences, and the command that does it


def document(models: str, lead: str, sections: Sequence[Any], results: Any) -> str:
    """Return a whole page; a section is its anchor, its title and its content."""
    style = Markup(style_sheet())
    return _PAGE.render(models=models, lead=lead, sections=sections, results=results, style=style)


def picture(svg: str, caption: str, description: str) -> Markup:
    """Return a figure, with a description for those who do not see it."""
    points = float(svg.split('width="', 1)[1].split("pt", 1)[0])
    named = Markup('<svg role="img" aria-label="{}" style="max-width: {:.0f}px" ').format(
        description, points * ENLARGED
    )
    return _parts.picture(Markup(svg.replace("<svg ", named, 1)), caption)


def table(content: Table) -> Markup:
    """Return a table; the best values stand out."""
    caption = f"{content.caption} Bold: the lowest." if content.best else content.caption
    head = content.head
    return _parts.table(head, content.rows, caption, set(content.best), len(head) > WIDE)
