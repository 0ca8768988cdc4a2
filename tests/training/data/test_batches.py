"""Batches are a pure function of seed and number, in any process."""

import hashlib
import multiprocessing
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tests.training.makers import prepared_set
from tokenization.prepared import Prepared
from training.config import DataConfig
from training.data.batches import Batches, load

GOALS = {"accompaniments": 0.3, "drop_track": 0.2, "endings": 0.3, "gaps": 0.3}


def batches(folder: Path, seed: int = 1, process: int = 0, processes: int = 1, **changes):
    settings = {"folder": str(folder), "length": 32, "batch": 4, "transpose": 3, **changes}
    return Batches(DataConfig(**settings), seed, process=process, processes=processes)


@pytest.mark.parametrize(
    ("language", "changes", "digest"),
    [
        ("remi", {}, "22d7a990cd4cd224"),
        ("groove", {"drop_track": 0.3, "mix_drums": 0.3}, "8c374819a93e7e60"),
        ("ensemble", GOALS, "8d2138ba4754d95e"),
    ],
)
def test_batches_equal_those_of_earlier_versions(language, changes: dict, digest, tmp_path: Path):
    """Golden digests of the first batches: otherwise resumed runs would differ from uninterrupted ones."""
    folder = prepared_set(tmp_path / "set", language, train=3, held_out=1)
    data = batches(folder, length=120, transpose=6, **changes)
    tokens = np.concatenate([data[number] for number in range(20)])
    assert hashlib.sha256(tokens.astype("<i2").tobytes()).hexdigest()[:16] == digest


def test_batch_is_a_function_of_seed_and_number_divided_among_processes(grooves: Path):
    changes = {"mix_drums": 0.5, "length": 200}
    forward = [batches(grooves, **changes)[step] for step in range(6)]
    one = batches(grooves, **changes)
    backward = [one[step] for step in reversed(range(6))][::-1]
    np.testing.assert_array_equal(forward, backward)
    assert not np.array_equal(forward[0], forward[2])
    assert not np.array_equal(forward[0], batches(grooves, seed=2, **changes)[0])
    assert forward[0].shape == (4, 201)
    assert forward[0].dtype == np.int64
    for process in range(2):
        own = batches(grooves, process=process, processes=2, **changes)
        for step, whole in enumerate(forward):
            np.testing.assert_array_equal(own[step], whole[process::2])
    with pytest.raises(ValueError, match="batch is 4, which is not a multiple of the 3 processes"):
        batches(grooves, processes=3)


def test_steps_are_given_or_computed_from_epochs(pianos: Path):
    data = batches(pianos)
    assert (data.steps(7, None), data.steps(None, 3.0), data.steps(None, 0.1)) == (7, 6, 1)


def test_validation_is_the_same_for_every_run(pianos: Path):
    prepared = Prepared.open(pianos)
    held_out = batches(pianos).validation(5, 20)
    np.testing.assert_array_equal(held_out, batches(pianos, seed=9, batch=2).validation(5, 20))
    assert held_out.shape == (2, 21)  # only 2 of the 5 requested exist
    beginnings = [prepared.ids(int(row))[:21].tolist() for row in prepared.rows("validation")]
    assert sorted(held_out.tolist()) == sorted(beginnings)


def test_set_without_validation_pieces_is_refused(tmp_path: Path):
    folder = prepared_set(tmp_path / "few", "remi", held_out=0)
    with pytest.raises(
        ValueError, match="8 files for training and 0 for validation, but needs both"
    ):
        batches(folder)


def first(data: Batches, count: int, start: int) -> list[np.ndarray]:
    numbers, found = zip(*islice(load(data, start), count), strict=True)
    assert numbers == (*range(start, start + count),)
    return [*found]


def test_loader_yields_consecutive_batches_from_a_number_on(pianos: Path):
    data = batches(pianos)
    np.testing.assert_array_equal(first(data, 5, 3), [data[number] for number in range(3, 8)])


def test_worker_processes_give_the_same_batches_and_report_their_death(pianos: Path):
    alone, spread = (batches(pianos, workers=workers) for workers in (0, 2))
    given = load(spread, 3)
    numbers, found = zip(*islice(given, 8), strict=True)
    assert numbers == (*range(3, 11),)
    np.testing.assert_array_equal(first(alone, 8, 3), found)
    for worker in multiprocessing.active_children():
        worker.terminate()
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(given)
    assert not multiprocessing.active_children()
