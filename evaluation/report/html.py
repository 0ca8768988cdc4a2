"""A page of HTML that needs nothing beside itself: its look, and the parts it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from evaluation.plots.style import style_sheet

ENLARGED = (
    1.62  # pixels a point of a figure, at most: its type is then as large as that of the page
)
WIDE = 8  # columns, from which on a table is set smaller

_CSS = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main, header, footer { max-width: 66rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.75rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.015em; }
h2 { font-size: 1.4rem; margin: 3.25rem 0 .5rem; padding-top: 1.25rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.75rem 0 .4rem; }
p { margin: .5rem 0 .9rem; max-width: 46rem; }
a { color: var(--series-0); }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: 1.2rem 0 0; }
.faint, figcaption, .caption { color: var(--faint); }
.says { border-left: 3px solid var(--series-0); padding: .1rem 0 .1rem 1rem; margin: 1rem 0; max-width: 46rem; }
.says li { margin: .25rem 0; } .says ul { padding-left: 1.1rem; margin: .25rem 0; }
figure { margin: 1.25rem 0; overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; min-width: 34rem; }
figcaption, .caption { font-size: .86rem; max-width: 50rem; margin-top: .4rem; }
.scroll { overflow-x: auto; margin: 1rem 0 .4rem; }
table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; }
th, td { padding: .32rem .55rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 1.5px solid var(--faint); font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0 !important; }
.wide table { font-size: .78rem; } .wide th, .wide td { padding: .28rem .3rem; }
tbody th { font-weight: 500; }
td.best { font-weight: 700; }
details { margin: .6rem 0; } summary { cursor: pointer; padding: .25rem 0; font-weight: 600; }
details.how { font-size: .9rem; color: var(--faint); } details.how summary { font-weight: 500; }
pre, code { font: .85rem/1.5 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .7rem .9rem; border: 1px solid var(--line); border-radius: 6px; color: var(--ink); }
footer { margin-top: 4rem; padding-bottom: 3rem; font-size: .875rem; color: var(--faint); }
@media print { details > * { display: block; } body { background: #fff; } }
"""


def document(title: str, header: str, sections: Iterable[str], footer: str) -> str:
    """Return a whole page."""
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style_sheet()}{_CSS}</style>\n</head>\n<body>\n"
        f"<header>\n{header}\n</header>\n<main>\n{body}\n</main>\n<footer>\n{footer}\n</footer>\n</body>\n</html>\n"
    )


def section(anchor: str, title: str, *parts: str) -> str:
    """Return a part of the page under a heading."""
    content = "\n".join(part for part in parts if part)
    return f'<section id="{anchor}">\n<h2>{escape(title)}</h2>\n{content}\n</section>'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph."""
    of_kind = f' class="{kind}"' if kind else ""
    return f"<p{of_kind}>{escape(text)}</p>"


def says(sentences: Sequence[str]) -> str:
    """Return what the numbers say, set off."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<div class="says"><ul>{items}</ul></div>' if sentences else ""


def picture(svg: str, caption: str, description: str) -> str:
    """Return a figure, with a description for those who do not see it."""
    points = float(svg.split('width="', 1)[1].split("pt", 1)[0])
    named = f'<svg role="img" aria-label="{escape(description)}" '
    labelled = svg.replace("<svg ", f'{named}style="max-width: {points * ENLARGED:.0f}px" ', 1)
    return f"<figure>\n{labelled}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    best: Iterable[tuple[int, int]] = (),
) -> str:
    """Return a table; a title may have several lines; `best` are the places (row, column) of what is to stand out."""
    out = set(best)
    titles = (escape(cell).replace("\n", "<br>") for cell in head)
    columns = "".join(f'<th scope="col">{title}</th>' for title in titles)
    lines = []
    for i, (first, *rest) in enumerate(rows):
        cells = "".join(
            f'<td class="best">{escape(cell)}</td>' if (i, j) in out else f"<td>{escape(cell)}</td>"
            for j, cell in enumerate(rest, start=1)
        )
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    return (
        f'<div class="scroll{" wide" if len(head) > WIDE else ""}"><table><thead><tr>{columns}</tr></thead>\n'
        f'<tbody>{"".join(lines)}</tbody></table></div>\n<p class="caption">{escape(caption)}</p>'
    )


def folded(title: str, content: str, *, open_: bool = False, kind: str = "") -> str:
    """Return what can be opened and closed."""
    of_kind = f' class="{kind}"' if kind else ""
    return f"<details{' open' if open_ else ''}{of_kind}><summary>{escape(title)}</summary>\n{content}\n</details>"


def how(sentences: Sequence[str], command: str = "") -> str:
    """Return how something was measured, and the command that does it."""
    code = f"<pre>{escape(command)}</pre>" if command else ""
    return folded("How this was measured", "".join(map(paragraph, sentences)) + code, kind="how")
