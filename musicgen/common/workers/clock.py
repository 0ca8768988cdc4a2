"""What a task has taken so far: the processor time of its process, and how long that stood still.

By the clock on the wall, a machine that was suspended, or busy with other work, would give up files that another
machine prepares.
"""

from __future__ import annotations

import sys
import time

LOOK_SECONDS = 1.0  # a task is looked at this often; more between two looks is not held against it


class TaskClock:
    """Runs from its making on, as often as `is_late` is asked."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._begun = self._used = processor_seconds(process)
        self._looked, self._still = time.monotonic(), 0.0

    def is_late(self, seconds: float) -> bool:
        """Say whether the task has had so much processor time, or has not moved for as long."""
        used, now = processor_seconds(self._process), time.monotonic()
        self._still = (
            0.0 if used != self._used else self._still + min(now - self._looked, LOOK_SECONDS)
        )
        self._used, self._looked = used, now
        return used - self._begun > seconds or self._still > seconds


def processor_seconds(process: int) -> float:
    """Return the processor time of a process; 0 where the system does not tell, which is anywhere but on Linux."""
    if sys.platform != "linux":
        return 0.0
    try:
        return time.clock_gettime(~process << 3 | 2)  # clock_getcpuclockid(3)
    except OSError:  # it has ended
        return 0.0
