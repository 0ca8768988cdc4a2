"""This machine and its processes: how many, how they start and end, files that one of them holds; and the program."""

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
    """Return the device, or the processor with the cores at hand, and the version of torch."""
    import torch  # here, since processes that only wait start without it

    if torch.cuda.is_available():
        device = torch.cuda.get_device_name()
    else:
        processor = _described("model name") or platform.processor() or platform.machine()
        device = f"{processors()} cores of {processor}"
    return f"{device}, torch {torch.__version__}"


def _described(key: str) -> str:
    """Return what Linux says of the first processor; nothing elsewhere."""
    described = Path("/proc/cpuinfo")
    for line in described.read_text().splitlines() if described.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


# As Linux names them. Other processors imitate bfloat16: matrices take ten times as long as in float32.
_BFLOAT16 = {"AMX": "amx_bf16", "AVX-512 BF16": "avx512_bf16"}


def multiplies_bfloat16() -> str | None:
    """Return the instructions by which the processor multiplies bfloat16; None where none is known."""
    flags = _described("flags").split()
    return next((name for name, flag in _BFLOAT16.items() if flag in flags), None)


def cache_folder() -> Path:
    """Return the user's folder for what this machine has found out; of who has no home it is no absolute path."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.cache"))
    return root / "musicgen"


@cache
def program() -> str:
    """Return the name and the version."""
    try:
        return f"musicgen {version('symbolic-musicgen')}"
    except PackageNotFoundError:
        return "musicgen from source"  # without an installation


# A file that is held by one process at a time. The system lets go of a lock when its process ends.

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None

CAN_LOCK = fcntl is not None


def locked(path: Path, flags: int) -> int | None:
    """Open a file or folder and hold it until the returned descriptor is closed; None where nothing can be held.

    Where another process holds it, BlockingIOError says so.
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
        return None  # a file system without locks
    return descriptor


ROOT = str(Path(__file__).parents[2])
# Python looks for modules neither where somebody stands nor where PYTHON… variables say.
ISOLATED = "-I"
SAFE_PATH = (
    "PYTHONSAFEPATH"  # a variable for its first half: what multiprocessing starts begins with `-c`
)
THREADS = "OMP_NUM_THREADS"  # torch reads it when it is imported
_ENTER = (
    "import os, runpy, sys; "
    "sys.path[:0] = [p for p in sys.argv.pop(1).split(os.pathsep) if p not in sys.path]; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)

# A new interpreter a process: one that is forked from threads, as torch and C++ libraries start them, may hang.
CONTEXT = multiprocessing.get_context("spawn")


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours as a program: nothing of the current folder is imported.

    `python -m` would take an app.py, or a numpy.py, of whatever folder somebody stands in.
    """
    here = None
    with suppress(FileNotFoundError):  # the folder has been deleted
        here = os.path.realpath(os.curdir)
    known = (path for path in sys.path if os.path.isabs(path) and os.path.realpath(path) != here)
    places = os.pathsep.join(dict.fromkeys([ROOT, *known]))
    # Whether bytecode is stored is as here: a variable that says so does not reach an isolated process.
    flags = [ISOLATED, "-B"] if sys.dont_write_bytecode else [ISOLATED]
    return [sys.executable, *flags, "-c", _ENTER, places, module, *arguments]


_STARTING = threading.Lock()


@contextmanager
def started_apart(threads: int | None = None) -> Iterator[None]:
    """Keep the current folder's modules from processes started within, and Ctrl-C, which a terminal sends to all.

    They compute in so many threads, unless the user has said how many, or None is said.
    """
    masked = hasattr(signal, "pthread_sigmask")
    # Of two threads, the later would find the variables of the earlier.
    with _STARTING, ExitStack() as after:
        variables = {SAFE_PATH: "1"}
        if threads is not None and THREADS not in os.environ:
            variables[THREADS] = str(threads)
        for name, value in variables.items():
            said, os.environ[name] = os.environ.get(name), value
            if said is None:
                after.callback(os.environ.pop, name, None)
            else:
                after.callback(os.environ.__setitem__, name, said)
        # Or the first start would run it, and unblock what is blocked here.
        resource_tracker.ensure_running()
        if masked:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            after.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        yield


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
THREAD_SECONDS = 1  # to end in, for one that may have met a full disk too


@contextmanager
def full_disk_named(folder: Path, advice: str) -> Iterator[None]:
    """Raise an OSError with a sentence where writing below a folder fails for want of space.

    A thread that is started within, as TensorBoard's is, may meet the same: that is said once.
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


def held(folder: Path, taken: str) -> int | None:
    """Hold a folder until the returned descriptor is closed, or this process ends however it may.

    Where another one holds it, ValueError says that it is `taken`.
    """
    try:
        return locked(folder, os.O_RDONLY)
    except BlockingIOError:
        raise ValueError(taken) from None
