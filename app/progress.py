"""A progress bar on the standard error; silent where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.output import visible


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
