"""The learning rate of a run, by the number of a step; in the tail of a run by the clock, by the time.

A run of so many seconds holds its rate, saves, and lets the rate fall to the end of its time: the tail, whose weights
are those to use. What goes on later goes on from before the tail, where the rate was held; so a run can be ended with a
tail at any time, and any number of times.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from musicgen.common.learning import held_rate, learning_rate
from training.config import OptimiserConfig
from training.data.batches import Batches


@dataclass(frozen=True, kw_only=True)
class Limit:
    """How long a run by the clock goes on, and the share of it in which the rate falls, if not the settings'."""

    seconds: float
    tail: float | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"a run lasts more than 0 seconds, not {self.seconds}")
        if self.tail is not None and not 0 <= self.tail <= 1:
            raise ValueError(
                f"the tail is {self.tail}: a share of the seconds of a run, from 0 to 1"
            )


class Schedule:
    """The learning rate, and how long a run goes on."""

    def __init__(self, settings: OptimiserConfig, batches: Batches, limit: Limit | None) -> None:
        if limit is not None and settings.schedule != "hold":
            raise ValueError(
                "a run of so many seconds holds its rate until its tail; --set optimiser.schedule=hold says so"
            )
        if limit is not None and batches.processes > 1:
            raise ValueError("a run of so many seconds takes one device: clocks of several differ")
        self.settings, self.seconds = settings, None if limit is None else limit.seconds
        self.share = settings.tail if limit is None or limit.tail is None else limit.tail
        self.whole = batches.steps(settings.steps, settings.epochs)  # as the settings say
        cosine = settings.cosine_epochs
        self.falling = self.whole if cosine is None else batches.steps(None, cosine)
        self.in_tail, self.held = False, 0  # and the step before the tail
        self._began, self._first, self._fell = time.monotonic(), 0, 0.0

    @property
    def steps(self) -> int:
        """The steps after which the run ends; of one by the clock there is no limit."""
        return self.whole if self.seconds is None else sys.maxsize

    def start(self, step: int) -> None:
        """Begin to count the seconds, at a step."""
        self._began, self._first, self.in_tail = time.monotonic(), step, False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        """Whether the seconds are over."""
        return self.seconds is not None and self.elapsed >= self.seconds

    def turns(self, step: int) -> bool:
        """Say, once, that the tail begins after a step."""
        if self.seconds is None or self.in_tail or self.elapsed < self.seconds * (1 - self.share):
            return False
        self.in_tail, self.held, self._fell = True, step, self.elapsed
        return True

    def expected(self, step: int) -> int:
        """Return the step at which the run ends: of one by the clock, at its pace so far."""
        if self.seconds is None:
            return self.whole
        pace = self.elapsed / max(1, step - self._first)
        return step + max(0, round((self.seconds - self.elapsed) / max(1e-9, pace)))

    def rate(self, step: int, began: int = 0) -> float:
        """Return the rate of a step now; the warm-up began at a step."""
        settings, peak = self.settings, self.settings.learning_rate
        floor, warmup = peak * settings.final_rate, settings.warmup
        if step - began < warmup:
            rate = peak * (step - began + 1) / warmup
        elif settings.schedule == "cosine":
            rate = learning_rate(step, peak=peak, floor=floor, warmup=warmup, total=self.falling)
        else:
            total = self.whole if self.seconds is None else None
            tail = settings.tail
            rate = held_rate(step, peak=peak, floor=floor, warmup=0, total=total, tail=tail)
        return rate * self._left() if self.in_tail else rate

    def _left(self) -> float:
        """Return what of the rate is left in the tail, from 1 to its final share."""
        assert self.seconds is not None, "only a run by the clock turns"
        share = (self.seconds - self.elapsed) / max(1e-9, self.seconds - self._fell)
        final = self.settings.final_rate
        return final + (1 - final) * min(1.0, max(0.0, share))
