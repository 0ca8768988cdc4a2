"""Mutated files of every format through readers, languages and writers, in processes that may die.

    python -m tests.tools.fuzz --seconds 600 [--mutants N] [--counts FILE] [--limit S] [--seed S] [--processes P]

A mutant is read, or refused in a sentence. Any other error, a crash, 2 s of processor time or
a gigabyte of memory is a failure: the mutant is kept in a file, and the exit code is 1.
With --counts, a run goes on after the mutants of the one before, and adds to what became of them.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

from musicgen.common.workers.pool import in_order
from musicgen.common.workers.process import Failed
from tests.tools.fuzz.examine import LANGUAGES, READ, examine
from tests.tools.fuzz.mutants import format_of, mutant, seed_files
from tokenization.language import Language, language
from tokenization.records import json_of
from tokenization.whole_file import write_json

HANG_SECONDS = 2.0  # of processor time, so that a busy machine makes no hangs
STUCK_SECONDS = 60.0  # of processor time too, or without any: in foreign code no alarm is heard
MEMORY_BYTES = 1 << 30
MOST_FAILURES = 20
SAVE_EVERY = 10_000  # mutants

Examiner = Callable[[bytes, str, Sequence[Language]], str]

files_of_process = cache(seed_files)
languages_of_process = cache(lambda: [language(name) for name in LANGUAGES])


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise an error after so many seconds of processor time."""

    def stop(_: int, frame: FrameType | None) -> None:
        raise RuntimeError(
            f"more than {seconds} s in {frame.f_code.co_name if frame else 'nowhere'}"
        )

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def outcome(examiner: Examiner, limit: float, seed: int, number: int) -> str:
    """Return the format of a mutant, and what becomes of it."""
    files, languages = files_of_process(), languages_of_process()
    data, suffix = mutant(files, seed, number), format_of(number)
    with time_limit(limit):
        return f"{suffix} {examiner(data, suffix, languages)}"


def before(deadline: float, numbers: Iterator[int]) -> Iterator[int]:
    """Yield numbers until it is late."""
    for number in numbers:
        if time.monotonic() > deadline:
            return
        yield number


def fuzz(options: argparse.Namespace, examiner: Examiner = examine) -> dict[str, Any]:
    """Examine mutants till one of the limits, keep those that fail, and return what became of all."""
    seed, path = options.seed, options.counts
    kept = {"seed": seed, "next": 0, "seconds": 0.0, "outcomes": {}, "failures": []}
    if path is not None and path.exists():
        kept = json_of(path)
        if kept["seed"] != seed:
            raise ValueError(f"{path} counts the mutants of another seed; name another file")
    outcomes, failures = Counter(kept["outcomes"]), kept["failures"]
    begun, first, earlier = time.monotonic(), kept["next"], kept["seconds"]
    numbers = before(begun + options.seconds, iter(range(first, first + options.mutants)))
    answers = in_order(
        partial(outcome, examiner, options.limit, seed),
        numbers,
        workers=options.processes,
        limit_seconds=STUCK_SECONDS,
        memory_bytes=MEMORY_BYTES,
    )
    with closing(answers):
        for number, found in enumerate(answers, first):
            if isinstance(found, Failed):
                failures.append([number, found.reason])
                options.keep.mkdir(parents=True, exist_ok=True)
                kept_file = options.keep / f"{seed}-{number}{format_of(number)}"
                kept_file.write_bytes(mutant(files_of_process(), seed, number))
            else:
                outcomes[found] += 1
            kept |= {"next": number + 1, "seconds": earlier + time.monotonic() - begun}
            kept["outcomes"] = dict(outcomes)
            if path is not None and kept["next"] % SAVE_EVERY == 0:
                write_json(path, kept)
            if len(failures) >= MOST_FAILURES:
                break
    if path is not None:
        write_json(path, kept)
    return kept


def report(found: dict[str, Any], keep: Path) -> str:
    """Return what a person wants to know."""
    outcomes, failures = Counter(found["outcomes"]), found["failures"]
    read = sum(count for what, count in outcomes.items() if f" {READ}" in what)
    total = outcomes.total() + len(failures)
    lines = [
        f"{total:,} mutants in {found['seconds']:.0f} s: {read:,} read, "
        f"{outcomes.total() - read:,} refused, {len(failures):,} failures",
        *(f"{count:9,}  {what}" for what, count in outcomes.most_common()),
        *(f"FAILURE {number}: {what}" for number, what in failures),
    ]
    return "\n".join(lines + [f"the mutants that failed are in {keep}"] * bool(failures))


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Return what a command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--mutants", type=int, default=10**9, help="stop after so many")
    parser.add_argument(
        "--limit", type=float, default=HANG_SECONDS, help="seconds of processor time a mutant"
    )
    parser.add_argument("--counts", type=Path, help="a file of counts to go on from and add to")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "musicgen-fuzz")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    options = arguments(words)
    found = fuzz(options)
    print(report(found, options.keep))
    return bool(found["failures"])
