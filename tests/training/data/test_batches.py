"""Batches are a pure function of seed and number, in any process."""

import hashlib
import multiprocessing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.training.makers import prepared_set
from tokenization.groove.language import Groove
from tokenization.prepared import Prepared
from training.config import DataConfig
from training.data.batches import IGNORED, Batches, Loader, StepData, windows_of

GOALS = {"accompaniments": 0.3, "drop_track": 0.2, "endings": 0.3, "gaps": 0.3}


def batches(folder: Path, seed: int = 1, process: int = 0, processes: int = 1, **changes):
    settings = {"folder": str(folder), "length": 32, "batch": 4, "transpose": 3, **changes}
    return Batches(DataConfig(**settings), seed, process=process, processes=processes)


@pytest.mark.parametrize(
    ("language", "changes", "digest"),
    [
        ("remi", {}, "edc79d60ab4297ab"),
        ("groove", {"drop_track": 0.3, "mix_drums": 0.3}, "8c374819a93e7e60"),
        ("ensemble", GOALS, "90f323c56d99695c"),
    ],
)
def test_batches_equal_those_of_earlier_versions(language, changes: dict, digest, tmp_path: Path):
    """Golden digests of the first batches: otherwise resumed runs would differ from uninterrupted ones."""
    folder = prepared_set(tmp_path / "set", language, train=3, held_out=1)
    data = batches(folder, length=120, transpose=6, **changes)
    tokens = np.concatenate([data[number] for number in range(20)])
    assert hashlib.sha256(tokens.astype("<i2").tobytes()).hexdigest()[:16] == digest


def windows_in(data: Batches, number: int, step: int = 0) -> list[StepData]:
    return [*windows_of(data[number], data.config.length, number, step)]


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


def test_steps_are_given_or_computed_from_epochs_and_windows(pianos: Path):
    data = batches(pianos)
    assert (data.steps(7, None), data.steps(None, 3.0), data.steps(None, 0.1)) == (7, 6, 1)
    data = batches(pianos, windows=4, transpose=0)
    windows = [len(windows_in(data, number)) for number in range(7)]
    assert max(windows) > 1
    for count in (1, 2, 7):
        assert data.steps(None, count * 4 / 8) == sum(windows[:count])
    assert data.steps(7, None) == 7


def test_validation_and_longest_notes_are_the_same_for_every_run(pianos: Path, grooves: Path):
    prepared = Prepared.open(pianos)
    held_out = batches(pianos).validation(5, 20)
    np.testing.assert_array_equal(held_out, batches(pianos, seed=9, batch=2).validation(5, 20))
    assert held_out.shape == (2, 21)  # only 2 of the 5 requested exist
    beginnings = [prepared.ids(int(row))[:21].tolist() for row in prepared.rows("validation")]
    assert sorted(held_out.tolist()) == sorted(beginnings)
    assert batches(pianos).longest_ticks is None
    prepared = Prepared.open(grooves)
    pieces = [prepared.ids(int(row)) for row in prepared.rows("train")]
    assert batches(grooves).longest_ticks == Groove().longest(pieces)


def test_set_without_validation_pieces_is_refused(tmp_path: Path):
    folder = prepared_set(tmp_path / "few", "remi", held_out=0)
    with pytest.raises(
        ValueError, match="has 8 files for training and 0 for validation, but needs both"
    ):
        batches(folder)


def test_windows_join_to_whole_sequences_in_every_process(pianos: Path):
    crops = batches(pianos, length=96)
    data = batches(pianos, windows=3)
    for number in range(4):
        whole, windows = crops[number], windows_in(data, number, step=10)
        assert [part.step for part in windows] == [10 + part.window for part in windows]
        assert [part.ends_batch for part in windows] == [False] * (len(windows) - 1) + [True]
        walked = np.concatenate([part.tokens[:, :-1] for part in windows], 1)
        np.testing.assert_array_equal(walked, whole[:, : walked.shape[1]])
        assert (whole[:, walked.shape[1] + 1 :] == IGNORED).all()
        for one, after in pairwise(windows):
            np.testing.assert_array_equal(one.tokens[:, -1], after.tokens[:, 0])
    batch = batches(pianos, windows=1000)[0]  # as many as its longest sequence fills
    longest = (batch != IGNORED).sum(1).max()
    assert batch.shape[1] == -(-(longest - 1) // 32) * 32 + 1 < 32_000
    for process in range(4):
        own = batches(pianos, process=process, processes=4, windows=1000)
        np.testing.assert_array_equal(own[0], batch[process::4])


def loaded(data: Batches, first: int, stop: int, number: int) -> list:
    with Loader(data, first, stop, number) as loader:
        windows = [*loader]
        assert 0 <= loader.waiting_fraction() <= 1
    return windows


def assert_same(windows: list, others: list):
    for one, other in zip(windows, others, strict=True):
        assert one[:4] == other[:4]
        np.testing.assert_array_equal(one.tokens, other.tokens)
        assert one.tokens.dtype == other.tokens.dtype


@pytest.mark.parametrize("windows", [1, 4])
def test_loader_yields_the_windows_of_consecutive_batches(pianos: Path, windows: int):
    data = batches(pianos, windows=windows)
    steps = loaded(data, 0, 12, 0)
    assert [step.step for step in steps] == [*range(12)]
    expected = [step for number in range(12) for step in windows_in(data, number)]
    for step, one in zip(steps, expected, strict=False):
        np.testing.assert_array_equal(step.tokens, one.tokens)
    last = next(step for step in steps if step.ends_batch)
    rest = loaded(data, last.step + 1, 12, last.batch + 1)
    assert_same(steps[last.step + 1 :], rest)


def test_error_in_the_loader_thread_is_raised(pianos: Path, monkeypatch: pytest.MonkeyPatch):
    whole = Batches.__getitem__

    def broken(self: Batches, number: int) -> np.ndarray:
        if number == 2:
            raise ValueError("the disk is gone")
        return whole(self, number)

    monkeypatch.setattr(Batches, "__getitem__", broken)
    with Loader(batches(pianos, prefetch=1), 0, 10**9, 0) as loader:
        given = iter(loader)
        assert [next(given)[0], next(given)[0]] == [0, 1]
        with pytest.raises(ValueError, match="the disk is gone"):
            next(given)
    assert not loader._thread.is_alive()


def test_worker_processes_give_the_same_batches_and_report_their_death(pianos: Path):
    alone, spread = (batches(pianos, windows=3, workers=workers) for workers in (0, 2))
    assert_same(loaded(alone, 7, 20, 3), loaded(spread, 7, 20, 3))
    with Loader(spread, 0, 10**9, 0) as loader:
        given = iter(loader)
        next(given)
        for worker in multiprocessing.active_children():
            worker.terminate()
        with pytest.raises(RuntimeError, match="exited unexpectedly"):
            list(given)
    assert not multiprocessing.active_children()
