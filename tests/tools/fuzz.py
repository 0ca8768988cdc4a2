"""Mutated MIDI files through the reader, both languages and the writer, in processes that may die.

    python -m tests.tools.fuzz --seconds 600 [--mutants N] [--limit S] [--seed S] [--processes P] [--keep FOLDER]

A mutant is read, or refused in a sentence. Any other error, a crash, 2 s of processor time or
a gigabyte of memory is a failure: the mutant is kept in a file, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from musicgen.common.workers.clock import LOOK_SECONDS, TaskClock
from tests.tools.mutants import mutant, seed_files
from tokenization.language import Language, language
from tokenization.midi.reading import Limits, MidiError, read_midi
from tokenization.midi.writing import write_midi

LANGUAGES = ("remi", "remi-2", "groove", "groove-2")
ROOMY = Limits(bytes=64 << 20, seconds=4 * 3600, beats=50_000)
HANG_SECONDS = 2.0  # of processor time, so that a busy machine makes no hangs
STUCK_SECONDS = 60.0  # of processor time too, or without any: in foreign code no alarm is heard
MEMORY_BYTES = 1 << 30
REPORT_EVERY = 200
MOST_FAILURES = 20
READ, FAILED = "read", "failed"

Examiner = Callable[[bytes, Sequence[Language]], str]


class Hang(BaseException):
    """The time of a mutant is up."""


@dataclass(kw_only=True)
class Tally:
    """What became of some mutants."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    slowest_seconds: float = 0.0
    start_bytes: int = 0
    peak_bytes: int = 0

    def add(self, other: Tally) -> None:
        """Take in another tally."""
        self.outcomes += other.outcomes
        self.failures += other.failures
        self.slowest_seconds = max(self.slowest_seconds, other.slowest_seconds)
        self.start_bytes = max(self.start_bytes, other.start_bytes)
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)


def examine(data: bytes, languages: Sequence[Language]) -> str:
    """Return what becomes of a file; raises where that is none of the promised outcomes."""
    try:
        score = read_midi(data)
    except MidiError as error:
        return f"refused: {_kind(error)}"
    refusals = []
    for spoken in languages:
        try:
            arranged = spoken.arrange(score)
            spelled = spoken.quantise(arranged).notes
            encoded = spoken.encode(arranged)
        except ValueError as error:
            if not _is_stated(error):
                raise
            refusals.append(f"{spoken.name}: {_kind(error)}")
            continue
        music = spoken.decode(encoded.ids, encoded.setting)
        decoded = music.notes
        # The velocities of groove stand beside its tokens.
        if decoded.replace(velocity=spelled.velocity) != spelled:
            raise AssertionError(f"{spoken.name} reads back other notes than it has spelled")
        # On the grid, a piece may be some seconds longer than it was.
        if len(decoded) and len(read_midi(write_midi(music), limits=ROOMY).notes) != len(decoded):
            raise AssertionError(f"{spoken.name} is written with other notes than it has")
    return "; ".join([READ, *refusals])


def _is_stated(error: ValueError) -> bool:
    """Say whether an error was raised on purpose, not by a library that got nonsense."""
    return (traceback.extract_tb(error.__traceback__)[-1].line or "").startswith("raise ")


def _kind(error: ValueError) -> str:
    """Return the part of a sentence that is the same for all files with one flaw."""
    return re.sub(r"\d[\d,.]*", "#", str(error).split(":")[0])


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(_: int, frame: FrameType | None) -> None:
        raise Hang(f"more than {seconds} s in {frame.f_code.co_name if frame else 'nowhere'}")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory() -> None:
    """Refuse this process more memory than it has now and what a file may take."""
    pages = Path("/proc/self/statm")
    if pages.exists():  # elsewhere the limit has no effect
        now = int(pages.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, now + MEMORY_BYTES))


def _resident_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def work(
    pipe: Connection, examiner: Examiner, seed: int, numbers: range, deadline: float, limit: float
) -> None:
    """Examine mutants one by one, announcing each; report after some, and after each failure."""
    files = seed_files()
    languages = [language(name) for name in LANGUAGES]
    for file in files:
        examine(file, languages)
    _limit_memory()
    start_bytes = _resident_bytes()
    tally = Tally(start_bytes=start_bytes)
    for number in numbers:
        if time.time() > deadline:
            break
        pipe.send(number)
        data = mutant(files, seed, number)
        started = time.process_time()
        try:
            with _time_limit(limit):
                outcome = examiner(data, languages)
        except (Exception, Hang) as error:
            outcome = FAILED
            tally.failures.append((number, _described(error)))
        tally.outcomes[outcome] += 1
        tally.slowest_seconds = max(tally.slowest_seconds, time.process_time() - started)
        if tally.outcomes.total() == REPORT_EVERY or tally.failures:
            tally.peak_bytes = _resident_bytes()
            pipe.send(tally)
            tally = Tally(start_bytes=start_bytes)
    tally.peak_bytes = _resident_bytes()
    pipe.send(tally)


def _described(error: BaseException) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {error}"


def watch(examiner: Examiner, seed: int, numbers: range, deadline: float, limit: float) -> Tally:
    """Let a process work through the numbers; where it dies or is stuck, go on after that one."""
    tally = Tally()
    context = multiprocessing.get_context("spawn")
    while numbers and len(tally.failures) < MOST_FAILURES:
        pipe, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=work, args=(theirs, examiner, seed, numbers, deadline, limit)
        )
        process.start()
        theirs.close()
        number, is_stuck = listen(pipe, tally, process.pid or 0)
        if is_stuck:
            process.kill()
        process.join()
        if process.exitcode == 0:
            break
        if number is None:
            raise RuntimeError("a process died before its first mutant; its words stand above")
        how = "stuck" if is_stuck else f"died with exit code {process.exitcode}"
        tally.outcomes[FAILED] += 1
        tally.failures.append((number, how))
        numbers = numbers[numbers.index(number) + 1 :]
    return tally


def listen(pipe: Any, tally: Tally, process: int) -> tuple[int | None, bool]:
    """Take in a process's reports to its end; return its last mutant, and whether it is stuck."""
    number, clock = None, TaskClock(process)
    with suppress(EOFError):
        while pipe.poll(LOOK_SECONDS) or not clock.is_late(STUCK_SECONDS):
            if not pipe.poll():
                continue
            message, clock = pipe.recv(), TaskClock(process)
            if isinstance(message, Tally):
                tally.add(message)
            else:
                number = message
        return number, True
    return number, False


def fuzz(
    *,
    seconds: float,
    mutants: int,
    seed: int,
    processes: int,
    keep: Path,
    limit: float = HANG_SECONDS,
    examiner: Examiner = examine,
) -> Tally:
    """Examine mutants till one of the limits; those that fail are kept in a folder."""
    deadline = time.time() + seconds
    tally = Tally()
    with ThreadPoolExecutor(processes) as pool:
        lanes = [range(first, mutants, processes) for first in range(processes)]
        for part in pool.map(
            lambda numbers: watch(examiner, seed, numbers, deadline, limit), lanes
        ):
            tally.add(part)
    files = seed_files()
    for number, _ in tally.failures:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{seed}-{number}.mid").write_bytes(mutant(files, seed, number))
    return tally


def report(tally: Tally, seconds: float, keep: Path) -> str:
    """Return what a person wants to know."""
    total = tally.outcomes.total()
    read = sum(count for outcome, count in tally.outcomes.items() if outcome.startswith(READ))
    grown = (tally.peak_bytes - tally.start_bytes) / 2**20
    lines = [
        f"{total:,} mutants in {seconds:.0f} s: {read:,} read, "
        f"{total - read - tally.outcomes[FAILED]:,} refused, {len(tally.failures):,} failures",
        f"slowest {tally.slowest_seconds:.2f} s of processor time; "
        f"memory grew by {grown:.0f} MB over the {tally.start_bytes / 2**20:.0f} MB at the start",
        *(f"{count:9,}  {outcome}" for outcome, count in tally.outcomes.most_common()),
        *(f"FAILURE {number}: {what}" for number, what in tally.failures),
    ]
    return "\n".join(lines + [f"the mutants that failed are in {keep}"] * bool(tally.failures))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--mutants", type=int, default=10**9, help="stop after so many")
    parser.add_argument(
        "--limit", type=float, default=HANG_SECONDS, help="seconds of processor time a mutant"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "musicgen-fuzz")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    tally = fuzz(**vars(options))
    print(report(tally, time.monotonic() - started, options.keep))
    return bool(tally.failures)


if __name__ == "__main__":
    sys.exit(main())
