"""Prepared sets that all tests of training share."""

from pathlib import Path

import pytest

from tests.training.makers import prepared_set


@pytest.fixture(scope="session")
def pianos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a prepared set of piano pieces."""
    return prepared_set(tmp_path_factory.mktemp("pianos") / "set", "remi")


@pytest.fixture(scope="session")
def grooves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a prepared set of trios, two rows a file."""
    return prepared_set(tmp_path_factory.mktemp("grooves") / "set", "groove")
