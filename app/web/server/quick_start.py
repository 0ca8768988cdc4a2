"""Import gradio in half the time: without the type stubs that it checks for each of its components.

It reads and parses their sources to compare them with stubs that its package already has. That step
gives up where a class has no file; so, for the time of the import, its own classes have none.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_stubs() -> Iterator[None]:
    """Hide the files of gradio's classes."""
    getfile = inspect.getfile

    def hidden(thing: Any) -> str:
        if isinstance(thing, type) and thing.__module__.startswith("gradio."):
            raise OSError("hidden from the maker of stubs")
        return getfile(thing)

    inspect.getfile = hidden
    try:
        yield
    finally:
        inspect.getfile = getfile
