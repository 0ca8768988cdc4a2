"""The jobs that visitors have in line and at work: how many one may have, and their end when nobody waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from app.web.server.names import Refused
from app.web.server.sessions import Visitors, client_of

# How many requests the server takes at a time, of all visitors together.

IN_LINE = 64  # requests that wait; more are told to come later
TOGETHER = 48  # requests at work, in turns; the others wait
THREADS = 3 * TOGETHER  # they, as many that read files, and what is answered at once


MOST_JOBS = 24  # of one client, in line and at work …
FEW_JOBS = 4  # … where MOST_JOBS are there of all: the other places are for others
FORGET_SECONDS = 60  # after which answers that nobody reads are dropped
# Between two looks of an idle queue for jobs (gradio's own thousand a second are felt), and for progress that jobs tell
# by its means, which none here does.
LOOK_SECONDS, PROGRESS_SECONDS = 0.01, 1.0


class Jobs:
    """Looks after the queue of gradio's `blocks`."""

    def __init__(self, visitors: Visitors, blocks: Any) -> None:
        self.blocks, self._visitors = blocks, visitors
        # Since when answers are there that nobody reads, by session.
        self._unread: dict[str, float] = {}
        self._being_read: set[str] = set()  # jobs

    def check_function(self, number: object) -> None:
        """Refuse a call of what gradio does not know by that number."""
        if number is not None and number not in list(self.blocks.fns):
            raise Refused(404, "there is no function of that number; open the page again")

    def check_room(self, client: str) -> None:
        """Refuse one more job of a client that has many, as many as leave room for others."""
        events = self._events()
        jobs = sum(client_of(event.request) == client for event in events)
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
        queue = self.blocks._queue
        if job in queue.event_ids_to_events:
            return queue.event_ids_to_events[job].session_hash
        for name, jobs in queue.pending_event_ids_session.items():
            if job in jobs:
                return name
        raise Refused(404, "there is no such request any more; send it again")

    @contextmanager
    def being_read(self, job: str) -> Iterator[str]:
        """Give the session of a job to the one who reads its answers: to another, gradio would send none for ever."""
        name = self.session_of_job(job)
        if job in self._being_read:
            raise Refused(409, "the answer to this request is being read already; send it again")
        self._being_read.add(job)
        try:
            yield name
        finally:
            self._being_read.discard(job)

    def answered(self, name: str | None) -> None:
        """Drop what gradio keeps of a session (0.1 MB) where nobody will come back to it: of a single call."""
        if name is not None and name not in self._visitors.sessions:
            self.blocks.state_holder.session_data.pop(name, None)
            self.blocks.state_holder.time_last_used.pop(name, None)

    async def end_abandoned(self) -> None:
        """End jobs that have lost their clients, and drop answers that nobody came for."""
        queue = self.blocks._queue
        for event in self._events():
            if event.alive and self._visitors.is_gone(event.session_hash, event.enqueue_time):
                queue.send_message(event, _ended())  # for who comes later after all
                await queue.clean_events(event_id=event._id)
        self._forget(queue)

    def _forget(self, queue: Any) -> None:
        alive = {event.session_hash for event in self._events()}
        now, waits = time.monotonic(), queue.pending_messages_per_session
        for name in [*waits]:
            if name in alive or self._visitors.is_read(name):
                self._unread.pop(name, None)
            elif now > self._unread.setdefault(name, now) + FORGET_SECONDS:
                waits.pop(name, None)
                queue.pending_event_ids_session.pop(name, None)
        for name in [name for name in self._unread if name not in waits]:
            del self._unread[name]
        self._visitors.forget_readers(waits)

    def _events(self) -> list[Any]:
        return [*self.blocks._queue.event_ids_to_events.values()]


def let_ends_meet(queue: Any, answered: Callable[[str | None], None]) -> None:
    """Let a job be cancelled at the moment at which it ends: the later of the two finds nothing, which is no fault.

    `answered` is called with each: who asks once has a session of the job's own name.
    """
    reset = queue.reset_iterators

    async def reset_once(event_id: str) -> None:
        with suppress(KeyError):
            await reset(event_id)
        answered(event_id)

    queue.reset_iterators = reset_once


def spare(queue: Any) -> None:
    """Take from gradio's queue what costs time and is for nothing here."""
    queue.sleep_when_free = LOOK_SECONDS
    queue.progress_update_sleep_when_free = PROGRESS_SECONDS
    # After each job it would count the last 10,000 by function, in a table of pandas, for a page that is closed here.
    queue.ANALYTICS_MAX_EVENTS = 1
    queue.compute_analytics_summary = lambda records: {}


def _ended() -> Any:
    from gradio.server_messages import ProcessCompletedMessage

    message = "Nobody was there to take the answer, so the work was ended; send it again."
    return ProcessCompletedMessage(output={"error": message}, success=False)
