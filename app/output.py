"""The output of commands: results on standard output, as text or JSON; remarks and progress on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from evaluation.tables import Table


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
    """Return rows in columns: the first to the left, numbers with separators to the right."""
    cells = [
        [f"{cell:,}" if isinstance(cell, int) else visible(str(cell)) for cell in row]
        for row in rows
    ]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = (
        [row[0].ljust(widths[0])]
        + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        for row in cells
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def captioned(content: Table, *, across: bool = True) -> str:
    """Return a table of the evaluation under what its numbers are; not `across`, its rows become columns."""
    rows = [[" ".join(title.split()) for title in content.head], *content.rows]
    return f"{content.caption}\n{table(rows if across else [*zip(*rows, strict=True)])}"


def visible(text: str, *, lines: bool = False) -> str:
    """Return a text with escapes for what is no print, so that a stranger's name cannot speak to a terminal.

    Ends of lines are kept where there may be several `lines`.
    """
    return (_IN_TEXT if lines else _IN_LINE).sub(lambda found: escape(found[0]), text)


def escape(character: str) -> str:
    """Return a character as JSON and Python both read it."""
    return f"\\u{ord(character):04x}"


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function to call with what is done and what there is to do; the bar goes at the end."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
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
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    shown = sys.stdout.isatty()  # what is printed elsewhere goes there
    with Progress(*columns, console=console, transient=True, redirect_stdout=shown) as bar:
        task = bar.add_task(visible(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
