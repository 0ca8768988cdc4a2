"""Prepared sets and a run shared by all tests of training, which must not change them."""

from pathlib import Path

import pytest

from tests.training.makers import fitted, prepared_set, toy_config
from training.run_folder import write_config


@pytest.fixture(scope="session")
def pianos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("pianos") / "set", "remi")


@pytest.fixture(scope="session")
def grooves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a prepared set of trios, with two rows per file."""
    return prepared_set(tmp_path_factory.mktemp("grooves") / "set", "groove")


@pytest.fixture(scope="session")
def trained(pianos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a toy run of 20 steps on the piano pieces, with all its checkpoints."""
    run = fitted(toy_config(tmp_path_factory.mktemp("trained"), pianos, keep=9))
    write_config(run.config)
    return run.folder
