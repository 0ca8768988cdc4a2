"""Load test with many visitors on this machine: python -m tests.tools.page.load --users 20 --seconds 300 --hostile 16.

Each visitor opens an example as the page does, continues it, waits for the end, requests the sound file, and starts
over. With --own, each time is a file of one's own: an example transposed, with a prompt of another length, so that the
server has hardly ever read it before. Prints waiting times, errors, and the memory of all server processes: means over
five parts of the time, and the growth in the second half. --bars 1 makes many short requests, which shows growth per
request soonest.

With --hostile, the visitors are alone and together with a hostile one by turns, on the same server; that one sends so
many requests at once from one address (hostile.py), or with --only such whose names have a word in them. The answers to
these are printed too. The exit code is 1 if a visitor met an error, if the median time to the first note or to the end
more than doubled, if the server has died, or if its log has a traceback.
"""

import asyncio
import base64
import json
import random
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from io import BytesIO
from typing import Any

import httpx
import numpy as np
import psutil
from pretty_midi import PrettyMIDI

from app.web.offered_models import EXAMPLES, example
from tests.app.web.browser import Server, started
from tests.tools.options import options
from tests.tools.page.hostile import API, attack, visitor_from
from tokenization.processes import CONTEXT

MOST_RATIO = 2.0  # of the waiting time under siege
TURNS = 6  # alone and besieged
CLEAN_SECONDS = 10  # for the server to clean up after a siege
READINGS = 200  # of memory
PARTS = 5  # of the time
LARGEST = 4  # of the other processes, whose memory is printed
FIRST, WHOLE = "click to first note", "click to end"
OPENED, SOUND = "open a piece", "sound as a file"
WISH = {
    "kind": "continue",
    "variations": 2,
    "sampling": {"temperature": 1, "top_p": 0.95, "top_k": 0, "min_p": 0.02, "seed": 1},
}
Times = defaultdict[str, list[float]]


class Visitor:
    """One user of the page, who sends the same requests, or requests about files of their own."""

    def __init__(self, client: httpx.AsyncClient, times: Times, bars: int, own: bool) -> None:
        self.client, self.times, self.bars, self.own = client, times, bars, own

    def timed(self, what: str, begun: float) -> None:
        self.times[what].append(time.monotonic() - begun)

    async def asked(self, what: str, ask: dict, midi: bytes = b"") -> bytes:
        """Return the answer to a request about a file."""
        file = {"file": ("a.mid", midi)} if midi else None
        answer = await self.client.post(f"/desk/{what}", data={"ask": json.dumps(ask)}, files=file)
        answer.raise_for_status()
        return answer.content

    async def round(self) -> None:
        """Open an example, continue it, and request the sound of the result."""
        example, prompt_bars = random.choice(list(EXAMPLES)), 4
        begun = time.monotonic()
        if self.own:
            data, prompt_bars = transposed(example, random.randint(-5, 6)), random.randint(3, 6)
            begun = time.monotonic()
            opened = json.loads(await self.asked("open", {}, data))
        else:
            opened = json.loads(await self.asked("open", {"example": example}))
            data = base64.b64decode(opened["file"])
        assert opened["chosen"] == 16, opened
        self.timed(OPENED, begun)
        file = {"file": ("a.mid", data)}
        ask = {**WISH, "model": opened["model"], "bars": self.bars, "promptBars": prompt_bars}
        sent: Any = {"data": {"ask": json.dumps(ask)}, "files": file}
        begun, said, last = time.monotonic(), 0, {}
        async with self.client.stream("POST", "/desk/write", **sent) as stream:
            stream.raise_for_status()
            async for line in stream.aiter_lines():
                last = json.loads(line)
                if "error" in last:
                    raise RuntimeError(f"the server answered {last}")
                said += bool(last["takes"])  # without takes, it is the position in the queue
                # The first answer has only the prompt; this one has the first note.
                if said == 2 and last["takes"]:
                    self.timed(FIRST, begun)
        self.timed(WHOLE, begun)
        midi = base64.b64decode(last["takes"][0]["midi"])
        begun = time.monotonic()
        assert (await self.asked("sound", {}, midi))[:4] == b"RIFF"
        self.timed(SOUND, begun)


def transposed(name: str, semitones: int) -> bytes:
    """Return an example in another key."""
    midi = PrettyMIDI(BytesIO(example(name)))
    for part in midi.instruments:
        for note in () if part.is_drum else part.notes:
            note.pitch += semitones
    midi.write(file := BytesIO())
    return file.getvalue()


async def visit(address: str, given: Any, seconds: float, times: Times, errors: list[str]) -> None:
    """Run users for some seconds."""
    late = time.monotonic() + seconds

    async def stay(number: int) -> None:
        await asyncio.sleep(random.random())
        async with visitor_from(address, number) as client:
            while time.monotonic() < late:
                try:
                    await Visitor(client, times, given.bars, given.own).round()
                except Exception as error:
                    errors.append(f"{type(error).__name__}: {error}")
                    await asyncio.sleep(1)

    await asyncio.gather(*(stay(number) for number in range(given.users)))


def row(name: str, values: list[float]) -> str:
    """Return a row of the table of times."""
    cells = "".join(f"{np.quantile(values or [np.nan], q):9.2f}" for q in (0.5, 0.95, 1))
    return f"{name:<32}{len(values):>6}{cells}"


HEAD = f"{'seconds':<32}{'n':>6}{'p50':>9}{'p95':>9}{'max':>9}"


def counted(errors: list[str]) -> str:
    """Return the errors with their counts."""
    lines = [f"{errors.count(error)} × {error[:200]}" for error in dict.fromkeys(errors)]
    return "\n".join([f"{len(errors)} errors", *lines])


def memory_mb(processes: list[psutil.Process]) -> dict[int, float]:
    """Return the proportional set sizes of processes, without those that have ended."""
    taken = {}
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            taken[process.pid] = process.memory_full_info().pss / 2**20
    return taken


async def watch(
    readings: list[tuple[float, dict[int, float]]], server: psutil.Process, seconds: float
) -> None:
    """Record the time and the MB of each process of the server periodically."""
    while True:
        processes = [server, *server.children(recursive=True)]
        readings.append((time.monotonic(), await asyncio.to_thread(memory_mb, processes)))
        await asyncio.sleep(seconds)


def grown(readings: list[tuple[float, dict[int, float]]], server: int) -> str:
    """Return mean memory by part of the time, and the slope of the second half: of all, the server and the others."""
    seconds = np.array([at for at, _ in readings])
    half = seconds >= (seconds[0] + seconds[-1]) / 2
    taken = np.array([[sum(mb.values()), mb.get(server, 0)] for _, mb in readings])
    lines = ["memory, MB, in each fifth of the time, and per minute in the second half:"]
    # The largest of the others are those that compose.
    others = [sorted((mb[one] for one in mb if one != server), reverse=True) for _, mb in readings]
    largest = np.array([[*some[:LARGEST], *[0] * (LARGEST - len(some))] for some in others])
    names = ("all", "server", *(f"process {number + 1}" for number in range(LARGEST)))
    for name, values in zip(names, np.hstack([taken, largest]).T, strict=True):
        means = " ".join(f"{part.mean():6.0f}" for part in np.array_split(values, PARTS))
        slope = 60 * np.polyfit(seconds[half], values[half], 1)[0]
        lines.append(f"  {name:<10}{means}  {slope:+.1f}, at most {values.max():.0f}")
    return "\n".join(lines)


async def measure(server: Server, given: Any) -> int:
    """Run the visitors and print the measurements; return the exit code."""
    alone, besieged, met = Times(list), Times(list), Counter[str]()
    errors: list[str] = []
    readings: list[tuple[float, dict[int, float]]] = []

    async def visitors(times: Times) -> None:
        seconds, before = given.seconds / (TURNS if given.hostile else 1), len(times[WHOLE])
        await visit(server.address, given, seconds, times, errors)
        if given.hostile:
            named = "under siege" if times is besieged else "alone"
            print(row(f"{WHOLE}, {named}", times[WHOLE][before:]), flush=True)

    if given.hostile:  # whose first request would load the endpoints of programs, once
        async with visitor_from(server.address, 0) as client:
            await client.get(f"{API}/info")
    own = psutil.Process(server.process.pid)
    watching = asyncio.create_task(watch(readings, own, given.seconds / READINGS))
    await visitors(alone)
    for _ in range(TURNS // 2 if given.hostile else 0):
        # In a separate process, so that the hostile visitor does not slow down the honest ones here.
        context = CONTEXT.Manager()
        with context, ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
            begun, over = context.Event(), context.Event()
            sent = server.address, given.hostile, given.only, begun, over
            attacked = pool.submit(attack, *sent)
            await asyncio.to_thread(begun.wait)
            await visitors(besieged)
            over.set()
            met += await asyncio.wrap_future(attacked)
        await asyncio.sleep(CLEAN_SECONDS)
        await visitors(alone)
    watching.cancel()
    continuations = len(alone[WHOLE]) + len(besieged[WHOLE])
    print(f"{given.users} users for {given.seconds:.0f} s: {continuations} continuations")
    print(HEAD)
    for what in (OPENED, FIRST, WHOLE, SOUND):
        print(row(what, alone[what]))
        if given.hostile:
            print(row(f"{what}, under siege", besieged[what]))
    print(counted(errors), grown(readings, server.process.pid), sep="\n")
    for what, count in sorted(met.items()):
        print(f"{count:>8} × {what}")
    _, fault, trace = server.said().partition("Traceback")
    print(f"the server's log has {'a traceback:' if fault else 'no traceback'}{trace[:3000]}")
    ratios = [
        np.median(besieged[what] or [np.nan]) / np.median(alone[what]) for what in (FIRST, WHOLE)
    ]
    slower = given.hostile and not max(ratios) <= MOST_RATIO
    if given.hostile:
        print(
            "under siege, p50 to the first note and to the end: × {:.2f}, × {:.2f}".format(*ratios)
        )
    return int(bool(errors or fault or slower or server.process.poll() is not None))


def main() -> int:
    """Start a server and measure it."""
    given = options(
        __doc__, users=20, seconds=60.0, bars=8, hostile=0, only="", own=False, model=""
    )
    with started(*(["--model", given.model] if given.model else [])) as server:
        return asyncio.run(measure(server, given))


if __name__ == "__main__":
    sys.exit(main())
