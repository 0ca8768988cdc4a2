"""Honest visitors beside hostile ones, on this machine alone: python -m tests.tools.page.siege --minutes 30.

Honest ones use the page as those of load.py do, first alone, then beside hostile ones, which send what is too
large, wrong, half or never asked for again. Each comes from an address of its own below 127, as from another machine.
Printed are the honest ones' waits in both parts, what the hostile ones were answered, and the server's memory, threads
and open files at the start and at the end. The exit code is 1 if an honest one met an error, or waited more than twice
as long for the first note, by the median, as alone; or if the server is gone, or has told of a fault in its log.
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
LONG = [None, "", 0, 128, 8, 1, 0.95, 0, 0.02, 1, False, ""]  # the longest continuation there is
PAUSE_SECONDS = 0.05  # of a hostile one, between two requests
SLOW = scores.compressed(scores.score(scores.bars(*["<note><rest/></note>" * 9900] * 40)))
HALVES = 200  # connections with half a request


Client = httpx.AsyncClient


async def breaks_off(client: Client) -> httpx.Response:
    """Upload, and hang up in the middle."""

    async def half() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.mid"\r\n\r\n'
        yield example("trio-jazz")
        raise httpx.ReadError("enough")

    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return await client.post(f"{API}/upload", content=half(), headers=kind)


async def wrong_values(client: Client) -> httpx.Response:
    """Ask with values that are none, and read the answer."""
    asked = await client.post(
        f"{API}/call/read", json={"data": [{"path": "/etc/passwd", **FILE}, 7]}
    )
    if asked.status_code != 200:
        return asked
    return await client.get(f"{API}/call/read/{asked.json()['event_id']}")


async def slow_to_read(client: Client) -> httpx.Response:
    """Send a score of as many elements as can be, and never read what it was found to be."""
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
    """Be hostile in one way until it is late."""
    name, act = [*HOSTILE.items()][number % len(HOSTILE)]
    async with visitor_from(address, 100 + number) as client:
        while time.monotonic() < late:
            try:
                met[f"{name}: {(await act(client)).status_code}"] += 1
            except httpx.HTTPError:
                met[f"{name}: hung up on"] += 1
            await asyncio.sleep(PAUSE_SECONDS)


async def hold(address: str, late: float, met: Counter[str]) -> None:
    """Keep many connections with half a request, and open new ones for those that are closed."""
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
    """Return what the server has of the machine."""
    process = psutil.Process(server.process.pid)
    processes, threads, files = [process, *process.children(recursive=True)], 0, 0
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            threads += one.num_threads()
            files += one.num_fds()
    memory, free = load.memory_bytes(processes) >> 20, psutil.virtual_memory().available >> 20
    return f"{memory} MB, {len(processes)} processes, {threads} threads, {files} open files; {free} MB free"


def attack(address: str, count: int, seconds: float) -> Counter:
    """Let the hostile ones loose; returns what they met."""
    met, late = Counter(), time.monotonic() + seconds

    async def all_of_them() -> None:
        visitors = (molest(address, number, late, met) for number in range(count))
        await asyncio.gather(hold(address, late, met), *visitors)

    asyncio.run(all_of_them())
    return met


async def besiege(server: Server, given: Any) -> int:
    """Run both parts, and print."""
    alone, beside, errors = defaultdict(list), defaultdict(list), []

    def honest(seconds: float, times: dict, errors: list[str] = errors) -> Awaitable[None]:
        return load.visit(server.address, given.honest, seconds, given.bars, times, errors)

    await honest(20, defaultdict(list), [])  # until it is warm
    print(f"at the start: {held_by(server)}", flush=True)
    seconds = 60 * given.minutes
    await honest(0.25 * seconds, alone)
    # In a process of their own: in this one, the honest ones would wait for what the others are at.
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        attacked = pool.submit(attack, server.address, given.hostile, 0.75 * seconds)
        await honest(0.75 * seconds, beside)
        met = await asyncio.wrap_future(attacked)
    await asyncio.sleep(min(60, 0.1 * seconds))  # for what is left to be swept away
    print(f"at the end:   {held_by(server)}", load.HEAD, sep="\n")
    for name in (load.OPENED, FIRST, load.WHOLE):
        print(
            load.row(f"{name}, alone", alone[name]),
            load.row(f"{name}, besieged", beside[name]),
            sep="\n",
        )
    waits = [float(np.median(times[FIRST] or [np.nan])) for times in (alone, beside)]
    ratio = waits[1] / waits[0]
    print(
        f"first note alone and besieged: {waits[0]:.2f} and {waits[1]:.2f} s, {ratio:.2f} times as long"
    )
    print("honest visitors met", load.counted(errors))
    for what, count in sorted(met.items()):
        print(f"{count:>8} × {what}")
    faults = server.said().partition("Traceback")
    print(
        f"the server's log tells of {'a fault: ' if faults[1] else 'no fault'}{''.join(faults[1:])[:3000]}"
    )
    is_well = server.process.poll() is None and not errors and not faults[1]
    return 0 if is_well and ratio <= MOST_RATIO else 1


def main() -> int:
    """Start a server of our own, and besiege it."""
    hostile = 2 * len(HOSTILE)
    given = options(__doc__, minutes=30.0, honest=2, hostile=hostile, bars=4, model="ensemble")
    with started("--model", given.model) as server:
        return asyncio.run(besiege(server, given))


if __name__ == "__main__":
    sys.exit(main())
