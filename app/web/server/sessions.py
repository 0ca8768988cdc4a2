"""What the server keeps of each visitor: their pieces under unguessable names, in a folder that is emptied."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from app.service import Piece
from app.web.server.folder import ServerFolder

MOST_SESSIONS = 200
MOST_OF_ONE = 60  # of one client, as of a class behind one address
IDLE_SECONDS = 3600
NEW_SECONDS = 30  # a page that has just been opened is nobody idle, though it has not said yet that it is there
MOST_ANSWERS = 64  # folders of answers to programs, which are copied when they are handed out
MOST_TUNES = 20  # kept of one session: what the page shows, and about as many from before
MOST_UNDO = 20
SOUND_BYTES = 1 << 30  # of rendered sound, of all sessions


class Full(ValueError):
    """There is no room for one more visitor."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tune:
    """A piece that can be heard and kept; as files it takes a fifth of the memory that its score would."""

    key: str  # names it in addresses; unguessable
    title: str
    midi: bytes
    part: bytes | None = None  # of a continuation: what is new, by itself
    wav: Path  # where its sound goes when it is asked for


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A piece that is, or was, to be continued; without MIDI, the empty beginning."""

    title: str
    midi: bytes | None
    prompt_bars: int | None = None  # as chosen when it was left


@dataclass(kw_only=True, eq=False)
class Session:
    """One visitor."""

    folder: Path
    client: str = ""  # whose; some may share an address
    pages: int = 0  # open in browsers
    sources: list[Source] = field(default_factory=list)  # the last is at work, the others undo
    heard: tuple[Source, str, Piece, Tune] | None = None  # the last source, as a language hears it
    takes: list[Tune] = field(default_factory=list)
    tunes: OrderedDict[str, Tune] = field(default_factory=OrderedDict)
    stop: threading.Event = field(default_factory=threading.Event)
    busy: threading.Lock = field(default_factory=threading.Lock)
    used_seconds: float = field(default_factory=time.monotonic)

    def keep(self, title: str, midi: bytes, part: bytes | None = None) -> Tune:
        """Give a piece a name under which it can be had."""
        key = secrets.token_urlsafe(18)
        tune = Tune(key=key, title=title, midi=midi, part=part, wav=self.folder / f"{key}.wav")
        self.tunes[key] = tune
        while len(self.tunes) > MOST_TUNES:
            self.tunes.popitem(last=False)[1].wav.unlink(missing_ok=True)
        return tune

    def begin(self, source: Source, *, after: bool = False) -> None:
        """Take a piece to work on: a new one, or one that came of the last and can be undone."""
        self.sources = [*(self.sources if after else []), source][-MOST_UNDO:]
        self.heard, self.takes = None, []


class Sessions:
    """All visitors, by the name that the page has for itself; every method is safe in threads."""

    def __init__(self) -> None:
        self._home = ServerFolder()
        self.folder = self._home.path
        self._answers = self.folder / "answers"
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, name: str) -> Session:
        """Return a visitor's session, new or old."""
        return self.admit(name, "")

    def admit(self, name: str, client: str) -> Session:
        """Return a visitor's session; for a new one, those long idle are dropped, or else there is no room."""
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                self._drop_old()
                self._find_room(client)
                folder = Path(tempfile.mkdtemp(dir=self.folder))
                session = self._sessions[name] = Session(folder=folder, client=client)
            session.used_seconds = time.monotonic()
            self._sessions.move_to_end(name)
        return session

    def came(self, name: str) -> None:
        """Note that a visitor's page is open."""
        with self._lock:
            if name in self._sessions:
                self._sessions[name].pages += 1

    def went(self, name: str) -> None:
        """Note that it is not any more."""
        with self._lock:
            if name in self._sessions:
                self._sessions[name].pages -= 1

    def folder_for_answer(self, name: str) -> Path:
        """Return a new folder for files that a program asked for: among its own, if it stays, or a passing one."""
        with self._lock:
            session = self._sessions.get(name)
            home = self._answers if session is None else session.folder
            home.mkdir(exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=home))
            if session is None:
                old = sorted(home.iterdir(), key=lambda path: path.stat().st_mtime)[:-MOST_ANSWERS]
                for path in old:
                    shutil.rmtree(path, ignore_errors=True)
        return folder

    def leave(self, name: str) -> None:
        """Forget a visitor, and stop what still runs for them."""
        with self._lock:
            if name in self._sessions:
                _empty(self._sessions.pop(name))

    def tune(self, key: str) -> Tune | None:
        """Return a piece by its unguessable name."""
        with self._lock:
            found = (session.tunes.get(key) for session in self._sessions.values())
            return next((tune for tune in found if tune), None)

    def make_room(self) -> None:
        """Delete the oldest sounds where all take too much of the disk; they can be made again."""
        with self._lock:
            sounds = [(path.stat(), path) for path in self.folder.glob("*/*.wav")]
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

    def __contains__(self, name: str) -> bool:
        return name in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def _drop_old(self) -> None:
        oldest = time.monotonic() - IDLE_SECONDS
        for name in [name for name, one in self._sessions.items() if _is_idle(one, oldest)]:
            _empty(self._sessions.pop(name))

    def _find_room(self, client: str) -> None:
        """Drop who is idle where there are too many: of the same client, and of all; or raise Full."""
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
                raise Full("as many are here as there is room for; come again in a while")
            _empty(self._sessions.pop(idle))


def _is_idle(session: Session, before: float) -> bool:
    """Say whether nobody has a page of it open, nor anything at work, nor has used it since."""
    return not session.pages and not session.busy.locked() and session.used_seconds < before


def _empty(session: Session) -> None:
    session.stop.set()
    session.tunes.clear()
    shutil.rmtree(session.folder, ignore_errors=True)
