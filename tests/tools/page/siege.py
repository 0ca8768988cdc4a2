"""Honest visitors beside hostile ones, on this machine alone: python -m tests.tools.page.siege --minutes 30.

Honest ones use the page as those of load.py do, first alone, then beside hostile ones, which send what is too
large, wrong, half or never asked for again. Each comes from an address of its own below 127, as from another machine.
Printed are the honest ones' waits in both parts, what the hostile ones were answered, and the server's memory, threads
and open files at the start and at the end. The exit code is 1 if an honest one met an error, or waited more than twice
as long for the first note, by the median, as alone; or if the server is gone, or has told of a fault in its log.
"""

import asyncio
import os
import secrets
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from app.web.offered_models import example
from musicgen.common.processes import CONTEXT
from tests.app.web.browser import Server, started
from tests.tokenization.notation import scores
from tests.tools.options import options
from tests.tools.page.load import FIRST, OPENED, WHOLE, Visitor
from tests.tools.page.memory import memory_bytes, processes_under

API = "/gradio_api"
MOST_RATIO = 2.0
LONG = [None, "", 0, 128, 8, 1, 0.95, 0, 0.02, 1, False, ""]  # the longest continuation there is
PAUSE_SECONDS = 0.05  # of a hostile one, between two requests
SLOW = scores.compressed(scores.score(scores.bars(*["<note><rest/></note>" * 9900] * 40)))
HALVES = 200  # connections with half a request


@asynccontextmanager
async def visitor_from(address: str, number: int) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client with an address of its own."""
    local = f"127.0.{number // 250}.{2 + number % 250}" if sys.platform == "linux" else None
    transport = httpx.AsyncHTTPTransport(
        local_address=local, limits=httpx.Limits(max_connections=None)
    )
    async with httpx.AsyncClient(base_url=address, transport=transport, timeout=120) as client:
        yield client


async def too_large(client: httpx.AsyncClient) -> httpx.Response:
    """Send megabytes of numbers."""
    body = b'{"data":[' + b"1," * 700_000 + b"1]}"
    return await client.post(f"{API}/run/predict", content=body)


async def never_read(client: httpx.AsyncClient) -> httpx.Response:
    """Ask for the longest work, and never for its result."""
    return await client.post(f"{API}/call/continue", json={"data": LONG})


async def new_faces(client: httpx.AsyncClient) -> httpx.Response:
    """Open the page's session, again and again under another name."""
    body = {"data": [None, {"example": "trio-jazz"}], "session_hash": secrets.token_hex(6)}
    return await client.post(f"{API}/run/desk_open", json=body)


async def fills_the_disk(client: httpx.AsyncClient) -> httpx.Response:
    """Upload a megabyte."""
    files = {"files": ("a.mid", secrets.token_bytes(1_000_000))}
    return await client.post(f"{API}/upload", files=files)


async def breaks_off(client: httpx.AsyncClient) -> httpx.Response:
    """Upload, and hang up in the middle."""

    async def half() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.mid"\r\n\r\n'
        yield example("trio-jazz")
        raise httpx.ReadError("enough")

    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return await client.post(f"{API}/upload", content=half(), headers=kind)


async def wrong_values(client: httpx.AsyncClient) -> httpx.Response:
    """Ask with values that are none, and read the answer."""
    stolen = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
    asked = await client.post(f"{API}/call/read", json={"data": [stolen, 7]})
    if asked.status_code != 200:
        return asked
    return await client.get(f"{API}/call/read/{asked.json()['event_id']}")


async def slow_to_read(client: httpx.AsyncClient) -> httpx.Response:
    """Send a score of as many elements as can be, and never read what it was found to be."""
    sent = await client.post(f"{API}/upload", files={"files": ("a.mxl", SLOW)})
    if sent.status_code != 200:
        return sent
    file = {"path": sent.json()[0], "meta": {"_type": "gradio.FileData"}}
    return await client.post(f"{API}/call/read", json={"data": [file, ""]})


async def from_elsewhere(client: httpx.AsyncClient) -> httpx.Response:
    """Come from another site's page, under another site's name."""
    headers = {"Origin": "http://elsewhere.example", "Host": "elsewhere.example"}
    return await client.post(f"{API}/upload", content=b"", headers=headers)


HOSTILE: tuple[Callable[[httpx.AsyncClient], Awaitable[httpx.Response]], ...] = (
    *(too_large, never_read, new_faces, fills_the_disk, breaks_off, wrong_values, slow_to_read),
    from_elsewhere,
)


async def molest(address: str, number: int, late: float, met: Counter[str]) -> None:
    """Be hostile in one way until it is late."""
    act = HOSTILE[number % len(HOSTILE)]
    async with visitor_from(address, 100 + number) as client:
        while time.monotonic() < late:
            try:
                met[f"{act.__name__}: {(await act(client)).status_code}"] += 1
            except httpx.HTTPError:
                met[f"{act.__name__}: hung up on"] += 1
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


async def visit(
    address: str, honest: int, late: float, times: dict, errors: list[str], bars: int
) -> None:
    """Let honest visitors use the page until it is late."""

    async def stay(number: int) -> None:
        async with visitor_from(address, number) as client:
            while time.monotonic() < late:
                visitor = Visitor(client, times, bars)
                # As a browser does, for as long as its page is open.
                async with client.stream("GET", f"{API}/heartbeat/{secrets.token_hex(6)}"):
                    try:
                        await visitor.round()
                    except Exception as error:
                        errors.append(f"{type(error).__name__}: {error}")
                        await asyncio.sleep(1)

    await asyncio.gather(*(stay(number) for number in range(honest)))


def held_by(server: Server) -> str:
    """Return what the server has of the machine."""
    if not Path(f"/proc/{server.process.pid}").exists():
        return "unknown here"
    processes = [server.process.pid, *processes_under(server.process.pid)]
    memory, threads, files = sum(map(memory_bytes, processes)) / 2**20, 0, 0
    for process in processes:
        with suppress(OSError):
            threads += len(os.listdir(f"/proc/{process}/task"))
            files += len(os.listdir(f"/proc/{process}/fd"))
    machine = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(machine["MemAvailable"].split()[0]) / 1024
    return f"{memory:.0f} MB, {len(processes)} processes, {threads} threads, {files} open files; {free:.0f} MB free"


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
    address, errors = server.address, []
    alone, beside = defaultdict(list), defaultdict(list)
    warm = time.monotonic() + 20
    await visit(address, given.honest, warm, defaultdict(list), [], given.bars)
    print(f"at the start: {held_by(server)}", flush=True)
    seconds = 60 * given.minutes
    await visit(address, given.honest, time.monotonic() + 0.25 * seconds, alone, errors, given.bars)
    late = time.monotonic() + 0.75 * seconds
    # In a process of their own: in this one, the honest ones would wait for what the others are at.
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        attacked = pool.submit(attack, address, given.hostile, 0.75 * seconds)
        await visit(address, given.honest, late, beside, errors, given.bars)
        met = await asyncio.wrap_future(attacked)
    await asyncio.sleep(min(60, 0.1 * seconds))  # for what is left to be swept away
    print(f"at the end:   {held_by(server)}")
    print(
        f"{given.honest} honest visitors, {given.hostile} hostile ones, {HALVES} halves: {given.minutes:g} minutes"
    )
    print(f"{'seconds':<22}{'n':>6}{'p50':>8}{'p95':>8}{'most':>8}")
    for name in (OPENED, FIRST, WHOLE):
        for part, times in (("alone", alone), ("besieged", beside)):
            cells = "".join(
                f"{np.quantile(times[name] or [np.nan], q):8.2f}" for q in (0.5, 0.95, 1)
            )
            print(f"{name[:12]:<12}{part:>10}{len(times[name]):>6}{cells}")
    ratio = float(np.median(beside[FIRST] or [np.inf]) / np.median(alone[FIRST] or [np.nan]))
    waits = " and ".join(
        f"{np.median(times[FIRST] or [np.nan]):.2f} s" for times in (alone, beside)
    )
    print(f"first note alone and besieged: {waits}, {ratio:.2f} times as long, by the median")
    print(f"{len(errors)} errors of honest visitors")
    for told in dict.fromkeys(errors):
        print(f"{errors.count(told)} × {told[:200]}")
    for what, count in sorted(met.items()):
        print(f"{count:>8} × {what}")
    tracebacks = server.said().count("Traceback")
    print(f"{tracebacks} tracebacks in the server's log")
    if tracebacks:
        print(server.said()[-3000:])
    is_there = server.process.poll() is None
    return int(bool(errors or tracebacks) or not is_there or not ratio <= MOST_RATIO)


def main() -> int:
    """Start a server of our own, and besiege it."""
    hostile = 2 * len(HOSTILE)
    given = options(__doc__, minutes=30.0, honest=2, hostile=hostile, bars=4, model="groove")
    with started("--model", given.model) as server:
        return asyncio.run(besiege(server, given))


if __name__ == "__main__":
    sys.exit(main())
