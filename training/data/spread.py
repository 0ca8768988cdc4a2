"""Batches cut by several processes, for a device that takes them faster than one thread cuts them.

Batch n is a function of the seed and n (batches.py), so each process cuts every so-manyth, and they come in order.
"""

from __future__ import annotations

import itertools
import queue
import signal
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Any

import numpy as np

from training.config import DataConfig
from training.data.batches import Batches, Part, windows_of

_AHEAD = 2  # batches that each process has ready
_PATIENCE = 1.0  # seconds between two looks whether a process still lives


class Spread:
    """The batches from a number on, cut by so many processes."""

    def __init__(self, batches: Batches, first: int, workers: int) -> None:
        self._first, self._next, self._length = first, first, batches.config.length
        context = get_context("spawn")  # a process that has a GPU cannot be forked
        self._queues: list[Any] = [context.Queue(_AHEAD) for _ in range(workers)]
        given = (batches.config, batches.seed, batches.process, batches.processes)
        self._workers = [
            context.Process(target=_cut, args=(*given, first + at, workers, queue), daemon=True)
            for at, queue in enumerate(self._queues)
        ]
        for worker in self._workers:
            worker.start()

    def parts(self, number: int, step: int) -> Iterator[Part]:
        """Yield a batch as steps learn from it; the batches are asked for in order."""
        assert number == self._next, "processes cut batches in order"
        self._next += 1
        at = (number - self._first) % len(self._workers)
        item = self._taken(at)
        if isinstance(item, Exception):
            raise item
        return windows_of(item.astype(np.int64), self._length, number, step)

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.join()

    def _taken(self, at: int) -> Any:
        while True:
            try:
                return self._queues[at].get(timeout=_PATIENCE)
            except queue.Empty:
                if not self._workers[at].is_alive():
                    code = self._workers[at].exitcode
                    raise RuntimeError(
                        f"a process that cuts batches ended with code {code}; "
                        "data.workers=0 cuts them in a thread"
                    ) from None


def _cut(
    config: DataConfig, seed: int, process: int, processes: int, first: int, every: int, to: Any
) -> None:
    """Cut every so-manyth batch from the first on, until ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        batches = Batches(config, seed, process=process, processes=processes)
        for number in itertools.count(first, every):
            to.put(batches.batch(number).astype(np.int32))
    except Exception as error:
        to.put(error)
