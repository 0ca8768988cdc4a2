"""The files that visitors sent, and copies that are handed out: bounded together, and swept where they broke off."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from app.web.server.names import Refused

HALF_SECONDS = 60  # an upload that is still unfinished then has broken off
SPARED_SECONDS = 60  # younger files are not deleted to make room: somebody is at it
FILES_BYTES = 64 << 20
MOST_FILES = 2000
SHARE = 8  # of the room is one client's within that time: who fills it leaves the rest to others


class Arrivals:
    """How much each client has sent in the last minute."""

    def __init__(self) -> None:
        self._sent: dict[str, deque[tuple[float, int]]] = {}
        self._lock = Lock()

    def count(self, client: str, size: int) -> None:
        """Add a file that comes; refuse what goes beyond a client's share."""
        now = time.monotonic()
        with self._lock:
            for one, sent in [*self._sent.items()]:
                while sent and sent[0][0] < now - SPARED_SECONDS:
                    sent.popleft()
                if not sent:
                    del self._sent[one]
            sent = self._sent.get(client, deque())
            total = size + sum(earlier for _, earlier in sent)
            if sent and (total > FILES_BYTES // SHARE or len(sent) >= MOST_FILES // SHARE):
                raise Refused(429, "you have sent too much in the last minute; send it in a while")
            sent.append((now, size))
            self._sent[client] = sent


def make_room(folder: Path, size: int) -> None:
    """Delete the oldest files where there is no room for one more; refuse it where all are new."""
    found = files_below(folder)
    total, left = sum(stat.st_size for stat, _ in found), len(found)
    spared = time.time() - SPARED_SECONDS
    for stat, path in sorted(found, key=lambda file: file[0].st_mtime):
        if total + size <= FILES_BYTES and left < MOST_FILES:
            return
        if stat.st_mtime > spared:
            break
        path.unlink(missing_ok=True)
        total, left = total - stat.st_size, left - 1
    if total + size > FILES_BYTES or left >= MOST_FILES:
        raise Refused(507, "too many files have come in the last minute; send it again in a while")


def delete_broken_off(uploads: Path) -> None:
    """Delete what is left of uploads that did not come to their end, and folders that are empty."""
    late = time.time() - HALF_SECONDS
    with suppress(OSError):
        for path in uploads.iterdir():
            if path.lstat().st_mtime > late:
                continue
            if path.is_dir():
                with suppress(OSError):  # it holds something
                    path.rmdir()
            elif path.name.startswith("tmp"):
                path.unlink(missing_ok=True)


def forget_deleted(lists: Iterable[set[str]]) -> None:
    """Drop deleted files from gradio's lists of files where these are long: by itself it keeps their names for ever."""
    for names in lists:
        if len(names) > 2 * MOST_FILES:
            names.difference_update([name for name in names if not os.path.exists(name)])


def files_below(folder: Path) -> list[tuple[Any, Path]]:
    """Return the files in a folder and in those within, each with what the system knows of it."""
    found = []
    for place, _, names in os.walk(folder):  # which goes on where a folder is gone by now
        for path in (Path(place) / name for name in names):
            with suppress(OSError):
                found.append((path.lstat(), path))
    return found
