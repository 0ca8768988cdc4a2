"""Fuzz readers, languages and writers with mutated files of every format, in separate processes.

    python -m tests.tools.fuzz --seconds 600 [--mutants N] [--limit S] [--seed S] [--processes P] [--failures N]

A mutant must be read or refused with a message. Any other error, a crash, 2 s of processor time or a gigabyte of memory
is a failure: the mutant is saved and the exit code is 1. Without --seed, each run has other mutants. The counts are
printed every --say seconds.
"""

import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
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
BATCH = 50  # mutants that a process examines at once
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


def _examined(examiner: Examiner, seed: int, numbers: range) -> list[tuple[str, float]]:
    """Return the outcome for each of some mutants and its processor time in seconds."""
    files, languages = _material()
    found: list[tuple[str, float]] = []
    for number in numbers:
        data, suffix = mutant(files, seed, number), format_of(number)
        begun = time.process_time()
        outcome = examiner(data, suffix, languages)
        found.append((f"{suffix} {outcome}", time.process_time() - begun))
    return found


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
    failures: int = 20,
    say: float = math.inf,
    limit: float = HANG_SECONDS,
    examiner: Examiner = examine,
) -> Tally:
    """Examine mutants until a limit is reached, and save those that fail in a folder."""
    begun, files, tally = time.monotonic(), seed_files(), Tally()
    work, said = partial(_examined, examiner, seed), begun

    numbers = range(mutants)

    def batches() -> Iterator[range]:
        for first in numbers[::BATCH]:
            if time.monotonic() > begun + seconds or len(tally.failures) >= failures:
                return
            yield numbers[first : first + BATCH]

    def answers() -> Generator[tuple[int, tuple[str, float] | Failed], None, None]:
        """Yield the answer for each mutant; those of a batch in which one fails are examined one by one."""
        with closing(in_order(work, batches(), workers=processes, bounds=BOUNDS)) as found:
            for first, answer in zip(numbers[::BATCH], found, strict=False):
                batch = numbers[first : first + BATCH]
                if isinstance(answer, Failed):
                    ones = (range(number, number + 1) for number in batch)
                    alone = in_order(work, ones, workers=1, bounds=BOUNDS)
                    answer = [one if isinstance(one, Failed) else one[0] for one in alone]
                yield from zip(batch, answer, strict=True)

    with closing(answers()) as numbered:
        for number, answer in numbered:
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
            if time.monotonic() > said + say:
                said = time.monotonic()
                counts = report(tally, keep).split("\n", 1)[0]
                print(f"after {said - begun:,.0f} s: {counts}", flush=True)
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
        failures=20, say=60.0, processes=os.cpu_count() or 1, keep=Path(tempfile.gettempdir()) / "musicgen-fuzz",
    )  # fmt: skip
    tally = fuzz(**vars(given))
    print(report(tally, given.keep))
    return bool(tally.failures)
