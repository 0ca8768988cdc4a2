"""Set up the process that runs the tests."""

import gc
import os
import random
import signal
import tempfile
from collections.abc import Generator
from itertools import groupby

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
