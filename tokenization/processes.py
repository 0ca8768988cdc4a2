"""The processors of this machine, and child processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

SAFE_PATH = "PYTHONSAFEPATH"  # no modules from the current folder
THREADS = "OMP_NUM_THREADS"  # torch reads it on import

# Each process starts a new interpreter: forks of a process with threads, as of torch and C++ libraries, can hang.
CONTEXT = multiprocessing.get_context("spawn")


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_STARTING = threading.Lock()


@contextmanager
def started_apart(threads: int | None = None) -> Iterator[None]:
    """Shield processes started in this context from the modules of the current folder and from Ctrl-C.

    A terminal sends Ctrl-C to all processes. The children use `threads` threads, unless that is None or the user has
    set OMP_NUM_THREADS.
    """
    with _STARTING:  # keeps one thread from restoring the variables that another has set
        before = dict(os.environ)
        os.environ[SAFE_PATH] = "1"
        if threads is not None:
            os.environ.setdefault(THREADS, str(threads))
        # Otherwise the first start of a process would run it, and unblock the signal that is blocked here.
        resource_tracker.ensure_running()
        masked = hasattr(signal, "pthread_sigmask")  # not on Windows
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masked else None
        try:
            yield
        finally:
            if mask is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for name in {SAFE_PATH, THREADS} - before.keys():
                os.environ.pop(name, None)
            os.environ.update(before)
