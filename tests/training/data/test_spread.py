"""Batches that processes cut are those that a thread cuts, in order."""

from pathlib import Path

import numpy as np
import pytest

from tests.training.makers import Heard, outcome, toy_config, toy_run
from training.data.batches import Batches, Loader
from training.data.spread import Spread


@pytest.mark.parametrize("windows", [1, 3])
def test_processes_cut_what_a_thread_cuts(pianos: Path, tmp_path: Path, windows: int):
    config = toy_config(tmp_path, pianos, data={"windows": windows})
    batches = Batches(config.data, config.seed)
    spread = Spread(batches, 3, workers=2)
    found = []
    for source in (batches, spread):
        with Loader(source, 3, 10, 2) as loader:
            found.append([*loader])
    assert not any(worker.is_alive() for worker in spread._workers)
    assert len(found[0]) == 7
    for one, other in zip(*found, strict=True):
        assert one[:-1] == other[:-1]
        assert np.array_equal(one.tokens, other.tokens)
        assert one.tokens.dtype == other.tokens.dtype


def test_a_run_learns_the_same_from_processes(pianos: Path, tmp_path: Path):
    runs = []
    for workers in (0, 2):
        changes = {"data": {"workers": workers}, "optimiser": {"steps": 4}}
        runs.append(toy_run(toy_config(tmp_path / str(workers), pianos, **changes)))
        runs[-1].fit(Heard())
    assert outcome(runs[0].folder) == outcome(runs[1].folder)


def test_a_process_that_fails_says_why(pianos: Path, tmp_path: Path):
    batches = Batches(toy_config(tmp_path, pianos).data, 1)
    spread = Spread(batches, 0, workers=1)
    try:
        spread._workers[0].terminate()
        spread._workers[0].join()
        with pytest.raises(RuntimeError, match=r"ended with code -15; data.workers=0"):
            [[*spread.parts(number, number)] for number in range(9)]
    finally:
        spread.close()
