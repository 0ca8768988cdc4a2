"""The folder of a running server: locked while it runs, so that the next start knows which ones were left behind."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from musicgen.common.processes import CAN_LOCK, locked

PREFIX = "musicgen-app-"
LOCK = "in-use.lock"


class ServerFolder:
    """A folder for this process alone, until it is closed; `path` is where."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = _hold(self.path)

    def close(self) -> None:
        """Delete the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        _delete(self.path)


def delete_left_behind() -> None:
    """Delete the folders of servers that were killed.

    The system lets go of a lock when its process ends, however it ends. Without a lock in it, or of
    another user, a folder is none of ours.
    """
    if not CAN_LOCK:  # not a Unix: what a killed server leaves is left to the system
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # locked, another's, or gone by now
            if not _is_ours(folder):
                continue
            lock = locked(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            if lock is None:
                continue
            try:
                _delete(folder)
            finally:
                os.close(lock)


def _hold(folder: Path) -> int | None:
    """Lock a folder; the lock has its name only when it is held, and nobody takes it for one let go."""
    early = folder / f"{LOCK}.new"
    lock = locked(early, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    if lock is not None:
        os.replace(early, folder / LOCK)
    return lock


def _is_ours(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _delete(folder: Path) -> None:
    """Delete a folder, its lock last: interrupted, the next start goes on with it."""
    with suppress(FileNotFoundError):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != LOCK:
                entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
