"""The listener of a training run: prints or logs its progress, so that the loop does neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from musicgen.model.performer import Performer


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is known of a run at a logged step."""

    step: int
    steps: int
    loss: float
    tokens_per_second: float
    validation: float | None


class Listener(Protocol):
    """Receives what happens in a run; only the first process reports."""

    def stepped(self, step: int, steps: int) -> None:
        """Hear that a step is done."""
        ...

    def progress(self, progress: Progress) -> None:
        """Hear where the run stands, at each logged step."""
        ...

    def validated(self, model: Performer, step: int) -> None:
        """Hear that a validation is done, with the model in evaluation mode: the moment to write samples."""
        ...
