"""Folders that are written to: a full disk reported in a sentence, and one writer at a time."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from musicgen.common.processes import locked

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
THREAD_SECONDS = 1  # to end in, for one that may have met a full disk too


@contextmanager
def full_disk_named(folder: Path, advice: str) -> Iterator[None]:
    """Raise an OSError with a sentence where writing below a folder fails for want of space.

    A thread that is started within, as TensorBoard's is, may meet the same: that is said once.
    """
    before, hook = {*threading.enumerate()}, threading.excepthook
    threading.excepthook = lambda args: None if _is_full(args.exc_value) else hook(args)
    try:
        yield
    except OSError as error:
        if not _is_full(error):
            raise
        for thread in {*threading.enumerate()} - before:
            thread.join(THREAD_SECONDS)
        raise OSError(f"the disk of {folder} is full; free some space, or {advice}") from None
    finally:
        threading.excepthook = hook


def _is_full(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in FULL


def held(folder: Path, taken: str) -> int | None:
    """Hold a folder until the returned descriptor is closed, or this process ends however it may.

    Where another one holds it, ValueError says that it is `taken`.
    """
    try:
        return locked(folder, os.O_RDONLY)
    except BlockingIOError:
        raise ValueError(taken) from None
