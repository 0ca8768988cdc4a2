"""The output of commands: results on standard output, as text or JSON; remarks and progress on standard error."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from evaluation.tables import Table


# Between two lines of progress where there is no terminal: this share of the time so far, within these bounds …
LINE_SHARE, FIRST_SECONDS, LINE_SECONDS = 0.1, 2.0, 60.0
QUIET_SECONDS = 15.0  # … and before the first one of a bar
COLUMNS = 80  # of a terminal, which tables fit
NARROWEST_TITLE = 8  # characters; titles are not wrapped to fewer
INTERRUPTED = 130  # the exit code after Ctrl-C: 128 + SIGINT, as shells report it

# Control characters, marks of text direction, line and paragraph separators, and surrogates.
_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT, _IN_LINE = re.compile(f"[{_UNSEEN}]"), re.compile(f"[\t\n{_UNSEEN}]")


def add_json(parser: ArgumentParser) -> None:
    """Declare --json."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def write(text: str) -> None:
    """Print a result."""
    _print(visible(text, lines=True))


def write_result(as_json: bool, value: Any, text: str, *remarks: str) -> None:
    """Print a result, as JSON or as text with remarks."""
    if as_json:
        write_json(value)
    else:
        write(text)
        remark(remarks)


def write_json(value: Any) -> None:
    """Print a result as one line of JSON."""
    # Where the stream cannot encode a character, its own escape (backslashreplace) would not be valid JSON.
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    _print(visible(json.dumps(value, ensure_ascii=not is_unicode)))


def _print(text: str) -> None:
    """Print and flush, so that an error is raised here."""
    with _standard_output():
        print(text, flush=True)


def flush() -> None:
    """Flush the standard output."""
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
    """Print remarks on standard error; failing to print them does not fail the command."""
    try:
        for sentence in sentences:
            print(visible(sentence), file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError:  # such as a full disk
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that the interpreter reports no failed flush when it exits."""
    with suppress(OSError, ValueError):  # a stream without a file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def table(rows: Sequence[Sequence[object]]) -> str:
    """Format rows as a table: the first column aligned left, the others right.

    A table that is too wide for a terminal has its titles (the first row) wrapped. If that is not enough, it is split
    into blocks of columns, each of which repeats the columns that name the rows.
    """
    cells = [
        [f"{cell:,}" if isinstance(cell, int) else visible(str(cell)) for cell in row]
        for row in rows
    ]
    blocks = [cells] if _width(cells) <= COLUMNS else _blocks(_with_wrapped_titles(cells))
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


def _with_wrapped_titles(cells: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Wrap the titles over several rows, about as wide as the cells below them."""
    head, *body = cells
    below = [max(map(len, column)) for column in zip(*body, strict=True)] or [0] * len(head)
    titles = [
        wrap(title, max(width, NARROWEST_TITLE), break_long_words=False) or [""]
        for title, width in zip(head, below, strict=True)
    ]
    lines = max(map(len, titles))
    padded = [[""] * (lines - len(title)) + title for title in titles]
    return [*zip(*padded, strict=True), *body]


def _blocks(cells: Sequence[Sequence[str]]) -> list[list[list[str]]]:
    """Split a table into blocks of as many columns as fit; each starts with the leading columns of text."""
    columns = [*zip(*cells, strict=True)]
    texts = next((n for n, column in enumerate(columns) if n and _is_number(column[-1])), 1)
    blocks = [columns[:texts]]
    for column in columns[texts:]:
        if len(blocks[-1]) > texts and _width([*zip(*blocks[-1], column, strict=True)]) > COLUMNS:
            blocks.append(columns[:texts])
        blocks[-1].append(column)
    whole = [[[*row] for row in zip(*block, strict=True)] for block in blocks]
    return [[row for row in block if any(row)] for block in whole]


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in "+-−–"


def captioned(content: Table, *, across: bool = True) -> str:
    """Format a table of an evaluation under its caption; not `across`, it is transposed.

    If models have several rows, each model gets a table of its own.
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
    """Escape control characters, so that a name from a file cannot control the terminal.

    With `lines`, tabs and ends of lines are kept.
    """
    return (_IN_TEXT if lines else _IN_LINE).sub(lambda found: escape(found[0]), text)


def escape(character: str) -> str:
    """Escape a character in a way that both JSON and Python read."""
    return f"\\u{ord(character):04x}"


class Lines:
    """Tells when a line of progress is due where there is no terminal."""

    def __init__(self, quiet: float = 0.0) -> None:
        """Begin; the first line is due after `quiet` seconds."""
        self._began, self._quiet, self._last = time.monotonic(), quiet, -math.inf

    def is_due(self, last: bool, waits: float = 1.0) -> bool:
        """Return whether to print a line now, after so many waits, and if so, count it as printed."""
        now = time.monotonic()
        passed = now - self._began
        wait = waits * min(LINE_SECONDS, max(FIRST_SECONDS, LINE_SHARE * passed))
        due = passed >= self._quiet and now - self._last >= wait
        if sys.stderr.isatty() or not (last or due):
            return False
        self._last = now
        return True


@contextmanager
def progress_bar(title: str, *, lines: bool = True) -> Iterator[Callable[..., None]]:
    """Show a bar on a terminal, elsewhere a line now and then, except where the caller prints such `lines`.

    Yields a function to update it with the amount done, the total and another title.
    """
    if not sys.stderr.isatty():
        due = Lines(QUIET_SECONDS)

        def tell(done: int, total: int, title: str = title) -> None:
            if lines and due.is_due(False):
                remark([f"{title}: {done:,} of {total:,}"])

        yield tell
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
        TextColumn("{task.description}", markup=False),  # a name can contain brackets
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    on_terminal = sys.stdout.isatty()  # a redirected standard output is left alone
    with Progress(*columns, console=console, transient=True, redirect_stdout=on_terminal) as bar:
        # Without a total, it would show 0/?.
        task = bar.add_task(visible(title), total=None, visible=False)
        yield lambda done, total, title=None: bar.update(
            task, completed=done, total=total, description=title, visible=True
        )
