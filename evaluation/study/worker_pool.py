"""One piece of work shared out over processes, where each sets itself up once and then does its share.

What the processes find out they write to files; here they only tell that another task is done. A process ends when
the one that started it does, whatever ended that.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, TypeVar

from musicgen.common.processes import CONTEXT, interrupts_held, processors

Task = TypeVar("Task")
Work = Callable[[Sequence[Task], Callable[[], None]], None]

THREADS = "OMP_NUM_THREADS"  # torch reads it when it is imported


def share_out(
    work: Work[Task], tasks: Sequence[Task], workers: int, tell: Callable[[], None]
) -> None:
    """Do all tasks, `work(share, tell)` in each process, and call `tell` here whenever one is done.

    With one worker, or one task, it is done in this process.
    """
    workers = min(workers, len(tasks))
    if workers > 1:
        _apart(work, [tasks[i::workers] for i in range(workers)], tell)
    elif tasks:
        work(tasks, tell)


def _apart(work: Work[Task], shares: Sequence[Sequence[Task]], tell: Callable[[], None]) -> None:
    pool: dict[Any, BaseProcess] = {}  # by connection, whose type depends on the system
    try:
        with interrupts_held(), _threads(max(1, processors() // len(shares))):
            for share in shares:
                ours, theirs = CONTEXT.Pipe(duplex=False)
                pool[ours] = CONTEXT.Process(target=_work, args=(work, share, theirs), daemon=True)
                pool[ours].start()
                theirs.close()
        while pool:
            ready: list[Any] = wait(list(pool))
            for connection in ready:
                try:
                    told = connection.recv()
                except EOFError:
                    _check(pool.pop(connection))
                    continue
                if isinstance(told, Exception):
                    raise told
                tell()
    finally:
        for process in pool.values():
            process.terminate()
            process.join()


def _check(process: BaseProcess) -> None:
    process.join()
    if process.exitcode == -9:  # what Linux does where memory runs out
        raise MemoryError
    if process.exitcode:
        raise ValueError(
            f"a process ended with exit code {process.exitcode}; with one worker it may go well"
        )


def _work(work: Work[Task], share: Sequence[Task], connection: Connection) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(BrokenPipeError):  # nobody waits for it any more
        try:
            work(share, lambda: connection.send(None))
        except (ValueError, OSError, MemoryError) as error:
            connection.send(error)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a started process calls this"
    parent.join()
    os._exit(1)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let each process started within compute in so many threads, unless the user has said how many."""
    if THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = str(count)
    try:
        yield
    finally:
        del os.environ[THREADS]
