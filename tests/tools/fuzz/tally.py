"""What became of mutants, in one run or in many: counts that a file keeps, so that a later run adds to them."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from tokenization.records import json_of
from tokenization.whole_file import write_json


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

    def add(self, other: Tally) -> None:
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
