import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.training.makers import prepared_set
from tokenization.groove.language import Groove
from tokenization.prepared import META_FILE, Prepared
from training.config import DataConfig
from training.data.batches import IGNORED, Batches, Loader


def batches(
    folder: Path, seed: int = 1, process: int = 0, processes: int = 1, **changes
) -> Batches:
    config = DataConfig(
        **{"folder": str(folder), "length": 32, "batch": 4, "transpose": 3, **changes}
    )
    return Batches(config, seed, process=process, processes=processes)


def test_a_batch_is_a_function_of_seed_and_step(pianos: Path):
    forward = [batches(pianos).batch(step) for step in range(6)]
    one = batches(pianos)
    backward = [one.batch(step) for step in reversed(range(6))][::-1]
    np.testing.assert_array_equal(forward, backward)
    assert not np.array_equal(forward[0], forward[2])
    assert not np.array_equal(forward[0], batches(pianos, seed=2).batch(0))
    assert forward[0].shape == (4, 33)
    assert forward[0].dtype == np.int64


def test_drums_of_other_pieces_come_alike_in_every_order(grooves: Path):
    changes = {"mix_drums": 0.5, "length": 200}
    forward = [batches(grooves, **changes).batch(step) for step in range(6)]
    one = batches(grooves, **changes)
    backward = [one.batch(step) for step in reversed(range(6))][::-1]
    np.testing.assert_array_equal(forward, backward)
    plain = [batches(grooves, length=200).batch(step) for step in range(6)]
    assert not np.array_equal(forward, plain)


def test_the_longest_notes_are_those_to_train_on(pianos: Path, grooves: Path):
    assert batches(pianos).longest_ticks is None
    prepared = Prepared.open(grooves)
    pieces = [prepared.ids(int(row)) for row in prepared.rows("train")]
    assert batches(grooves).longest_ticks == Groove().longest(pieces)


def test_a_set_in_another_version_of_its_language_is_refused(tmp_path: Path):
    folder = prepared_set(tmp_path / "set", "remi-2")
    meta = json.loads((folder / META_FILE).read_text())
    meta["language"]["volume_levels"] = 12
    (folder / META_FILE).write_text(json.dumps(meta))
    with pytest.raises(ValueError, match="this remi-2 differs from the one at hand in volume_lev"):
        batches(folder)


def test_processes_share_a_batch(grooves: Path):
    for step in range(5):
        whole = batches(grooves).batch(step)
        parts = [batches(grooves, process=p, processes=2).batch(step) for p in range(2)]
        np.testing.assert_array_equal(whole[0::2], parts[0])
        np.testing.assert_array_equal(whole[1::2], parts[1])


def test_a_batch_that_does_not_divide_is_refused(pianos: Path):
    with pytest.raises(ValueError, match="batch is 4, which does not divide among 3 processes"):
        batches(pianos, processes=3)


def test_every_file_comes_once_an_epoch_with_one_of_its_rows(grooves: Path):
    prepared = Prepared.open(grooves)
    data = batches(grooves, length=5000, transpose=0, skip_bars=False, batch=1)
    rows = {prepared.ids(int(row)).tobytes(): int(row) for row in prepared.rows("train")}
    epochs = [
        [rows[ids[ids != IGNORED].astype(np.uint16).tobytes()] for ids in part]
        for part in np.array_split(np.concatenate([data.batch(s) for s in range(80)]), 10)
    ]
    for epoch in epochs:
        assert sorted(prepared.pieces.file[epoch]) == list(range(8))
    assert len({tuple(prepared.pieces.file[epoch]) for epoch in epochs}) > 5  # the orders differ
    assert {row for epoch in epochs for row in epoch} == set(rows.values())


def test_behind_the_end_of_a_piece_nothing_is_asked(pianos: Path):
    [row] = batches(pianos, length=5000, batch=1).batch(0)
    assert (row[-10:] == IGNORED).all()
    assert (np.diff((row == IGNORED).astype(int)) >= 0).all()


def test_steps_are_given_or_follow_from_epochs(pianos: Path):
    data = batches(pianos)
    assert (data.steps(7, None), data.steps(None, 3.0), data.steps(None, 0.1)) == (7, 6, 1)


def test_an_epoch_of_several_windows_takes_a_step_for_each(pianos: Path):
    data = batches(pianos, length=32, windows=4, transpose=0)
    windows = [sum(1 for _ in data.parts(number, 0)) for number in range(7)]
    assert max(windows) > 1
    for count in (1, 2, 7):
        assert data.steps(None, count * 4 / 8) == sum(windows[:count])
    assert data.steps(7, None) == 7


def test_validation_is_the_same_for_every_run(pianos: Path):
    prepared = Prepared.open(pianos)
    held_out = batches(pianos).validation(5, 20)
    np.testing.assert_array_equal(held_out, batches(pianos, seed=9, batch=2).validation(5, 20))
    assert held_out.shape == (2, 21)  # of 5 asked for, there are 2
    beginnings = [prepared.ids(int(row))[:21].tolist() for row in prepared.rows("validation")]
    assert sorted(held_out.tolist()) == sorted(beginnings)


def test_a_set_of_another_kind_is_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="there is no prepared data set"):
        batches(tmp_path / "none")
    with pytest.raises(ValueError, match="is not a prepared data set"):
        batches(tmp_path)


def test_a_set_without_pieces_to_validate_with_is_refused(tmp_path: Path):
    from tests.training.makers import prepared_set

    folder = prepared_set(tmp_path / "set", "remi", held_out=0)
    with pytest.raises(ValueError, match="has 8 files to train on and 0 to validate with"):
        batches(folder)


def test_a_loader_gives_what_the_batches_are(pianos: Path):
    data = batches(pianos)
    with Loader(data, 3, 9, ahead=2) as loader:
        steps = {part.step: part.tokens for part in loader}
        assert 0 <= loader.share() <= 1
    assert list(steps) == [3, 4, 5, 6, 7, 8]
    for step, batch in steps.items():
        np.testing.assert_array_equal(batch, batches(pianos).batch(step))


def test_the_windows_of_a_batch_are_its_sequences(pianos: Path):
    crops = batches(pianos, length=96, windows=1)
    data = batches(pianos, length=32, windows=3)
    for number in range(4):
        whole, parts = crops.batch(number), [*data.parts(number, step=10)]
        assert [part.step for part in parts] == [10 + part.window for part in parts]
        assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
        walked = np.concatenate([part.tokens[:, :-1] for part in parts], 1)
        np.testing.assert_array_equal(walked, whole[:, : walked.shape[1]])
        assert (whole[:, walked.shape[1] + 1 :] == IGNORED).all()
        for one, after in pairwise(parts):
            np.testing.assert_array_equal(one.tokens[:, -1], after.tokens[:, 0])


def test_a_batch_has_the_windows_that_its_longest_sequence_fills_in_any_process(pianos: Path):
    changes = {"length": 32, "windows": 1000}
    numbers = range(3)
    whole = [batches(pianos, **changes).batch(number) for number in numbers]
    for batch in whole:
        longest = (batch != IGNORED).sum(1).max()
        assert batch.shape[1] == -(-(longest - 1) // 32) * 32 + 1 < 32_000
    for process in range(4):
        own = batches(pianos, process=process, processes=4, **changes)
        for number in numbers:
            np.testing.assert_array_equal(own.batch(number), whole[number][process::4])


def test_a_loader_goes_from_batch_to_batch_by_windows(pianos: Path):
    data = batches(pianos, length=32, windows=4)
    with Loader(data, 0, 12, ahead=2) as loader:
        parts = [*loader]
    assert [part.step for part in parts] == [*range(12)]
    last = next(part for part in parts if part.is_last)
    with Loader(data, last.step + 1, 12, ahead=2, number=last.number + 1) as loader:
        rest = [*loader]
    for one, again in zip(parts[last.step + 1 :], rest, strict=True):
        assert one[:-1] == again[:-1]
        np.testing.assert_array_equal(one.tokens, again.tokens)


def test_an_error_in_a_loader_reaches_who_asks(pianos: Path, monkeypatch: pytest.MonkeyPatch):
    data = batches(pianos)
    whole = data.batch

    def broken(step: int) -> np.ndarray:
        if step == 2:
            raise ValueError("the disk is gone")
        return whole(step)

    monkeypatch.setattr(data, "batch", broken)
    with Loader(data, 0, 9, ahead=1) as loader:
        given = iter(loader)
        assert [next(given)[0], next(given)[0]] == [0, 1]
        with pytest.raises(ValueError, match="the disk is gone"):
            next(given)


def test_a_loader_ends_with_its_user(pianos: Path):
    with Loader(batches(pianos), 0, 10**9, ahead=1) as loader:
        next(iter(loader))
    assert not loader._thread.is_alive()
