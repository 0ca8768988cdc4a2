"""One client has so many jobs, and leaves room for others'; jobs end once, whoever ends them; what fails is told."""

import asyncio
import errno
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import gradio
import pytest
from gradio.queueing import Queue

from app.web.launch import FAULT, FULL_DISK, tell_errors
from app.web.server import jobs as module
from app.web.server import sessions as visits
from app.web.server.jobs import Jobs, let_ends_meet
from app.web.server.names import Refused
from app.web.server.sessions import Sessions, Visitors


def done(work: Coroutine) -> Any:
    """Return what comes of some work, in a thread that has no loop yet."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class Waiting(SimpleNamespace):
    """A queue with jobs of clients, each in a session of the client's name, with its answers."""

    def __init__(self, **of: int) -> None:
        clients = [client for client, number in of.items() for _ in range(number)]
        events = {
            f"{number}": SimpleNamespace(
                _id=f"{number}", alive=True, session_hash=client, enqueue_time=0.0,
                request=SimpleNamespace(client=SimpleNamespace(host=client)),
            )
            for number, client in enumerate(clients)
        }  # fmt: skip
        super().__init__(event_ids_to_events=events, ended=[])
        self.pending_messages_per_session = dict.fromkeys(of)
        self.pending_event_ids_session = {client: {f"of {client}"} for client in of}

    def send_message(self, event: Any, message: Any) -> None:
        assert not message.success

    async def clean_events(self, event_id: str) -> None:
        self.ended.append(self.event_ids_to_events.pop(event_id).session_hash)


@pytest.fixture
def visitors():
    sessions = Sessions()
    sessions.close()
    return Visitors(sessions)


def jobs_of(visitors: Visitors, queue: Waiting) -> Jobs:
    return Jobs(visitors, SimpleNamespace(_queue=queue, fns={3: None}))


def test_jobs_of_one_client_leave_room_for_others(visitors: Visitors):
    jobs_of(visitors, Waiting(greedy=23)).check_room("greedy")
    full = jobs_of(visitors, Waiting(greedy=24))
    with pytest.raises(Refused, match="24 of your requests"):
        full.check_room("greedy")
    full.check_room("other")
    full = jobs_of(visitors, Waiting(greedy=24, other=4))
    with pytest.raises(Refused, match="4 of your requests"):
        full.check_room("other")
    full.check_room("third")
    full.check_function(3)
    with pytest.raises(Refused):
        full.check_function(4)


def test_answers_have_one_reader_and_go_to_whom_they_are_for(visitors: Visitors):
    jobs = jobs_of(visitors, Waiting(somebody=1))
    for job in ("0", "of somebody"):  # at work, and done
        with jobs.being_read(job) as name:
            assert name == "somebody"
            with pytest.raises(Refused) as refused, jobs.being_read(job):
                pass
            assert refused.value.status == 409
        with jobs.being_read(job):
            pass
    assert jobs.session_with_answers("somebody") == "somebody"
    for unknown in (lambda: jobs.session_of_job("9"), lambda: jobs.session_with_answers("x")):
        with pytest.raises(Refused):
            unknown()


def test_jobs_that_nobody_waits_for_end_and_their_answers_go(visitors: Visitors, monkeypatch):
    queue = Waiting(here=1, gone=2)
    jobs = jobs_of(visitors, queue)
    monkeypatch.setattr(visits, "GONE_SECONDS", 0)
    with visitors.reads("here"):
        done(jobs.end_abandoned())
        assert queue.ended == ["gone", "gone"]
        done(jobs.end_abandoned())
        assert {*queue.pending_messages_per_session} == {"here", "gone"}  # for a minute
        monkeypatch.setattr(module, "FORGET_SECONDS", -1)
        done(jobs.end_abandoned())
    assert {*queue.pending_messages_per_session} == {*queue.pending_event_ids_session} == {"here"}


def test_a_job_may_be_cancelled_while_it_ends():
    """With gradio's own queue, in which both wait for the lock before they delete what is to be deleted once."""

    async def late():
        try:
            yield
        finally:
            await asyncio.sleep(0)

    async def both() -> list[object]:
        queue = Queue(True, {}, 1.0, None, SimpleNamespace(fns={}))  # type: ignore[arg-type]
        job, lock = late(), asyncio.Lock()
        queue.server_app = SimpleNamespace(iterators={"job": job}, lock=lock)  # type: ignore[assignment]
        await anext(job)
        let_ends_meet(queue, ended.append)
        ends = (queue.reset_iterators("job") for _ in range(2))
        return await asyncio.gather(*ends, return_exceptions=True)

    ended: list[str | None] = []
    assert done(both()) == [None, None]
    assert {*ended} == {"job"}  # so that what gradio keeps of it goes, whoever left it midway


def test_gradio_keeps_a_record_of_visitors_alone(visitors: Visitors, monkeypatch):
    views = iter([{"is_generating": True}, {"is_generating": True}, {"is_generating": False}])
    kept: dict[str, object] = {"job": 1, "page": 1}

    async def view(**_: str) -> dict[str, bool]:
        return next(views)

    blocks = SimpleNamespace(preprocess_data=view, process_api=view)
    held = SimpleNamespace(session_data=kept, time_last_used=dict(kept))
    jobs = Jobs(visitors, SimpleNamespace(state_holder=held))
    monkeypatch.setattr(Sessions, "__contains__", lambda self, name: name == "page")
    tell_errors(blocks, jobs.answered)
    for left in (2, 2, 1):  # not made anew for each view
        done(blocks.process_api(session_hash="job"))
        assert len(kept) == len(held.time_last_used) == left
    jobs.answered("page")
    assert [*kept] == ["page"]


@pytest.mark.parametrize(
    ("error", "read", "processed"),
    [
        (OSError(errno.ENOSPC, "full"), FULL_DISK, FULL_DISK),
        (ValueError("bars is four"), "Bars is four.", FAULT),
        (KeyError("secret"), "A value is of another kind than is wanted.", FAULT),
        (gradio.Error("No."), "No.", "No."),
    ],
)
def test_what_fails_is_told_in_a_sentence(error: Exception, read: str, processed: str):
    async def fails(*_: object, **__: object) -> None:
        raise error

    blocks = SimpleNamespace(preprocess_data=fails, process_api=fails)
    tell_errors(blocks, lambda name: None)
    for work, said in ((blocks.preprocess_data(None, []), read), (blocks.process_api(), processed)):
        with pytest.raises(gradio.Error) as raised:
            done(work)
        assert raised.value.message == said
