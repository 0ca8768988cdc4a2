"""One client has so many jobs, and leaves room for others'; jobs end once, whoever ends them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from gradio.queueing import Queue

from app.web.launch import tell_errors
from app.web.server.jobs import Jobs, let_ends_meet, spare
from app.web.server.names import Refused
from app.web.server.sessions import Sessions, Visitors


def gradios_queue() -> Queue:
    return Queue(True, {}, 1.0, None, SimpleNamespace(fns={}))  # type: ignore[arg-type]


def test_jobs_of_one_client_leave_room_for_others():
    sessions = Sessions()
    sessions.close()
    visitors = Visitors(sessions)

    def jobs(**of: int) -> Jobs:
        events = [
            SimpleNamespace(request=SimpleNamespace(client=SimpleNamespace(host=client)))
            for client, number in of.items()
            for _ in range(number)
        ]
        queue = SimpleNamespace(event_ids_to_events=dict(enumerate(events)))
        return Jobs(visitors, SimpleNamespace(_queue=queue))

    jobs(greedy=23).check_room("greedy")
    looked_after = jobs(greedy=24)
    with pytest.raises(Refused, match="24 of your requests"):
        looked_after.check_room("greedy")
    looked_after.check_room("other")
    looked_after = jobs(greedy=24, other=4)
    with pytest.raises(Refused, match="4 of your requests"):
        looked_after.check_room("other")
    looked_after.check_room("third")


def test_a_job_may_be_cancelled_while_it_ends():
    """With gradio's own queue, in which both wait for the lock before they delete what is to be deleted once."""

    async def late():
        try:
            yield
        finally:
            await asyncio.sleep(0)

    async def both() -> list[object]:
        queue = gradios_queue()
        queue.server_app = SimpleNamespace(iterators={"job": late()}, lock=asyncio.Lock())  # type: ignore[assignment]
        await anext(queue.server_app.iterators["job"])
        let_ends_meet(queue, ended.append)
        return await asyncio.gather(
            *(queue.reset_iterators("job") for _ in range(2)), return_exceptions=True
        )

    ended: list[str | None] = []
    with ThreadPoolExecutor(1) as thread:  # which has no loop yet
        assert thread.submit(asyncio.run, both()).result() == [None, None]
    assert {*ended} == {"job"}  # so that what gradio keeps of it goes, whoever left it midway


def test_gradio_makes_no_record_of_a_visitor_anew_for_each_view():
    views = iter([{"is_generating": True}, {"is_generating": True}, {"is_generating": False}])
    dropped: list[str | None] = []

    async def view(**_: str) -> dict[str, bool]:
        return next(views)

    async def all_of_them() -> list[int]:
        counts = []
        for _ in range(3):
            await blocks.process_api(session_hash="job")
            counts.append(len(dropped))
        return counts

    blocks = SimpleNamespace(preprocess_data=view, process_api=view)
    tell_errors(blocks, dropped.append)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, all_of_them()).result() == [0, 0, 1]


def test_an_ended_job_is_not_counted_in_a_table():
    async def counted() -> None:
        queue = gradios_queue()
        own = {*vars(queue), *dir(type(queue))}
        spare(queue)
        assert {*vars(queue)} <= own  # what is set is what gradio goes by
        queue._get_df = lambda records: pytest.fail("a table of all jobs")  # type: ignore[method-assign]
        queue.events_recorded = 100
        queue.compute_analytics_summary([{"function": "sound", "status": "success"}])

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, counted()).result()
