"""Fuzz readers, languages and writers with mutated files of every format, in separate processes.

    python -m tests.tools.fuzz --seconds 600 [--mutants N] [--limit S] [--seed S] [--processes P]

A mutant must be read or refused with a message. Any other error, a crash, 2 s of processor time or a gigabyte of memory
is a failure: the mutant is saved and the exit code is 1. Without --seed, each run has other mutants.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from tests.tools.fuzz.examine import LANGUAGES, READ, examine
from tests.tools.fuzz.mutants import FORMATS, format_of, mutant, seed_files
from tests.tools.options import options
from tokenization.language import Language, language
from tokenization.whole_file import write_bytes
from tokenization.workers import Bounds, Failed, in_order

HANG_SECONDS = 2.0  # of processor time, so that a busy machine does not count as a hang
# Hard limits; the first mutant of a process includes the loading of the languages.
BOUNDS = Bounds(seconds=60, memory_bytes=1 << 30)
MOST_FAILURES = 20
FAILED = "failed"

Examiner = Callable[[bytes, str, Sequence[Language]], str]


@cache
def _material() -> tuple[dict[str, list[bytes]], list[Language]]:
    """Return the seed files and the languages, warmed up."""
    files, languages = seed_files(), [language(name) for name in LANGUAGES]
    for suffix, seeds in files.items():
        for file in seeds:
            examine(file, suffix, languages)
    return files, languages


def _examined(examiner: Examiner, seed: int, number: int) -> tuple[str, float]:
    """Return the outcome for a mutant and its processor time in seconds."""
    files, languages = _material()
    data, suffix = mutant(files, seed, number), format_of(number)
    begun = time.process_time()
    outcome = examiner(data, suffix, languages)
    return f"{suffix} {outcome}", time.process_time() - begun


@dataclass
class Tally:
    """The outcomes, the numbers of the mutants that failed and why, and the longest processor time."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    slowest_seconds: float = 0.0


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
    """Examine mutants until a limit is reached, and save those that fail in a folder."""
    deadline, files, tally = time.monotonic() + seconds, seed_files(), Tally()

    def numbers() -> Iterator[int]:
        for number in range(mutants):
            if time.monotonic() > deadline or len(tally.failures) >= MOST_FAILURES:
                return
            yield number

    work = partial(_examined, examiner, seed)
    with closing(in_order(work, numbers(), workers=processes, bounds=BOUNDS)) as answers:
        for number, answer in enumerate(answers):
            if isinstance(answer, Failed):
                outcome, taken, why = FAILED, 0.0, answer.reason
            else:
                outcome, taken = answer
                why = f"it took {taken:.1f} s" if taken > limit else ""
            tally.outcomes[outcome] += 1
            tally.slowest_seconds = max(tally.slowest_seconds, taken)
            if why:
                tally.failures.append((number, why))
                name = f"{seed}-{number}{format_of(number)}"
                write_bytes(keep / name, mutant(files, seed, number))
    return tally


def report(tally: Tally, keep: Path) -> str:
    """Return a readable summary."""
    total = tally.outcomes.total()
    read = Counter[str]()
    for outcome, count in tally.outcomes.items():
        suffix, _, what = outcome.partition(" ")
        read[suffix] += count * what.startswith(READ)
    lines = [
        f"{total:,} mutants: {read.total():,} read, "
        f"{total - read.total() - tally.outcomes[FAILED]:,} refused, {len(tally.failures):,} failures",
        "read: " + ", ".join(f"{read[suffix]:,} {suffix}" for suffix in FORMATS),
        f"slowest {tally.slowest_seconds:.2f} s of processor time",
        *(f"{count:9,}  {outcome}" for outcome, count in tally.outcomes.most_common()),
        *(f"FAILURE {number}: {what}" for number, what in tally.failures),
    ]
    return "\n".join(lines + [f"the failed mutants are in {keep}"] * bool(tally.failures))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    given = options(
        __doc__, words=arguments, seconds=600.0, mutants=10**9, limit=HANG_SECONDS, seed=int(time.time()),
        processes=os.cpu_count() or 1, keep=Path(tempfile.gettempdir()) / "musicgen-fuzz",
    )  # fmt: skip
    tally = fuzz(**vars(given))
    print(report(tally, given.keep))
    return bool(tally.failures)
