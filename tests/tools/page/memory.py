"""The memory of a server's processes, and how it grows."""

import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np

PARTS = 5  # of the time, each told by its mean


def processes_under(parent: int) -> list[int]:
    """Return the processes that one has started, and those that these have."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            children[int(fields[1])].append(int(folder.name))
    found = [*children[parent]]
    for process in found:
        found += children[process]
    return found


def memory_bytes(process: int) -> int:
    """Return what a process takes, of pages that several share its part; 0 of one that is gone."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0


class MemoryWatch:
    """Readings of all processes together that one has started."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._readings: list[tuple[float, float]] = []  # seconds, MB

    def read(self) -> None:
        """Take a reading."""
        taken = sum(map(memory_bytes, processes_under(self._parent)))
        self._readings.append((time.monotonic(), taken / 2**20))

    def told(self) -> str:
        """Return the means of each part of the time, and the slope of the second half."""
        seconds, taken = np.array(self._readings).T
        means = " ".join(f"{part.mean():.0f}" for part in np.array_split(taken, PARTS))
        half = seconds >= (seconds[0] + seconds[-1]) / 2
        slope = 60 * np.polyfit(seconds[half], taken[half], 1)[0]
        return f"memory, MB, in each fifth of the time: {means}; {slope:+.1f} a minute in its second half"
