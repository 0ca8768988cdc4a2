"""Load test with honest and hostile visitors on this machine: python -m tests.tools.page.siege --minutes 30.

Honest visitors use the page as in load.py, first alone, then together with hostile ones, whose requests are too large,
wrong, incomplete or abandoned. Each visitor has its own loopback address. Prints the honest visitors' waiting times in
both parts, the answers to the hostile ones, and the server's memory, threads and open files at the start and the end.
The exit code is 1 if an honest visitor met an error, if the median time to the first note more than doubled, if the
server has died, or if its log has a traceback.
"""

import asyncio
import secrets
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import numpy as np
import psutil

from app.web.offered_models import example
from musicgen.common.processes import CONTEXT
from tests.app.web.browser import Server, started
from tests.tokenization.notation import scores
from tests.tools.options import options
from tests.tools.page import load
from tests.tools.page.load import FIRST, visitor_from

API = "/gradio_api"
FILE = {"meta": {"_type": "gradio.FileData"}}
MOST_RATIO = 2.0
LONG = [None, "", 0, 128, 8, 1, 0.95, 0, 0.02, 1, False, ""]  # the longest continuation allowed
PAUSE_SECONDS = 0.05  # between the requests of a hostile visitor
SLOW = scores.compressed(scores.score(scores.bars(*["<note><rest/></note>" * 9900] * 40)))
HALVES = 200  # connections with an incomplete request


Client = httpx.AsyncClient


async def breaks_off(client: Client) -> httpx.Response:
    """Disconnect in the middle of an upload."""

    async def half() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.mid"\r\n\r\n'
        yield example("trio-jazz")
        raise httpx.ReadError("enough")

    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return await client.post(f"{API}/upload", content=half(), headers=kind)


async def wrong_values(client: Client) -> httpx.Response:
    """Send invalid values and read the answer."""
    asked = await client.post(
        f"{API}/call/read", json={"data": [{"path": "/etc/passwd", **FILE}, 7]}
    )
    if asked.status_code != 200:
        return asked
    return await client.get(f"{API}/call/read/{asked.json()['event_id']}")


async def slow_to_read(client: Client) -> httpx.Response:
    """Send a score with as many elements as allowed and never read the answer."""
    sent = await client.post(f"{API}/upload", files={"files": ("a.mxl", SLOW)})
    if sent.status_code != 200:
        return sent
    file = {"path": sent.json()[0], **FILE}
    return await client.post(f"{API}/call/read", json={"data": [file, ""]})


NUMBERS = b'{"data":[' + b"1," * 700_000 + b"1]}"
FOREIGN = {"Origin": "http://elsewhere.example", "Host": "elsewhere.example"}
HOSTILE: dict[str, Callable[[Client], Awaitable[httpx.Response]]] = {
    "sends megabytes of numbers": lambda it: it.post(f"{API}/run/predict", content=NUMBERS),
    "never reads the longest work": lambda it: it.post(f"{API}/call/continue", json={"data": LONG}),
    "opens the page again and again": lambda it: it.post(
        "/desk/open", data={"ask": '{"example": "trio-jazz"}'}
    ),
    "fills the disk": lambda it: it.post(
        f"{API}/upload", files={"files": ("a.mid", secrets.token_bytes(1_000_000))}
    ),
    "breaks off": breaks_off,
    "asks with wrong values": wrong_values,
    "is slow to read": slow_to_read,
    "comes from another site": lambda it: it.post(f"{API}/upload", content=b"", headers=FOREIGN),
}


async def molest(address: str, number: int, late: float, met: Counter[str]) -> None:
    """Send one kind of hostile request until the deadline."""
    name, act = [*HOSTILE.items()][number % len(HOSTILE)]
    async with visitor_from(address, 100 + number) as client:
        while time.monotonic() < late:
            try:
                met[f"{name}: {(await act(client)).status_code}"] += 1
            except httpx.HTTPError:
                met[f"{name}: hung up on"] += 1
            await asyncio.sleep(PAUSE_SECONDS)


async def hold(address: str, late: float, met: Counter[str]) -> None:
    """Keep many connections open with an incomplete request, and replace those that are closed."""
    host, port = address.removeprefix("http://").split(":")

    async def one() -> None:
        while time.monotonic() < late:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"GET / HTTP/1.1\r\nHost: loc")
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(reader.read(1), max(0.1, late - time.monotonic()))
                    met["half a request: hung up on"] += 1
                writer.close()
            await asyncio.sleep(PAUSE_SECONDS)

    await asyncio.gather(*(one() for _ in range(HALVES)))


def held_by(server: Server) -> str:
    """Return the resources that the server uses."""
    process = psutil.Process(server.process.pid)
    processes, threads, files = [process, *process.children(recursive=True)], 0, 0
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            threads += one.num_threads()
            files += one.num_fds()
    memory, free = load.memory_bytes(processes) >> 20, psutil.virtual_memory().available >> 20
    return f"{memory} MB, {len(processes)} processes, {threads} threads, {files} open files; {free} MB free"


def attack(address: str, count: int, seconds: float) -> Counter:
    """Run the hostile visitors; return the answers they got."""
    met, late = Counter(), time.monotonic() + seconds

    async def all_of_them() -> None:
        visitors = (molest(address, number, late, met) for number in range(count))
        await asyncio.gather(hold(address, late, met), *visitors)

    asyncio.run(all_of_them())
    return met


async def besiege(server: Server, given: Any) -> int:
    """Run both parts and print the measurements."""
    alone, besieged, errors = defaultdict(list), defaultdict(list), []

    def honest(seconds: float, times: dict, errors: list[str] = errors) -> Awaitable[None]:
        return load.visit(server.address, given.honest, seconds, given.bars, times, errors)

    await honest(20, defaultdict(list), [])  # warm up
    print(f"at the start: {held_by(server)}", flush=True)
    seconds = 60 * given.minutes
    await honest(0.25 * seconds, alone)
    # In a separate process, so that the hostile visitors do not slow down the honest ones here.
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        attacked = pool.submit(attack, server.address, given.hostile, 0.75 * seconds)
        await honest(0.75 * seconds, besieged)
        met = await asyncio.wrap_future(attacked)
    await asyncio.sleep(min(60, 0.1 * seconds))  # let the server clean up
    print(f"at the end:   {held_by(server)}", load.HEAD, sep="\n")
    for name in (load.OPENED, FIRST, load.WHOLE):
        print(
            load.row(f"{name}, alone", alone[name]),
            load.row(f"{name}, under siege", besieged[name]),
            sep="\n",
        )
    waits = [float(np.median(times[FIRST] or [np.nan])) for times in (alone, besieged)]
    ratio = waits[1] / waits[0]
    print(
        f"first note alone and under siege: {waits[0]:.2f} and {waits[1]:.2f} s, a ratio of {ratio:.2f}"
    )
    print("honest visitors met", load.counted(errors))
    for what, count in sorted(met.items()):
        print(f"{count:>8} × {what}")
    faults = server.said().partition("Traceback")
    print(
        f"the server's log has {'a traceback: ' if faults[1] else 'no traceback'}{''.join(faults[1:])[:3000]}"
    )
    is_well = server.process.poll() is None and not errors and not faults[1]
    return 0 if is_well and ratio <= MOST_RATIO else 1


def main() -> int:
    """Start a server and run the siege."""
    hostile = 2 * len(HOSTILE)
    given = options(__doc__, minutes=30.0, honest=2, hostile=hostile, bars=4, model="ensemble")
    with started("--model", given.model) as server:
        return asyncio.run(besiege(server, given))


if __name__ == "__main__":
    sys.exit(main())
