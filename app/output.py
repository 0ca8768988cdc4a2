"""The output of commands: results on standard output, as text or JSON; remarks and progress on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from evaluation.tables import Table


COLUMNS = 80  # of a terminal, which tables fit
SHORTEST_LINE = 8  # letters to which a title is folded
INTERRUPTED = 130  # the exit code of what was ended by a signal, as shells report it

# What moves a terminal's cursor, begins a command to it, turns the direction of text, or is no character.
_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT, _IN_LINE = re.compile(f"[{_UNSEEN}]"), re.compile(f"[\t\n{_UNSEEN}]")


def add_json(parser: ArgumentParser) -> None:
    """Let a command give its result to a program."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def write(text: str) -> None:
    """Print a result."""
    _print(visible(text, lines=True))


def write_either(as_json: bool, value: Any, text: str, *remarks: str) -> None:
    """Print a result for a program, or for people, with remarks on it."""
    if as_json:
        write_json(value)
    else:
        write(text)
        remark(remarks)


def write_json(value: Any) -> None:
    """Print a result for a program."""
    # Escapes are within texts alone, where they are read. A stream's own, for letters it lacks, are none of JSON's.
    has_all = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    _print(visible(json.dumps(value, ensure_ascii=not has_all)))


def _print(text: str) -> None:
    """Print at once, so that what goes wrong is known here."""
    with _standard_output():
        print(text, flush=True)


def flush() -> None:
    """Print what is buffered."""
    with _standard_output():
        sys.stdout.flush()


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        drop(sys.stdout)
        raise OSError(error.errno, error.strerror, "the standard output") from error


def remark(sentences: Iterable[str]) -> None:
    """Print remarks on standard error; where they cannot be printed, the result stands."""
    try:
        for sentence in sentences:
            print(visible(sentence), file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError:  # as of a full disk
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Let a stream take no more, lest the interpreter complains at its end of what it could not write."""
    with suppress(OSError, ValueError):  # of one that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def table(rows: Sequence[Sequence[object]]) -> str:
    """Return rows in columns: the first to the left, numbers with separators to the right.

    What is too wide for a terminal is folded: first the titles in the first row, then the columns, a block of them
    under the other, each with the words that name its rows.
    """
    cells = [
        [f"{cell:,}" if isinstance(cell, int) else visible(str(cell)) for cell in row]
        for row in rows
    ]
    blocks = [cells] if _width(cells) <= COLUMNS else _blocks(_folded(cells))
    return "\n\n".join(_aligned(block) for block in blocks)


def _aligned(cells: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        [row[0].ljust(widths[0])]
        + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        for row in cells
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _width(cells: Sequence[Sequence[str]]) -> int:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def _folded(cells: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return rows with the titles of the first in several rows, no wider than what is under them."""
    head, *body = cells
    below = [max(map(len, column)) for column in zip(*body, strict=True)] or [0] * len(head)
    titles = [
        wrap(title, max(width, SHORTEST_LINE), break_long_words=False) or [""]
        for title, width in zip(head, below, strict=True)
    ]
    lines = max(map(len, titles))
    padded = [[""] * (lines - len(title)) + title for title in titles]
    return [*zip(*padded, strict=True), *body]


def _blocks(cells: Sequence[Sequence[str]]) -> list[list[list[str]]]:
    """Return rows in blocks of as many columns as fit; each has the columns of words that come first."""
    columns = [*zip(*cells, strict=True)]
    words = next((n for n, column in enumerate(columns) if n and _is_number(column[-1])), 1)
    named, blocks = columns[:words], [columns[:words]]
    for column in columns[words:]:
        if len(blocks[-1]) > words and _width([*zip(*blocks[-1], column, strict=True)]) > COLUMNS:
            blocks.append([*named])
        blocks[-1].append(column)
    whole = [[[*row] for row in zip(*block, strict=True)] for block in blocks]
    return [[row for row in block if any(row)] for block in whole]


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in "+-−–"


def captioned(content: Table, *, across: bool = True) -> str:
    """Return a table of the evaluation under what its numbers are; not `across`, its rows become columns.

    Models of several rows each have a table of their own.
    """
    caption = "\n".join(fill(line, COLUMNS) for line in content.caption.splitlines())
    head, rows = [" ".join(title.split()) for title in content.head], content.rows
    if not across:
        return f"{caption}\n{table([*zip(head, *rows, strict=True)])}"
    models = [*dict.fromkeys(row[0] for row in rows)]
    if head[0] != "model" or len(models) == len(rows):
        return f"{caption}\n{table([head, *rows])}"
    parts = [
        f"{visible(model)}\n{table([head[1:], *(row[1:] for row in rows if row[0] == model)])}"
        for model in models
    ]
    return "\n\n".join([caption, *parts])


def visible(text: str, *, lines: bool = False) -> str:
    """Return a text with escapes for what is no print, so that a stranger's name cannot speak to a terminal.

    Ends of lines are kept where there may be several `lines`.
    """
    return (_IN_TEXT if lines else _IN_LINE).sub(lambda found: escape(found[0]), text)


def escape(character: str) -> str:
    """Return a character as JSON and Python both read it."""
    return f"\\u{ord(character):04x}"


@contextmanager
def progress_bar(title: str, *, timed: bool = True) -> Iterator[Callable[..., None]]:
    """Give a function to call with what is done and what there is to do, and another title; the bar goes at the end.

    A `timed` one says how long it will take.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, title="": None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),  # a name may hold brackets
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        *([TimeRemainingColumn()] if timed else []),
    )
    console = Console(stderr=True)
    shown = sys.stdout.isatty()  # what is printed elsewhere goes there
    with Progress(*columns, console=console, transient=True, redirect_stdout=shown) as bar:
        task = bar.add_task(visible(title), total=None)
        yield lambda done, total, title=None: bar.update(
            task, completed=done, total=total, description=title
        )
