"""A server that is ended in the middle of music ends in order."""

import signal
import time

from gradio_client import Client

from tests.app.web.browser import started


def test_ended_while_it_plays_it_says_nothing_and_is_not_aborted():
    with started("--model", "untrained:tiny:groove") as server:
        client = Client(server.address, verbose=False)
        playing = client.submit(None, "groove", bars=128, api_name="/continue")
        late = time.monotonic() + 60
        while playing.status().code.name != "PROCESSING" and time.monotonic() < late:
            time.sleep(0.05)
        time.sleep(1)  # the music is under way
        assert not playing.done()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 130
        (said,) = server.said().splitlines()
        assert "The page is at" in said
        client.close()
