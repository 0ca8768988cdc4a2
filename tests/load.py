"""Many visitors at once, on this machine alone: python -m tests.load --users 20 --seconds 300.

Each opens the page's session as a browser does, opens an example, continues it, waits for the end, fetches the
MIDI file and the sound, and begins again. Printed are the times they waited, what went wrong, and the server's memory
every ten seconds with the line through it, without the first third, in which models are loaded and visitors arrive.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import secrets
import time
from collections import defaultdict
from pathlib import Path

import httpx
import numpy as np

from app.web.examples import EXAMPLES
from tests.app.web.browser import serving

MEMORY_SECONDS = 10  # between two readings
FIRST, WHOLE, OPENED, FETCHED, SOUND = (
    "click to first note",
    "click to end",
    "open a piece",
    "fetch MIDI",
    "first sound",
)


class Visitor:
    """One user of the page, through the same requests that the page sends."""

    def __init__(self, client: httpx.AsyncClient, config: dict, times: dict, bars: int) -> None:
        self.client, self.times, self.bars = client, times, bars
        self.session = secrets.token_hex(6)
        self.calls = {self.target(one): one for one in config["dependencies"]}
        self.defaults = {one["id"]: one["props"].get("value") for one in config["components"]}
        self.parts = {one["props"].get("elem_id"): one["id"] for one in config["components"]}

    @staticmethod
    def target(dependency: dict) -> tuple:
        """Return what sets an endpoint off; of several, the one that Python answers."""
        target = next(iter(dependency["targets"]), [None, ""])
        return (*target, bool(dependency["backend_fn"]))

    async def call(
        self, part: str | None, event: str, inputs: dict, event_data: dict | None = None
    ):
        """Yield an endpoint's answers as they come."""
        found = self.calls[self.parts.get(part), event, True]
        data = [inputs.get(one, self.defaults[one]) for one in found["inputs"]]
        body = {"data": data, "fn_index": found["id"], "session_hash": self.session,
                "event_data": event_data, "trigger_id": self.parts.get(part)}  # fmt: skip
        if not found["queue"]:
            answer = await self.client.post("/gradio_api/run/predict", json=body)
            answer.raise_for_status()
            yield answer.json()["data"]
            return
        (await self.client.post("/gradio_api/queue/join", json=body)).raise_for_status()
        query = {"session_hash": self.session}
        async with self.client.stream("GET", "/gradio_api/queue/data", params=query) as stream:
            async for line in stream.aiter_lines():
                said = json.loads(line[6:]) if line.startswith("data: ") else {}
                if said.get("msg") in ("process_generating", "process_completed"):
                    if not said["success"]:
                        raise RuntimeError(f"the server answered {said['output']}")
                    yield said["output"].get("data")
                if said.get("msg") == "process_completed":
                    return

    async def timed(self, what: str, begun: float) -> None:
        self.times[what].append(time.monotonic() - begun)

    async def round(self) -> None:
        """Open an example, continue it, take the result home."""
        begun = time.monotonic()
        name = random.choice(list(EXAMPLES))
        async for stage, *_ in self.call("mg-stage", "example", {}, {"name": name}):
            assert stage["length"] == 16, stage
        await self.timed(OPENED, begun)
        begun, said = time.monotonic(), 0
        async for values in self.call(
            "mg-go", "click", {self.parts["mg-bars"]: self.bars, self.parts["mg-prompt-bars"]: 4}
        ):
            said += 1
            if said == 2:  # the first answer is the prompt alone, this one has the first note
                await self.timed(FIRST, begun)
            last = values
        await self.timed(WHOLE, begun)
        await self.take_home(last)

    async def take_home(self, values: list) -> None:
        """Fetch what the last answer offers; it holds either a view, or the changes that lead to it."""
        addresses = {"mid": None, "wav": None}
        for word in json.dumps(values).split('"'):
            for kind in addresses:
                if word.startswith("music/") and word.endswith(f".{kind}") and ".part." not in word:
                    addresses[kind] = addresses[kind] or word
        for kind, what in (("mid", FETCHED), ("wav", SOUND)):
            begun = time.monotonic()
            answer = await self.client.get(addresses[kind])
            answer.raise_for_status()
            assert answer.content[:4] == {"mid": b"MThd", "wav": b"RIFF"}[kind]
            await self.timed(what, begun)


def server_memory_bytes(parent: int) -> int:
    """Return the resident memory of this process's children that serve."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == parent:
                total += int(fields[21]) * resource.getpagesize()
        except OSError:
            continue
    return total


async def visit(address: str, users: int, seconds: float, bars: int) -> None:
    """Let the visitors loose, and print what they met."""
    times, errors, memory = defaultdict(list), [], []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=600, limits=limits) as client:
        config = (await client.get("/config")).json()
        begun = time.monotonic()
        late = begun + seconds

        async def stay() -> None:
            visitor = Visitor(client, config, times, bars)
            await asyncio.sleep(random.random())
            while time.monotonic() < late:
                try:
                    await visitor.round()
                except Exception as error:
                    errors.append(f"{type(error).__name__}: {error}")
                    await asyncio.sleep(1)

        async def watch() -> None:
            while time.monotonic() < late:
                memory.append((time.monotonic() - begun, server_memory_bytes(os.getpid()) / 2**20))
                await asyncio.sleep(min(MEMORY_SECONDS, seconds / 10))

        await asyncio.gather(watch(), *(stay() for _ in range(users)))
    report(times, errors, users, seconds)
    report_memory(np.array(memory))


def report(times: dict, errors: list, users: int, seconds: float) -> None:
    """Print the table."""
    print(
        f"{users} users for {seconds:.0f} s: {len(times[WHOLE])} continuations, {len(errors)} errors"
    )
    print(f"{'seconds':<20}{'n':>6}{'p50':>9}{'p95':>9}{'most':>9}")
    for what in (OPENED, FIRST, WHOLE, FETCHED, SOUND):
        if values := times[what]:
            cells = "".join(f"{np.quantile(values, q):9.2f}" for q in (0.5, 0.95, 1))
            print(f"{what:<20}{len(values):>6}{cells}")
    for error in dict.fromkeys(errors):
        print(f"{errors.count(error)} × {error}")


def report_memory(memory: np.ndarray) -> None:
    """Print the readings, and how the memory grows once all are there."""
    print(f"memory, MB, every {np.diff(memory[:, 0]).mean():.0f} s: "
          + " ".join(f"{reading:.0f}" for reading in memory[:, 1]))  # fmt: skip
    seconds, readings = memory[len(memory) // 3 :].T
    slope = np.polyfit(seconds, readings, 1)[0]
    print(f"slope of the last two thirds: {60 * slope:+.1f} MB a minute")


def main() -> None:
    """Start a server of our own, or visit one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--bars", type=int, default=8)
    parser.add_argument("--model", default=None)
    given = parser.parse_args()
    with serving(*(["--model", given.model] if given.model else [])) as address:
        asyncio.run(visit(address, given.users, given.seconds, given.bars))


if __name__ == "__main__":
    main()
