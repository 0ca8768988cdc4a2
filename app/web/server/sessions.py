"""Who is there, and the folders of the files that programs asked for, which are emptied.

Of the pieces on a page the server keeps nothing: they lie in the browser.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from app.web.server.folder import ServerFolder
from app.web.server.names import Refused
from app.web.server.uploads import files_below

MOST_SESSIONS = 200
MOST_OF_ONE = 60  # of one client, as of a class behind one address
IDLE_SECONDS = 3600
NEW_SECONDS = 30  # a page that has just been opened is nobody idle, though it has not said yet that it is there
MOST_ANSWERS = 64  # folders of answers to programs, which are copied when they are handed out
SOUND_BYTES = 1 << 30  # of rendered sound, of all sessions


@dataclass(kw_only=True, eq=False)
class Session:
    """One visitor."""

    folder: Path
    client: str = ""  # whose; some may share an address
    pages: int = 0  # open in browsers
    used_seconds: float = field(default_factory=time.monotonic)


class Sessions:
    """All visitors, by the name that the page has for itself; every method is safe in threads."""

    def __init__(self) -> None:
        self._home = ServerFolder()
        self.folder = self._home.path
        self._answers = self.folder / "answers"
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, name: str, client: str) -> Session:
        """Return a visitor's session; for a new one, those long idle are dropped, or else there is no room."""
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                self._drop_old()
                self._find_room(client)
                folder = Path(tempfile.mkdtemp(dir=self._there()))
                session = self._sessions[name] = Session(folder=folder, client=client)
            session.used_seconds = time.monotonic()
            self._sessions.move_to_end(name)
        return session

    def came(self, session: Session) -> None:
        """Note that a visitor's page is open."""
        with self._lock:
            session.pages += 1

    def went(self, session: Session) -> None:
        """Note that it is not any more; by now the session may be forgotten, and its name another's."""
        with self._lock:
            session.pages -= 1

    def folder_for_answer(self, name: str) -> Path:
        """Return a new folder for files that a program asked for: among its own, if it stays, or a passing one."""
        with self._lock:
            session = self._sessions.get(name)
            self._there()
            home = self._answers if session is None else session.folder
            home.mkdir(mode=0o700, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=home))
            if session is None:
                old = sorted(home.iterdir(), key=lambda path: path.stat().st_mtime)[:-MOST_ANSWERS]
                for path in old:
                    shutil.rmtree(path, ignore_errors=True)
        return folder

    def leave(self, name: str) -> None:
        """Forget a visitor, and what was kept for them."""
        with self._lock:
            if name in self._sessions:
                _empty(self._sessions.pop(name))

    def make_room(self) -> None:
        """Delete the oldest sounds where all take too much of the disk; they can be made again."""
        with self._lock:
            sounds = [found for found in files_below(self.folder) if found[1].suffix == ".wav"]
            size = sum(stat.st_size for stat, _ in sounds)
            for stat, path in sorted(sounds, key=lambda sound: sound[0].st_mtime)[:-1]:
                if size <= SOUND_BYTES:
                    return
                path.unlink(missing_ok=True)
                size -= stat.st_size

    def close(self) -> None:
        """Forget everybody and delete everything."""
        with self._lock:
            while self._sessions:
                _empty(self._sessions.popitem()[1])
            self._home.close()

    def _there(self) -> Path:
        """Return the server's folder, which is made anew where the system has swept it away as an old one."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        return self.folder

    def __contains__(self, name: str) -> bool:
        return name in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def _drop_old(self) -> None:
        oldest = time.monotonic() - IDLE_SECONDS
        for name in [name for name, one in self._sessions.items() if _is_idle(one, oldest)]:
            _empty(self._sessions.pop(name))

    def _find_room(self, client: str) -> None:
        """Drop who is idle where there are too many: of the same client, and of all; or refuse the new one."""
        own = [name for name, session in self._sessions.items() if session.client == client]
        for names, most in (
            (own if client else [], MOST_OF_ONE),
            ([*self._sessions], MOST_SESSIONS),
        ):
            if len(names) < most:
                continue
            new = time.monotonic() - NEW_SECONDS
            idle = next((name for name in names if _is_idle(self._sessions[name], new)), None)
            if idle is None:
                raise Refused(429, "as many are here as there is room for; come again in a while")
            _empty(self._sessions.pop(idle))


def _is_idle(session: Session, before: float) -> bool:
    """Say whether nobody has a page of it open, nor has used it since."""
    return not session.pages and session.used_seconds < before


def _empty(session: Session) -> None:
    shutil.rmtree(session.folder, ignore_errors=True)
