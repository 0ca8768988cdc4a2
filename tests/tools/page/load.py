"""Many visitors at once, on this machine alone: python -m tests.tools.page.load --users 20 --seconds 300.

Each opens an example as the page does, continues it, waits for the end, has the sound made as a file, and begins
again. Printed are the times they waited, what went wrong, and what all processes of the server take of the memory: the
means of five parts of the time, and how it grows in the second half. With --bars 1 there are many requests in a short
time, by which growth a request shows soonest.
"""

import asyncio
import base64
import json
import os
import random
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np

from app.web.offered_models import EXAMPLES
from tests.app.web.browser import serving
from tests.tools.options import options
from tests.tools.page.memory import MemoryWatch

MEMORY_SECONDS = 2  # between two readings
FIRST, WHOLE = "click to first note", "click to end"
OPENED, SOUND = "open a piece", "sound as a file"
API = "/gradio_api"
WISH = {
    "kind": "continue",
    "variations": 2,
    "sampling": {"temperature": 1, "top_p": 0.95, "top_k": 0, "min_p": 0.02, "seed": 1},
}


class Visitor:
    """One user of the page, through the same requests that the page sends."""

    def __init__(self, client: httpx.AsyncClient, times: dict, bars: int) -> None:
        self.client, self.times, self.bars = client, times, bars

    async def timed(self, what: str, begun: float) -> None:
        self.times[what].append(time.monotonic() - begun)

    async def events(self, name: str, data: list) -> AsyncIterator[Any]:
        """Yield what comes of a call."""
        asked = await self.client.post(f"{API}/call/{name}", json={"data": data})
        asked.raise_for_status()
        async with self.client.stream(
            "GET", f"{API}/call/{name}/{asked.json()['event_id']}"
        ) as stream:
            kind = ""
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: ") and kind in ("generating", "complete", "error"):
                    said = json.loads(line[6:])
                    if kind == "error":
                        raise RuntimeError(f"the server answered {said}")
                    if said:
                        yield said[0]

    async def send(self, data: bytes) -> dict:
        """Upload a file; returns how it is named in calls."""
        sent = await self.client.post(f"{API}/upload", files={"files": ("a.mid", data)})
        sent.raise_for_status()
        return {"path": sent.json()[0], "meta": {"_type": "gradio.FileData"}}

    async def round(self) -> None:
        """Open an example, continue it, take the result home."""
        begun = time.monotonic()
        name = random.choice(list(EXAMPLES))
        what = {"data": [None, {"example": name, "fit": True}]}
        answer = await self.client.post(f"{API}/run/desk_open", json=what)
        opened = json.loads(answer.json()["data"][0])
        assert opened["bars"] == 16, opened
        await self.timed(OPENED, begun)
        file = await self.send(base64.b64decode(opened["file"]))
        ask = {**WISH, "model": opened["model"], "bars": self.bars, "promptBars": 4}
        begun, said, last = time.monotonic(), 0, {}
        async for text in self.events("desk_write", [file, ask, secrets.token_hex(8)]):
            view = json.loads(text)
            said, last = said + bool(view["takes"]), view  # without any, it tells the place in line
            # The first answer is the prompt alone; this one has the first note.
            if said == 2 and view["takes"]:
                await self.timed(FIRST, begun)
        await self.timed(WHOLE, begun)
        await self.take_home(base64.b64decode(last["takes"][0]["midi"]))

    async def take_home(self, midi: bytes) -> None:
        """Have the sound made of a result, and fetch it."""
        assert midi[:4] == b"MThd"
        begun = time.monotonic()
        async for made in self.events("sound", [await self.send(midi)]):
            answer = await self.client.get(f"{API}/file={made['path']}")
            assert answer.content[:4] == b"RIFF"
            break
        await self.timed(SOUND, begun)


async def visit(address: str, users: int, seconds: float, bars: int) -> None:
    """Let the visitors loose, and print what they met."""
    times, errors, memory = defaultdict(list), [], MemoryWatch(os.getpid())
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=600, limits=limits) as client:
        late = time.monotonic() + seconds

        async def stay() -> None:
            visitor = Visitor(client, times, bars)
            await asyncio.sleep(random.random())
            while time.monotonic() < late:
                try:
                    await visitor.round()
                except Exception as error:
                    errors.append(f"{type(error).__name__}: {error}")
                    await asyncio.sleep(1)

        async def watch() -> None:
            while time.monotonic() < late:
                await asyncio.to_thread(memory.read)
                await asyncio.sleep(min(MEMORY_SECONDS, seconds / 10))

        await asyncio.gather(watch(), *(stay() for _ in range(users)))
    report(times, errors, users, seconds)
    print(memory.told())


def report(times: dict, errors: list, users: int, seconds: float) -> None:
    """Print the table."""
    print(
        f"{users} users for {seconds:.0f} s: {len(times[WHOLE])} continuations, {len(errors)} errors"
    )
    print(f"{'seconds':<20}{'n':>6}{'p50':>9}{'p95':>9}{'most':>9}")
    for what in (OPENED, FIRST, WHOLE, SOUND):
        if values := times[what]:
            cells = "".join(f"{np.quantile(values, q):9.2f}" for q in (0.5, 0.95, 1))
            print(f"{what:<20}{len(values):>6}{cells}")
    for error in dict.fromkeys(errors):
        print(f"{errors.count(error)} × {error}")


def main() -> None:
    """Start a server of our own, or visit one."""
    given = options(__doc__, users=20, seconds=60.0, bars=8, model="")
    with serving(*(["--model", given.model] if given.model else [])) as address:
        asyncio.run(visit(address, given.users, given.seconds, given.bars))


if __name__ == "__main__":
    main()
