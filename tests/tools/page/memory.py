"""The memory of a server's processes, each by itself, and how it grows."""

import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np

PARTS = 5  # of the time, each told by its mean
KINDS = {  # by what a command line holds, the first that fits
    "app.audio": "sound",
    "resource_tracker": "tracker",
    "spawn_main": "composing",
}


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


def kind_of(process: int) -> str:
    """Return what a process of a server is for."""
    with suppress(OSError):
        command = Path(f"/proc/{process}/cmdline").read_text()
        return next((kind for part, kind in KINDS.items() if part in command), "server")
    return "sound"  # gone: those alone come and go


class MemoryWatch:
    """Readings of all processes that one has started."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._begun = time.monotonic()
        self._seconds: list[float] = []
        self._kinds: dict[int, str] = {}
        self._readings: list[dict[int, float]] = []  # MB, by process

    def read(self) -> None:
        """Take a reading."""
        found = processes_under(self._parent)
        for process in found:
            if process not in self._kinds:
                self._kinds[process] = kind_of(process)
        self._seconds.append(time.monotonic() - self._begun)
        self._readings.append({process: memory_bytes(process) / 2**20 for process in found})

    def rows(self) -> dict[str, np.ndarray]:
        """Return the readings, MB, of each process that stays, of all that make sounds, and of all there are."""
        rows: dict[str, np.ndarray] = {}
        for process, kind in self._kinds.items():
            taken = np.array([reading.get(process, 0.0) for reading in self._readings])
            named = kind if kind == "sound" else f"{kind} {process}"
            rows[named] = rows.get(named, 0.0) + taken
        sounds = rows.pop("sound", None)
        stay = np.sum([*rows.values()], axis=0)
        if sounds is None:
            return {**rows, "all": stay}
        return {**rows, "all that stay": stay, "sounds": sounds, "all": stay + sounds}

    def table(self) -> str:
        """Return the means of each part of the time, and the slope of the second half in MB a minute."""
        seconds = np.array(self._seconds)
        parts = " ".join(f"{f'{part}/{PARTS}':>7}" for part in range(1, PARTS + 1))
        lines = [f"{'memory, MB, on average':<24}{parts}  MB a minute, second half"]
        for name, row in self.rows().items():
            means = " ".join(f"{part.mean():7.1f}" for part in np.array_split(row, PARTS))
            lines.append(f"{name:<24}{means}{slope(seconds, row):+12.1f}")
        return "\n".join(lines)


def slope(seconds: np.ndarray, readings: np.ndarray) -> float:
    """Return how readings grow in a minute, by the line through their second half."""
    half = seconds >= seconds[-1] / 2
    return float(60 * np.polyfit(seconds[half], readings[half], 1)[0])
