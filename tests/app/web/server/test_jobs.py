"""One client has so many jobs, and leaves room for others'; jobs end once, whoever ends them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from gradio.queueing import Queue

from app.web.server.jobs import Jobs, let_ends_meet
from app.web.server.names import Refused
from app.web.server.sessions import Sessions
from app.web.server.visitors import Visitors


def test_jobs_of_one_client_leave_room_for_others():
    sessions = Sessions()
    sessions.close()
    looked_after = Jobs(Visitors(sessions))

    def jobs(**of: int) -> None:
        events = [
            SimpleNamespace(request=SimpleNamespace(client=SimpleNamespace(host=client)))
            for client, number in of.items()
            for _ in range(number)
        ]
        queue = SimpleNamespace(event_ids_to_events=dict(enumerate(events)))
        looked_after.blocks = SimpleNamespace(_queue=queue)

    jobs(greedy=23)
    looked_after.check_room("greedy")
    jobs(greedy=24)
    with pytest.raises(Refused, match="24 of your requests"):
        looked_after.check_room("greedy")
    looked_after.check_room("other")
    jobs(greedy=24, other=4)
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
        queue = Queue(True, {}, 1.0, None, SimpleNamespace(fns={}))  # type: ignore[arg-type]
        queue.server_app = SimpleNamespace(iterators={"job": late()}, lock=asyncio.Lock())  # type: ignore[assignment]
        await anext(queue.server_app.iterators["job"])
        let_ends_meet(queue)
        return await asyncio.gather(
            *(queue.reset_iterators("job") for _ in range(2)), return_exceptions=True
        )

    with ThreadPoolExecutor(1) as thread:  # which has no loop yet
        assert thread.submit(asyncio.run, both()).result() == [None, None]
