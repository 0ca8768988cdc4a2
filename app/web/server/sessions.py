"""Who is there, and the folders of the files that programs asked for, which are emptied.

Of the pieces on a page the server keeps nothing: they lie in the browser.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.web.server.names import Refused
from app.web.server.process import ServerFolder
from app.web.server.uploads import files_below

MOST_SESSIONS = 200
MOST_OF_ONE = 60  # of one client, as of a class behind one address
IDLE_SECONDS = 3600
NEW_SECONDS = 30  # a page that has just been opened is nobody idle, though it has not said yet that it is there
MOST_ANSWERS = 64  # folders of answers to programs, which are copied when they are handed out
SOUND_BYTES = 1 << 30  # of rendered sound and written scores, of all sessions
LARGE = (".wav", ".musicxml")


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
        """Delete the oldest sounds and scores where all take too much of the disk; they can be made again."""
        with self._lock:
            sounds = [found for found in files_below(self.folder) if found[1].suffix in LARGE]
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
        """Return the server's folder, created again if the system has removed it as an old one."""
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


GONE_SECONDS = 20  # without anybody who reads, a job has lost its client


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Who wants something done, and until when they are there."""

    client: str  # whose turns are shared among all that they ask for
    is_gone: Callable[[float], bool] = lambda since: False
    is_reading: Callable[[], bool] = lambda: True


class Visitors:
    """Counts open pages and readers; `sessions` has what each visitor was given."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._readers: Counter[str] = Counter()
        self._read: dict[str, float] = {}  # when somebody last read, by session

    @contextmanager
    def stays(self, name: str, client: str) -> Iterator[None]:
        """Note that somebody's page is open for as long as this lasts."""
        session = self.sessions.admit(name, client)
        self.sessions.came(session)
        try:
            yield
        finally:
            self.sessions.went(session)

    @contextmanager
    def reads(self, name: str) -> Iterator[None]:
        """Note that somebody waits for the answers to a session's jobs."""
        self._readers[name] += 1
        try:
            yield
        finally:
            self._read[name] = time.monotonic()
            self._readers[name] -= 1
            if not self._readers[name]:
                del self._readers[name]

    def asker(self, request: Any) -> Asker:
        """Return who sent a request of gradio's."""
        name, client = str(request.session_hash), client_of(request)
        return Asker(
            client=client,
            is_gone=lambda since: self.is_gone(name, since),
            is_reading=lambda: self.is_read(name),
        )

    def is_gone(self, name: str, since: float) -> bool:
        """Say whether nobody has read a session's answers for a while; `since` is when the job began."""
        last = max(since, self._read.get(name, 0.0))
        return not self._readers[name] and time.monotonic() > last + GONE_SECONDS

    def is_read(self, name: str) -> bool:
        """Say whether somebody waits for a session's answers at this moment."""
        return self._readers[name] > 0

    def forget_readers(self, waiting: Container[str]) -> None:
        """Forget who last read, but of sessions in which somebody waits for something."""
        for name in [name for name in self._read if name not in waiting]:
            del self._read[name]


def client_of(request: Any) -> str:
    """Return the address that a request of gradio's came from."""
    return request.client.host if request.client else ""
