"""Processors, child processes, file locks, full disks, the cache folder and the version of the program."""

from __future__ import annotations

import errno
import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
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


@cache
def program() -> str:
    """Return the program's name and version."""
    try:
        return f"musicgen {version('symbolic-musicgen')}"
    except PackageNotFoundError:
        return "musicgen from source"  # not installed


# Locks on files, each held by one process at a time. The system releases a lock when its process ends.

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None


def open_locked(path: Path, flags: int) -> int | None:
    """Open and lock a file or folder; closing the returned descriptor releases it. None if locks are not supported.

    Raises BlockingIOError if another process holds the lock.
    """
    if fcntl is None:
        return None
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None  # the file system does not support locks
    return descriptor


ROOT = str(Path(__file__).parents[2])
ISOLATED = "-I"  # no modules from the current folder or from PYTHON… variables
SAFE_PATH = "PYTHONSAFEPATH"  # the first half of that, for children that multiprocessing starts
THREADS = "OMP_NUM_THREADS"  # torch reads it on import
_ENTER = (
    "import os, runpy, sys; "
    "sys.path[:0] = [p for p in sys.argv.pop(1).split(os.pathsep) if p not in sys.path]; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)

# Each process starts a new interpreter: forks of a process with threads, as of torch and C++ libraries, can hang.
CONTEXT = multiprocessing.get_context("spawn")


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs one of our modules as a program, importing nothing from the current folder.

    `python -m` would import an app.py or numpy.py from whatever folder the user is in.
    """
    here = None
    with suppress(FileNotFoundError):  # the folder has been deleted
        here = os.path.realpath(os.curdir)
    paths = (path for path in sys.path if os.path.isabs(path) and os.path.realpath(path) != here)
    search_path = os.pathsep.join(dict.fromkeys([ROOT, *paths]))
    # PYTHONDONTWRITEBYTECODE does not reach an isolated process, so that -B replaces it.
    flags = [ISOLATED, "-B"] if sys.dont_write_bytecode else [ISOLATED]
    return [sys.executable, *flags, "-c", _ENTER, search_path, module, *arguments]


_STARTING = threading.Lock()


@contextmanager
def started_apart(threads: int | None = None) -> Iterator[None]:
    """Shield processes started in this context from the modules of the current folder and from Ctrl-C.

    A terminal sends Ctrl-C to all processes. The children use `threads` threads, unless that is None or the user has
    set OMP_NUM_THREADS.
    """
    masked = hasattr(signal, "pthread_sigmask")
    # The lock keeps one thread from saving, and later restoring, the variables that another has set.
    with _STARTING, ExitStack() as after:
        variables = {SAFE_PATH: "1"}
        if threads is not None and THREADS not in os.environ:
            variables[THREADS] = str(threads)
        for name, value in variables.items():
            old, os.environ[name] = os.environ.get(name), value
            if old is None:
                after.callback(os.environ.pop, name, None)
            else:
                after.callback(os.environ.__setitem__, name, old)
        # Otherwise the first start of a process would run it, and unblock the signal that is blocked here.
        resource_tracker.ensure_running()
        if masked:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            after.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        yield


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
THREAD_SECONDS = 1  # grace period for a thread that may have met the full disk too


@contextmanager
def full_disk_named(folder: Path, advice: str) -> Iterator[None]:
    """Raise an OSError with a readable message if a write below a folder fails for lack of space.

    Threads started in this context, such as TensorBoard's, can fail the same way; the message is given once.
    """
    before, hook = {*threading.enumerate()}, threading.excepthook
    threading.excepthook = lambda args: None if _is_full(args.exc_value) else hook(args)
    try:
        yield
    except OSError as error:
        if not _is_full(error):
            raise
        for thread in {*threading.enumerate()} - before:
            thread.join(THREAD_SECONDS)
        raise OSError(f"the disk of {folder} is full; free some space, or {advice}") from None
    finally:
        threading.excepthook = hook


def _is_full(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in FULL


def lock_folder(folder: Path, taken: str) -> int | None:
    """Lock a folder until the returned descriptor is closed or this process ends.

    Raises ValueError with the message `taken` if another process holds it.
    """
    try:
        return open_locked(folder, os.O_RDONLY)
    except BlockingIOError:
        raise ValueError(taken) from None
