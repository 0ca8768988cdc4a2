"""One client has so many jobs, and leaves room for others'."""

from types import SimpleNamespace

import pytest

from app.web.server.jobs import Jobs
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
