"""What a person sees of a training run: a live line in a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app import output
from training.loop import Progress

if TYPE_CHECKING:
    from musicgen.model.performer import Performer

PLAIN_SECONDS = 60.0  # between two plain lines

Samples = Callable[["Performer", int], list[str]]  # writes samples of music, returns remarks


class TrainingLine:
    """Listens to a run; `say` prints a line, `show` renews the live one."""

    def __init__(
        self, samples: Samples, say: Callable[[str], None], show: Callable[[int, int, str], None]
    ) -> None:
        self._samples, self._say, self._show = samples, say, show
        self._begun: tuple[int, float] | None = None  # the first step seen, and when
        self._said: set[str] = set()
        self._text = ""
        self._last_line = -PLAIN_SECONDS
        self.live = True

    def stepped(self, step: int, steps: int) -> None:
        """Move the bar."""
        if self._begun is None:
            self._begun = (step, time.monotonic())
        self._show(step, steps, self._text)

    def progress(self, progress: Progress) -> None:
        """Renew the numbers."""
        self._text = _numbers(progress, self._seconds_left(progress))
        self._show(progress.step, progress.steps, self._text)
        due = time.monotonic() - self._last_line >= PLAIN_SECONDS or progress.step == progress.steps
        if not self.live and due:
            self._last_line = time.monotonic()
            self._say(f"step {progress.step:,} of {progress.steps:,}: {self._text}")

    def validated(self, model: Performer, step: int) -> None:
        """Have samples written; a remark on them is made once."""
        for remark in self._samples(model, step):
            if remark not in self._said:
                self._said.add(remark)
                self._say(remark)

    def _seconds_left(self, progress: Progress) -> float | None:
        """Return the time to the last step at the pace since the first one, validations and all."""
        if self._begun is None or progress.step <= self._begun[0]:
            return None
        pace = (time.monotonic() - self._begun[1]) / (progress.step - self._begun[0])
        return pace * (progress.steps - progress.step)


@contextmanager
def training_line(samples: Samples, *, silent: bool = False) -> Iterator[TrainingLine]:
    """Give a listener that speaks on the standard error; `silent` is for all processes but the first."""
    if silent or not sys.stderr.isatty():
        line = TrainingLine(
            samples, lambda text: output.remark([] if silent else [text]), lambda *_: None
        )
        line.live = False
        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield TrainingLine(
            samples,
            lambda text: console.print(text, markup=False, highlight=False),
            lambda step, steps, text: bar.update(
                task, completed=step, total=steps, description=text
            ),
        )


def _numbers(progress: Progress, seconds_left: float | None) -> str:
    parts = [f"loss {progress.loss:.4f}", f"{progress.tokens_per_second:,.0f} tokens/s"]
    if progress.validation is not None:
        parts.append(f"validation {progress.validation:.4f}")
    if seconds_left is not None:
        parts.append(f"{duration(seconds_left)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return a time as people say it, such as 2 h 05 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
