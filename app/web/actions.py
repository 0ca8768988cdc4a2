"""The actions of the page on the server: open a piece, write music, stop.

They take plain values and return plain data, independent of gradio. The server stores nothing of a visitor: the browser
keeps the project and sends the piece with each request.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from app.web.composing.engines import Composing, Limits, Writing
from app.web.composing.opened_files import (
    FileReader,
    Target,
    made_here,
    notices,
    reading_of,
    title_shown,
    with_leading_rest,
)
from app.web.composing.requests import MusicRequest, streamed_takes
from app.web.composing.streamed_takes import StreamedTakes, piece_data
from app.web.offered_models import EXAMPLES, OfferedModels, example
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.pieces import empty_prompt

# A model might never reach the next bar.
LIMITS = Limits(seconds=600, tokens=1 << 15)
FIRST_SECONDS = 0.02  # between checks for the first note
PAUSE_SECONDS = 0.2  # between views of growing music, or more with many requests:
PAUSE_A_REQUEST = 0.05
WAITS_SECONDS = 1.0  # without news, until a view says so: only by sending something is it found that nobody is there
LONGEST_NAME = 64  # of a job


@dataclass
class Wishes:
    """What is asked of a request after it has begun."""

    takes: int
    stop: threading.Event = field(default_factory=threading.Event)
    settled: set[int] = field(default_factory=set)  # takes that stay as they are shown
    job: Writing | None = None  # once it is at work

    def settle(self, take: int) -> None:
        """Let a take stay as it is shown."""
        self.settled.add(take)
        if self.job is not None:
            self.job.settle(take)

    def begin(self, job: Writing) -> None:
        """Tell a job of the takes that were settled before it began."""
        self.job = job
        for take in [*self.settled]:
            job.settle(take)


class Lock:
    """A lock that is dropped with its last user."""

    def __init__(self) -> None:
        self.held = threading.Lock()


class PageActions:
    """The actions of the page."""

    def __init__(
        self,
        models: OfferedModels,
        composer: Composing,
        reader: FileReader,
        place: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        """Act by means of a composer and a reader; a client waits for a `place` to have sound rendered."""
        self.models, self.composer, self.reader, self.place = models, composer, reader, place
        self._jobs: dict[str, Wishes] = {}
        # Held while views are made: those of large pieces, of one client, do not keep all others from the interpreter.
        self._views: WeakValueDictionary[str, Lock] = WeakValueDictionary()
        self._ahead: Writing | None = None  # the last prompt that was read ahead

    def warm(self) -> None:
        """Open the first example and write two tokens, so that no visitor waits for imports and weights."""
        self.open_example(next(iter(EXAMPLES)), "")
        with suppress(ValueError):  # the model is gone by now: its first request reports that
            model = self.models.find(self.models.first)
            work = Continuation(model, empty_prompt(model.language), Request(tokens=2))
            self.composer.take(model, work.order())

    def open(self, data: bytes, name: str, model: str, client: str = "") -> dict[str, Any]:
        """Return a file as the page shows it, as read in the language of a model."""
        piece = self.reader.open(data, name, self.models.language(model), client)
        shown = notices(piece)
        return {
            "title": title_shown(piece, data, name),
            "model": model or self.models.first,
            "piece": piece_data(piece.score, piece.bars),
            "chosen": piece.bars,
            "notices": [{"text": text} for text in shown],
            "remarks": [remark for remark in piece.remarks if remark not in shown],
            "made": made_here(data),
            "reading": reading_of(piece, data, name),
        }

    def open_example(self, name: str, model: str) -> dict[str, Any]:
        """Return an opened example with its file."""
        data = example(name)
        opened = self.open(data, f"{EXAMPLES[name]}.mid", model)
        return {**opened, "file": base64.b64encode(data).decode()}

    def stop(self, job: str) -> None:
        """Stop a request; the notes so far are kept."""
        if found := self._jobs.get(job[:LONGEST_NAME]):
            found.stop.set()

    def settle(self, job: str, take: int) -> None:
        """Keep a take of a request as it is shown, since the user has heard it, whatever the critic prefers."""
        found = self._jobs.get(job[:LONGEST_NAME])
        if found and take < found.takes:
            found.settle(take)

    def write(
        self,
        client: str,
        request: MusicRequest,
        data: bytes | None,
        name: str,
        job: str,
        target: Target | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Write music, into another file if there is a `target`; yield views of the growing variations, then all."""
        with self._named(job, request.variations) as wishes:
            streamed = self._streamed(client, request, data, name, target)
            yield from self._play(streamed, wishes, client)

    def read_ahead(self, client: str, request: MusicRequest, data: bytes, name: str) -> None:
        """Read the prompt of an expected request while the server is idle, so that its first note comes at once."""
        self._stop_reading_ahead()
        stopped = self._ahead is not None and not self._ahead.ended.is_set()
        if self.composer.requests > stopped:
            return
        work = self._streamed(client, replace(request, variations=1, draw=1), data, name).work
        self._ahead = self.composer.take(
            work.model, work.order(), owner=client, limits=Limits(tokens=1)
        )

    def _stop_reading_ahead(self) -> None:
        """Stop reading ahead for the sake of a request; one for the same prompt continues from what has been read."""
        if self._ahead is not None:
            self._ahead.cancel()

    def _streamed(
        self,
        client: str,
        request: MusicRequest,
        data: bytes | None,
        name: str,
        target: Target | None = None,
    ) -> StreamedTakes:
        model = self.models.find(request.model)
        piece = None
        if data is not None:
            piece = self.reader.open(data, name, model.language, client=client)
            piece = target.of(piece) if target else piece
        if piece and request.rest:
            piece = with_leading_rest(piece, request.rest)
        if (
            piece and request.prompt_bars
        ):  # an edited piece may end in empty bars, which are not read
            request = replace(request, prompt_bars=min(request.prompt_bars, piece.bars))
        return streamed_takes(model, piece, request)

    def _play(
        self, streamed: StreamedTakes, wishes: Wishes, client: str
    ) -> Iterator[dict[str, Any]]:
        begun, alone = time.monotonic(), self._views.setdefault(client, Lock())
        with alone.held:
            view = streamed.begun()
        yield view
        with self.at_work(streamed, client) as job:
            wishes.begin(job)
            pause, seen, told = FIRST_SECONDS, 0, time.monotonic()
            while not job.wait(pause):
                if wishes.stop.is_set():
                    job.cancel()
                if time.monotonic() > told + WAITS_SECONDS:
                    yield {"state": "running", "takes": []}
                    told = time.monotonic()
                if job.written == seen:
                    continue
                # A wait counts, so that all views of a client take a fifth of the time at most.
                since = time.monotonic()
                with alone.held:
                    seen = job.written
                    view = streamed.more(job.bars)
                spent = time.monotonic() - since
                if view is not None:
                    yield view
                    told = time.monotonic()
                    many = PAUSE_A_REQUEST * self.composer.requests
                    pause = max(PAUSE_SECONDS, 4 * spent, many)
            spent = time.monotonic() - begun
            state = "stopped" if wishes.stop.is_set() else end_state(job, spent)
        files = partial(self.reader.files, client=client)
        with alone.held:
            view = streamed.finished(state, spent, files, {*wishes.settled})
        yield view

    @contextmanager
    def at_work(self, streamed: StreamedTakes, client: str) -> Iterator[Writing]:
        """Run a job until it ends, the context is left, or a limit is reached; raise its error."""
        self._stop_reading_ahead()
        work = streamed.work
        job = work.job = self.composer.take(work.model, work.order(), owner=client, limits=LIMITS)
        try:
            yield job
        finally:
            job.cancel()
        work.check()

    @contextmanager
    def _named(self, job: str, takes: int) -> Iterator[Wishes]:
        wishes, name = Wishes(takes), job[:LONGEST_NAME]
        if name:  # a job without a name could be stopped by anybody
            self._jobs[name] = wishes
        try:
            yield wishes
        finally:
            if self._jobs.get(name) is wishes:
                del self._jobs[name]


def end_state(job: Writing, seconds: float) -> str:
    """Return how a job ended by itself: "done", "late" (limit of time or tokens), or "bound" (model's length)."""
    if job.bound is not None:
        return "bound"
    return "late" if seconds > LIMITS.seconds or job.steps >= LIMITS.tokens else "done"
