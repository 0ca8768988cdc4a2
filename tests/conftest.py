"""What all tests need of the process they run in."""

import gc
import os
import random
import signal
import tempfile
from collections.abc import Generator
from itertools import groupby

import hypothesis
import pytest

# A busy machine is slow, not wrong.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# One thread each: tests run side by side, and threads that wait for each other cost more than they bring.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# What is measured once a machine and stored is neither read from nor left in the home of who runs the tests.
if "XDG_CACHE_HOME" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="musicgen-tests-")
    os.environ["XDG_CACHE_HOME"] = _cache.name  # the processes that run the tests inherit it

# A shell's background job ignores Ctrl-C, and so would every program that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests without a look for garbage, which there is none of, and never look through them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Take the files, and the tests of each, in another order, if one is asked for: `make test-matrix` does."""
    seed = os.environ.get("TESTS_SHUFFLED")
    if seed is None:
        return
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    order = random.Random(seed)
    order.shuffle(files)
    for tests in files:
        order.shuffle(tests)
    items[:] = [test for tests in files for test in tests]
