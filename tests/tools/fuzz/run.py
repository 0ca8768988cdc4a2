"""Fuzz readers, languages and writers with mutated files of every format, in separate processes.

    python -m tests.tools.fuzz --seconds 600 [--mutants N] [--counts FILE] [--limit S] [--seed S] [--processes P]

A mutant must be read or refused with a message. Any other error, a crash, 2 s of processor time or a gigabyte of memory
is a failure: the mutant is saved and the exit code is 1. With --counts, a run continues the previous one.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path

from musicgen.common.workers import Bounds, Failed, in_order
from tests.tools.fuzz.examine import LANGUAGES, READ, examine
from tests.tools.fuzz.mutants import FORMATS, format_of, mutant, seed_files
from tests.tools.options import options
from tokenization.language import Language, language
from tokenization.records import json_of
from tokenization.whole_file import write_json

HANG_SECONDS = 2.0  # of processor time, so that a busy machine does not count as a hang
# Hard limits; the first mutant of a process includes the loading of the languages.
BOUNDS = Bounds(seconds=60, memory_bytes=1 << 30)
WRITE_EVERY = 200
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


class Tally:
    """The outcomes so far and the number of the next mutant, optionally saved in a file."""

    def __init__(self, path: Path | None, seed: int) -> None:
        self.outcomes, self.failures = Counter[str](), list[tuple[int, str]]()
        self.slowest_seconds = self.seconds = 0.0
        self.next_number = 0
        self._path, self._seed = path, seed
        if path is not None and path.exists():
            kept = json_of(path)
            if kept.pop("seed") != seed:
                raise ValueError(f"{path} counts the mutants of another seed; name another file")
            vars(self).update(kept, outcomes=Counter(kept["outcomes"]))
        self._begun = time.monotonic() - self.seconds

    def add(self, answer: tuple[str, float] | Failed, limit: float) -> None:
        """Add the outcome for the next mutant."""
        if isinstance(answer, Failed):
            outcome, seconds, why = FAILED, 0.0, answer.reason
        else:
            outcome, seconds = answer
            why = f"it took {seconds:.1f} s" if seconds > limit else ""
        if why:
            self.failures.append((self.next_number, why))
        self.outcomes[outcome] += 1
        self.slowest_seconds = max(self.slowest_seconds, seconds)
        self.next_number += 1
        if self.next_number % WRITE_EVERY == 0:
            self.write()

    def write(self) -> None:
        """Save the counts."""
        self.seconds = time.monotonic() - self._begun
        if self._path is not None:
            kept = {name: value for name, value in vars(self).items() if name[0] != "_"}
            write_json(self._path, {"seed": self._seed, **kept})


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
    """Examine mutants until a limit is reached, and save those that fail in a folder.

    With a file of counts, continue the earlier runs with this seed.
    """
    deadline, tally = time.monotonic() + seconds, Tally(counts, seed)

    def numbers() -> Iterator[int]:
        begun = tally.next_number
        for number in range(begun, begun + mutants):
            if time.monotonic() > deadline or len(tally.failures) >= MOST_FAILURES:
                return
            yield number

    work = partial(_examined, examiner, seed)
    with closing(in_order(work, numbers(), workers=processes, bounds=BOUNDS)) as answers:
        for answer in answers:
            tally.add(answer, limit)
    tally.write()
    files = seed_files()
    for number, _ in tally.failures:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{seed}-{number}{format_of(number)}").write_bytes(mutant(files, seed, number))
    return tally


def report(tally: Tally, keep: Path) -> str:
    """Return a readable summary."""
    total = tally.outcomes.total()
    read = Counter[str]()
    for outcome, count in tally.outcomes.items():
        suffix, _, what = outcome.partition(" ")
        read[suffix] += count * what.startswith(READ)
    lines = [
        f"{total:,} mutants in {tally.seconds:.0f} s: {read.total():,} read, "
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
        __doc__, words=arguments, seconds=600.0, mutants=10**9, limit=HANG_SECONDS, counts="", seed=0,
        processes=os.cpu_count() or 1, keep=Path(tempfile.gettempdir()) / "musicgen-fuzz",
    )  # fmt: skip
    counts = Path(given.counts) if given.counts else None
    tally = fuzz(**{**vars(given), "counts": counts})
    print(report(tally, given.keep))
    return bool(tally.failures)
