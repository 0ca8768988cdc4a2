"""Hostile visitors of the load test, whose requests are too large, wrong, incomplete or abandoned."""

import asyncio
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx

from app.web.offered_models import example
from tests.tokenization.notation import scores

API = "/gradio_api"
FILE = {"meta": {"_type": "gradio.FileData"}}
LONG = [None, "", 0, 128, 8, 1, 0.95, 0, 0.02, 1, False, ""]  # the longest continuation allowed
PAUSE_SECONDS = 0.05  # between the requests of a hostile visitor
SLOW = scores.compressed(scores.score(scores.bars(*["<note><rest/></note>" * 9900] * 40)))
HALVES = 200  # connections with an incomplete request


Client = httpx.AsyncClient


@asynccontextmanager
async def visitor_from(address: str, number: int) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client with its own loopback address, like another machine."""
    local = f"127.0.{number // 250}.{2 + number % 250}" if sys.platform == "linux" else None
    limits = httpx.Limits(max_connections=None)
    transport = httpx.AsyncHTTPTransport(local_address=local, limits=limits)
    async with httpx.AsyncClient(base_url=address, transport=transport, timeout=600) as client:
        yield client


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
    wrong = {"data": [{"path": "/etc/passwd", **FILE}, 7]}
    asked = await client.post(f"{API}/call/read", json=wrong)
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


def attack(address: str, count: int, seconds: float) -> Counter:
    """Run the hostile visitors; return the answers they got."""
    met, late = Counter(), time.monotonic() + seconds

    async def all_of_them() -> None:
        visitors = (molest(address, number, late, met) for number in range(count))
        await asyncio.gather(hold(address, late, met), *visitors)

    asyncio.run(all_of_them())
    return met
