"""Files held by one process at a time; the system lets go of a lock when its process ends, however it ends."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None

CAN_LOCK = fcntl is not None


def locked(path: Path, flags: int) -> int | None:
    """Open a file or folder and hold it until the returned descriptor is closed; None where nothing can be held.

    Where another process holds it, BlockingIOError says so.
    """
    if fcntl is None:
        return None
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None  # a file system without locks
    return descriptor
