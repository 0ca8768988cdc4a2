"""Processors, child processes, file locks, full disks and the cache folder."""

from __future__ import annotations

import errno
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path


def machine() -> str:
    """Describe the machine: the GPU, or the processor and its available cores, and the version of torch."""
    import torch  # imported here, since processes that only wait start faster without it

    if torch.cuda.is_available():
        device = torch.cuda.get_device_name()
    else:
        processor = _cpu_info("model name") or platform.processor() or platform.machine()
        device = f"{processors()} cores of {processor}"
    return f"{device}, torch {torch.__version__}"


def _cpu_info(key: str) -> str:
    """Return a value of Linux's description of the first processor; empty on other systems."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


# With Linux's names. Other processors emulate bfloat16, and multiply matrices ten times more slowly than in float32.
_BFLOAT16 = {"AMX": "amx_bf16", "AVX-512 BF16": "avx512_bf16"}


def multiplies_bfloat16() -> str | None:
    """Return the name of the processor's instructions for bfloat16, or None if it has none or they are unknown."""
    flags = _cpu_info("flags").split()
    return next((name for name, flag in _BFLOAT16.items() if flag in flags), None)


def cache_folder() -> Path:
    """Return the user's cache folder; the path is relative if the user has no home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.cache"))
    return root / "musicgen"


try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None


def lock_folder(folder: Path, taken: str) -> int | None:
    """Lock a folder until the returned descriptor is closed or this process ends; None if locks are not supported.

    Raises ValueError with the message `taken` if another process holds it.
    """
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise ValueError(taken) from None
        return None  # the file system does not support locks
    return descriptor


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


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def full_disk_named(folder: Path, advice: str) -> Iterator[None]:
    """Raise an OSError with a readable message if a write below a folder fails for lack of space."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(f"the disk of {folder} is full; free some space, or {advice}") from None
