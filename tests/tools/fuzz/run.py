"""Mutated files of every format through readers, languages and writers, in processes that may die.

    python -m tests.tools.fuzz --seconds 600 [--mutants N] [--counts FILE] [--limit S] [--seed S] [--processes P]

A mutant is read, or refused in a sentence. Any other error, a crash, 2 s of processor time or
a gigabyte of memory is a failure: the mutant is kept in a file, and the exit code is 1.
With --counts, a run goes on after the mutants of the one before, and adds to what became of them.
"""

import gc
import multiprocessing
import os
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
from threading import Lock
from types import FrameType
from typing import Any

from musicgen.common.workers import LOOK_SECONDS, TaskClock
from tests.tools.fuzz.examine import LANGUAGES, READ, examine
from tests.tools.fuzz.mutants import FORMATS, format_of, mutant, seed_files
from tests.tools.options import options
from tokenization.language import Language, language
from tokenization.records import json_of
from tokenization.whole_file import write_json

HANG_SECONDS = 2.0  # of processor time, so that a busy machine makes no hangs
STUCK_SECONDS = 60.0  # of processor time too, or without any: in foreign code no alarm is heard
MEMORY_BYTES = 1 << 30
REPORT_EVERY = 200
MOST_FAILURES = 20
FAILED = "failed"

Examiner = Callable[[bytes, str, Sequence[Language]], str]


@dataclass(kw_only=True)
class Tally:
    """What became of some mutants."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    slowest_seconds: float = 0.0
    start_bytes: int = 0
    peak_bytes: int = 0
    next_number: int = 0  # of the first mutant after those that were begun
    seconds: float = 0.0  # on the clock

    def add(self, other: "Tally") -> None:
        """Take in another tally."""
        self.outcomes += other.outcomes
        self.failures += other.failures
        self.slowest_seconds = max(self.slowest_seconds, other.slowest_seconds)
        self.start_bytes = max(self.start_bytes, other.start_bytes)
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        self.next_number = max(self.next_number, other.next_number)


class Counts:
    """A tally that several threads add to, and that a file keeps, if one is given."""

    def __init__(self, path: Path | None, seed: int) -> None:
        self.tally = Tally()
        self._path, self._seed, self._lock = path, seed, Lock()
        if path is not None and path.exists():
            kept = json_of(path)
            if kept.pop("seed") != seed:
                raise ValueError(f"{path} counts the mutants of another seed; name another file")
            self.tally = Tally(**{**kept, "outcomes": Counter(kept["outcomes"])})
        self._seconds, self._begun = self.tally.seconds, time.monotonic()

    def add(self, part: Tally) -> None:
        """Take in what became of some more."""
        with self._lock:
            self.tally.add(part)
            self.tally.seconds = self._seconds + time.monotonic() - self._begun
            if self._path is not None:
                write_json(self._path, {"seed": self._seed, **vars(self.tally)})


class Hang(BaseException):
    """The time of a mutant is up."""


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
    for suffix, seeds in files.items():
        for file in seeds:
            examine(file, suffix, languages)
    gc.freeze()  # what is here to stay is not looked through again and again
    _limit_memory()
    start_bytes = _resident_bytes()
    tally = Tally(start_bytes=start_bytes)
    for number in numbers:
        if time.time() > deadline:
            break
        pipe.send(number)
        data, suffix = mutant(files, seed, number), format_of(number)
        started = time.process_time()
        try:
            with _time_limit(limit):
                outcome = examiner(data, suffix, languages)
        except (Exception, Hang) as error:
            outcome = FAILED
            tally.failures.append((number, _described(error)))
        tally.outcomes[outcome if outcome == FAILED else f"{suffix} {outcome}"] += 1
        tally.next_number = number + 1
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


def watch(
    examiner: Examiner, seed: int, numbers: range, deadline: float, limit: float, counts: Counts
) -> None:
    """Let a process work through the numbers; where it dies or is stuck, go on after that one."""
    context = multiprocessing.get_context("spawn")
    while numbers and len(counts.tally.failures) < MOST_FAILURES:
        pipe, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=work, args=(theirs, examiner, seed, numbers, deadline, limit)
        )
        process.start()
        theirs.close()
        number, is_stuck = listen(pipe, counts, process.pid or 0)
        if is_stuck:
            process.kill()
        process.join()
        if process.exitcode == 0:
            break
        if number is None:
            raise RuntimeError("a process died before its first mutant; its words stand above")
        how = "stuck" if is_stuck else f"died with exit code {process.exitcode}"
        counts.add(
            Tally(outcomes=Counter({FAILED: 1}), failures=[(number, how)], next_number=number + 1)
        )
        numbers = numbers[numbers.index(number) + 1 :]


def listen(pipe: Any, counts: Any, process: int) -> tuple[int | None, bool]:
    """Take in a process's reports to its end; return its last mutant, and whether it is stuck."""
    number, clock = None, TaskClock(process)
    with suppress(EOFError):
        while pipe.poll(LOOK_SECONDS) or not clock.is_late(STUCK_SECONDS):
            if not pipe.poll():
                continue
            message, clock = pipe.recv(), TaskClock(process)
            if isinstance(message, Tally):
                counts.add(message)
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
    counts: Path | None = None,
    examiner: Examiner = examine,
) -> Tally:
    """Examine mutants till one of the limits; those that fail are kept in a folder.

    With a file of counts, those of earlier runs with this seed are gone on from, and added to.
    """
    deadline = time.time() + seconds
    kept = Counts(counts, seed)
    begun = kept.tally.next_number
    with ThreadPoolExecutor(processes) as pool:
        lanes = [range(begun + lane, begun + mutants, processes) for lane in range(processes)]
        for done in [
            pool.submit(watch, examiner, seed, numbers, deadline, limit, kept) for numbers in lanes
        ]:
            done.result()
    files = seed_files()
    for number, _ in kept.tally.failures:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{seed}-{number}{format_of(number)}").write_bytes(mutant(files, seed, number))
    return kept.tally


def report(tally: Tally, keep: Path) -> str:
    """Return what a person wants to know."""
    total = tally.outcomes.total()
    read = Counter[str]()
    for outcome, count in tally.outcomes.items():
        suffix, _, what = outcome.partition(" ")
        read[suffix] += count * what.startswith(READ)
    grown = (tally.peak_bytes - tally.start_bytes) / 2**20
    lines = [
        f"{total:,} mutants in {tally.seconds:.0f} s: {read.total():,} read, "
        f"{total - read.total() - tally.outcomes[FAILED]:,} refused, {len(tally.failures):,} failures",
        "read: " + ", ".join(f"{read[suffix]:,} {suffix}" for suffix in FORMATS),
        f"slowest {tally.slowest_seconds:.2f} s of processor time; "
        f"memory grew by {grown:.0f} MB over the {tally.start_bytes / 2**20:.0f} MB at the start",
        *(f"{count:9,}  {outcome}" for outcome, count in tally.outcomes.most_common()),
        *(f"FAILURE {number}: {what}" for number, what in tally.failures),
    ]
    return "\n".join(lines + [f"the mutants that failed are in {keep}"] * bool(tally.failures))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    given = options(
        __doc__, words=arguments, seconds=600.0, mutants=10**9, limit=HANG_SECONDS, counts="", seed=0,
        processes=os.cpu_count() or 1, keep=Path(tempfile.gettempdir()) / "musicgen-fuzz",
    )  # fmt: skip
    counts = Path(given.counts) if given.counts else None
    tally = fuzz(**{**vars(given), "counts": counts})
    print(report(tally, given.keep))
    return bool(tally.failures)
