"""A server that is ended in the middle of music ends in order."""

import signal
import time

from gradio_client import Client

from tests.app.web.browser import Server, started


def ends_in_order(server: Server) -> None:
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(120) == 130
    assert server.said() == f"The page is at {server.address}/ (Ctrl-C ends it).\n"


def test_ended_while_it_plays_it_says_nothing_and_is_not_aborted():
    with started("--model", "untrained:tiny:groove") as server:
        client = Client(server.address, verbose=False)
        playing = client.submit(None, "groove", bars=128, api_name="/continue")
        late = time.monotonic() + 60
        while playing.status().code.name != "PROCESSING" and time.monotonic() < late:
            time.sleep(0.05)
        time.sleep(1)  # the music is under way
        assert not playing.done()
        ends_in_order(server)
        client.close()


def test_ended_as_it_begins_it_says_nothing_of_what_it_had_begun():
    with started("--model", "untrained:tiny:groove", module="tests.app.web.slow_end_app") as server:
        late = time.monotonic() + 60
        while (
            not server.said() and time.monotonic() < late
        ):  # it answers a little before it says so
            time.sleep(0.05)
        ends_in_order(server)
