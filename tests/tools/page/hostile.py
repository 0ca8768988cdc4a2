"""A hostile visitor of the load test, whose requests are too many, too large, wrong, incomplete or abandoned."""

import asyncio
import json
import random
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from threading import Event

import httpx

from app.web.offered_models import example
from tests.tokenization.notation import scores
from tests.tools.page.own_files import DRUMS, Row, midi, part

API = "/gradio_api"
FILE = {"meta": {"_type": "gradio.FileData"}}
LONG = [None, "", 0, 128, 8, 1, 0.95, 0, 0.02, 1, False, "", 8]  # the longest continuation allowed
PAUSE_SECONDS = 0.05  # between the requests of a hostile visitor
SLOW = scores.compressed(scores.score(scores.bars(*["<note><rest/></note>" * 9900] * 40)))
HALVES = 200  # connections with an incomplete request
ADDRESS = 100  # those of others have lower numbers


UNREAD_SECONDS = 20  # for which an answer is not read

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


@cache
def largest() -> bytes:
    """Return a file of 20 minutes with 48,000 notes."""
    draw = random.Random(1)

    def rows() -> list[Row]:
        return [(0.59 * i, 0.5, 40 + draw.randrange(50), 80) for i in range(4000)]

    numbers = [number for number in range(13) if number != DRUMS]
    return midi({f"part {n}": part(n, 8 * n, rows()) for n in numbers})[0]


def of_page(what: str, **ask: object) -> Callable[[Client], Awaitable[httpx.Response]]:
    """Return a request of the page about the largest file, with a prompt of any length, whose answer is not read."""

    async def act(client: Client) -> httpx.Response:
        said = json.dumps({"promptBars": random.randrange(300, 500), **ask})
        sent = {"data": {"ask": said}, "files": {"file": ("a.mid", largest())}}
        async with client.stream("POST", f"/desk/{what}", **sent) as answer:
            await asyncio.sleep(UNREAD_SECONDS if answer.status_code == 200 else 0)
        return answer

    return act


MOST = {"bars": 128, "variations": 8, "sampling": {"temperature": 1, "seed": 1}}
CUT = {"reading": None, "changes": [{"change": "transpose", "semitones": 1}]}
NUMBERS = b'{"data":[' + b"1," * 700_000 + b"1]}"
FOREIGN = {"Origin": "http://elsewhere.example", "Host": "elsewhere.example"}
HOSTILE: dict[str, Callable[[Client], Awaitable[httpx.Response]]] = {
    "writes after a few bars": of_page("write", **MOST, draw=8, promptBars=2),
    "writes after a whole file": of_page("write", **MOST),
    "adds parts to a whole file": of_page("write", **MOST, kind="accompany", parts=["+flute"]),
    "reads ahead": of_page("ahead", **MOST),
    "opens the largest file": of_page("open"),
    "wants it as a score": of_page("score"),
    "wants it as sound": of_page("sound"),
    "edits it": of_page("save", edits=CUT),
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


async def molest(client: Client, kind: str, met: Counter[str]) -> None:
    """Send one kind of hostile request again and again."""
    while True:
        try:
            met[f"{kind}: {(await HOSTILE[kind](client)).status_code}"] += 1
        except httpx.HTTPError:
            met[f"{kind}: hung up on"] += 1
        await asyncio.sleep(PAUSE_SECONDS)


async def hold(address: str, met: Counter[str]) -> None:
    """Keep a connection open with an incomplete request, and replace it once it is closed."""
    host, port = address.removeprefix("http://").split(":")
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\nHost: loc")
            await reader.read(1)
            met["half a request: hung up on"] += 1
            writer.close()
        await asyncio.sleep(PAUSE_SECONDS)


def attack(address: str, count: int, only: str, begun: Event, over: Event) -> Counter:
    """Send so many requests at once from one address until it is over; return the answers they got.

    `only` is a part of the names of the kinds of requests.
    """
    met: Counter[str] = Counter()
    largest()  # takes seconds
    begun.set()
    kinds = [kind for kind in HOSTILE if only in kind]

    async def all_at_once() -> None:
        async with visitor_from(address, ADDRESS) as client, asyncio.TaskGroup() as group:
            acts = [molest(client, kinds[n % len(kinds)], met) for n in range(count)]
            holds = [hold(address, met) for _ in range(0 if only else HALVES)]
            tasks = [group.create_task(one) for one in acts + holds]
            await asyncio.to_thread(over.wait)
            for task in tasks:
                task.cancel()

    asyncio.run(all_at_once())
    return met
