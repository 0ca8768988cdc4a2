"""What the server knows of those who are there: whose page is open, who waits, how much each has asked for.

A job whose client is gone ends, in line or at work; and what nobody fetched is swept away.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.web.server.names import Refused
from app.web.server.sessions import Full, Sessions

MOST_JOBS = 24  # of one client, in line and at work …
FEW_JOBS = 4  # … where MOST_JOBS are there of all: the other places are for others
GONE_SECONDS = 20  # without anybody who reads, a job has lost its client
SWEEP_SECONDS = 2
FORGET_SECONDS = 60  # after which answers that nobody reads are dropped
HALF_SECONDS = 60  # an upload that is still unfinished then has broken off
SPARED_SECONDS = 60  # younger files are not deleted to make room: somebody is at it
FILES_BYTES = 64 << 20  # of uploads and of copies that are handed out
MOST_FILES = 2000


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Who wants something done, and until when they are there."""

    name: str  # of the session
    client: str  # whose turns are shared among all that they ask for
    is_gone: Callable[[float], bool] = lambda since: False


class Keeper:
    """Counts readers, open pages and jobs; `blocks` is gradio's, once it is there."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.blocks: Any = None
        self._readers: Counter[str] = Counter()
        self._read: dict[str, float] = {}  # when somebody last read, by session
        self._unread: dict[str, float] = {}  # since when answers are there that nobody reads

    @contextmanager
    def stays(self, name: str, client: str) -> Iterator[None]:
        """Note that somebody's page is open for as long as this lasts."""
        self.admit(name, client)
        self.sessions.came(name)
        try:
            yield
        finally:
            self.sessions.went(name)

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

    def admit(self, name: str, client: str) -> None:
        """Let a visitor in, if there is room."""
        try:
            self.sessions.admit(name, client)
        except Full as full:
            raise Refused(429, str(full)) from None

    def asker(self, request: Any) -> Asker:
        """Return who sent a request of gradio's."""
        name, client = str(request.session_hash), _client(request)
        return Asker(name=name, client=client, is_gone=lambda since: self.is_gone(name, since))

    def is_gone(self, name: str, since: float) -> bool:
        """Say whether nobody has read a session's answers for a while; `since` is when the job began."""
        last = max(since, self._read.get(name, 0.0))
        return not self._readers[name] and time.monotonic() > last + GONE_SECONDS

    def check_function(self, number: object) -> None:
        """Refuse a call of what gradio does not know by that number."""
        if self.blocks is not None and number is not None and number not in list(self.blocks.fns):
            raise Refused(404, "there is no function of that number; open the page again")

    def check_jobs(self, client: str) -> None:
        """Refuse one more job of a client that has many, as many as leave room for others."""
        events = self._events()
        jobs = sum(_client(event.request) == client for event in events)
        if jobs >= (MOST_JOBS if len(events) < MOST_JOBS else FEW_JOBS):
            raise Refused(
                429, f"{jobs} of your requests are at work or in line; wait for one of them"
            )

    def session_with_answers(self, name: str) -> str:
        """Return the name of a session for which there are answers, or will be."""
        if self.blocks is None or name not in self.blocks._queue.pending_messages_per_session:
            raise Refused(404, "nothing was asked for in this session, so there is nothing to read")
        return name

    def session_of_job(self, job: str) -> str:
        """Return the session of a job by the number that the job was given."""
        queue = self.blocks._queue if self.blocks is not None else None
        if queue is not None and job in queue.event_ids_to_events:
            return queue.event_ids_to_events[job].session_hash
        for name, jobs in queue.pending_event_ids_session.items() if queue is not None else ():
            if job in jobs:
                return name
        raise Refused(404, "there is no such request any more; send it again")

    def answered(self, name: str | None) -> None:
        """Drop what gradio keeps of a session (0.1 MB) where nobody will come back to it: of a single call."""
        if name is not None and name not in self.sessions and self.blocks is not None:
            self.blocks.state_holder.session_data.pop(name, None)
            self.blocks.state_holder.time_last_used.pop(name, None)

    def sweeping(self, uploads: Path) -> Any:
        """Return what a server sweeps by for as long as it lives."""

        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncIterator[None]:
            task = asyncio.create_task(self.sweep(uploads))
            try:
                yield
            finally:
                task.cancel()

        return lifespan

    async def sweep(self, uploads: Path) -> None:
        """Again and again: end jobs that have lost their clients, and drop what nobody came for."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            if self.blocks is None:
                continue
            queue = self.blocks._queue
            for event in self._events():
                if event.alive and self.is_gone(event.session_hash, event.enqueue_time):
                    queue.send_message(event, _ended())  # for who comes later after all
                    await queue.clean_events(event_id=event._id)
            self._forget(queue)
            await asyncio.to_thread(delete_broken_off, uploads)

    def _forget(self, queue: Any) -> None:
        alive = {event.session_hash for event in self._events()}
        now, waits = time.monotonic(), queue.pending_messages_per_session
        for name in [*waits]:
            if name in alive or self._readers[name]:
                self._unread.pop(name, None)
            elif now > self._unread.setdefault(name, now) + FORGET_SECONDS:
                waits.pop(name, None)
                queue.pending_event_ids_session.pop(name, None)
        for known in (self._unread, self._read):
            for name in [*known]:
                if name not in waits:
                    del known[name]

    def _events(self) -> list[Any]:
        return [] if self.blocks is None else [*self.blocks._queue.event_ids_to_events.values()]

    def make_room(self, folder: Path, size: int) -> None:
        """Delete the oldest files where there is no room for one more; refuse it where all are new."""
        found = _files(folder)
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
            raise Refused(
                507, "too many files have come in the last minute; send it again in a while"
            )


def _ended() -> Any:
    from gradio.server_messages import ProcessCompletedMessage

    said = "Nobody was there to take the answer, so the work was ended; send it again."
    return ProcessCompletedMessage(output={"error": said}, success=False)


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


def _files(folder: Path) -> list[tuple[Any, Path]]:
    found = []
    for path in folder.rglob("*"):
        with suppress(OSError):
            stat = path.lstat()
            if not path.is_dir():
                found.append((stat, path))
    return found


def _client(request: Any) -> str:
    return request.client.host if request.client else ""
