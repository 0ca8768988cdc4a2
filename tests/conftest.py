"""Set up the process that runs the tests."""

import gc
import os
import random
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from itertools import groupby
from pathlib import Path

import hypothesis
import pytest

from tokenization.processes import processors

# A busy machine is slow; that is no failure.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# One thread per process: tests run in parallel, and waiting threads cost more than they gain.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Neither read nor write anything in the user's home.
if "XDG_CACHE_HOME" not in os.environ:
    _home = tempfile.TemporaryDirectory(prefix="musicgen-tests-")
    for name in ("XDG_CACHE_HOME", "HOME", "USERPROFILE"):
        os.environ[name] = _home.name  # inherited by the test processes

# Background jobs of a shell ignore Ctrl-C, and so would the programs that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Start one process more than there are processors, since tests of the page and of processes wait."""
    return processors() + 1


@contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Hold the lock of a file or folder, which other processes may share if it is LOCK_SH."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        flock(descriptor, how)
        yield
    finally:
        flock(descriptor, LOCK_UN)  # forked processes keep the descriptor open
        os.close(descriptor)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test that is marked `alone` while no other runs, in this process or in others."""
    here = Path(__file__)
    how = LOCK_EX if item.get_closest_marker("alone") else LOCK_SH
    with ExitStack() as stack:
        with locked(here, LOCK_EX):  # a door: while a test waits to be alone, none begins
            stack.enter_context(locked(here.parent, how))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests without garbage collection, and exclude them from later collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests in each, if TESTS_SHUFFLED is set, as `make test-matrix` does."""
    seed = os.environ.get("TESTS_SHUFFLED")
    if seed is None:
        return
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    order = random.Random(seed)
    order.shuffle(files)
    for tests in files:
        order.shuffle(tests)
    items[:] = [test for tests in files for test in tests]
