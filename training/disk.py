"""Folders that are written to: a full disk reported in a sentence, and one writer at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from musicgen.common.processes import locked

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def full_disk_named(folder: Path, advice: str) -> Iterator[None]:
    """Raise an OSError with a sentence where writing below a folder fails for want of space."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(f"the disk of {folder} is full; free some space, or {advice}") from None


def held(folder: Path, taken: str) -> int | None:
    """Hold a folder until the returned descriptor is closed, or this process ends however it may.

    Where another one holds it, ValueError says that it is `taken`.
    """
    try:
        return locked(folder, os.O_RDONLY)
    except BlockingIOError:
        raise ValueError(taken) from None
