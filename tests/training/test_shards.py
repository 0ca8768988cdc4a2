from pathlib import Path

import numpy as np
import pytest

from tests.training.makers import Heard, prepared_set, toy_config, toy_run
from training.prepared import Prepared
from training.shards import Shards


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("parts")
    sizes = ((3, 1), (2, 3))
    return [
        str(prepared_set(folder / str(i), "groove", train=train, held_out=held_out))
        for i, (train, held_out) in enumerate(sizes)
    ]


def test_one_set_is_itself(parts: list[str]):
    shards, prepared = Shards(parts[:1]), Prepared.open(parts[0])
    assert shards.checksum == prepared.meta["checksum"]
    assert shards.counts == prepared.meta["counts"]
    np.testing.assert_array_equal(shards.rows("train"), prepared.rows("train"))
    np.testing.assert_array_equal(shards.file, prepared.pieces.file)


def test_rows_of_several_sets_stand_end_to_end(parts: list[str]):
    shards, sets = Shards(parts), [Prepared.open(part) for part in parts]
    assert len(shards.length) == sum(len(one) for one in sets)
    numbered = [(one, row) for one in sets for row in range(len(one))]
    for row, (one, own) in enumerate(numbered):
        np.testing.assert_array_equal(shards.ids(row), one.ids(own))
        np.testing.assert_array_equal(shards.bars(row), one.bars(own))
        assert shards.length[row] == len(shards.ids(row))
    for split in ("train", "validation"):
        expected = [row for row, (one, own) in enumerate(numbered) if own in one.rows(split)]
        assert shards.rows(split).tolist() == expected
    assert sorted(set(shards.file)) == list(range(9))
    assert shards.counts["train"]["files"] == 5
    assert (shards.said("title"), shards.said("licence")) == ("test pieces", "MIT")
    assert shards.checksum != Shards(parts[::-1]).checksum


def test_a_run_trains_on_several_sets_as_one(parts: list[str], tmp_path: Path):
    run = toy_run(toy_config(tmp_path, Path("unused"), data={"folder": parts}))
    assert run.batches.steps(None, 4.0) == 5
    run.fit(Heard())
    assert run.state.data == Shards(parts).checksum


def test_sets_of_two_languages_are_refused(parts: list[str], pianos: Path):
    with pytest.raises(
        ValueError, match=r"is in another language than .*: remi in its version, not"
    ):
        Shards([*parts, str(pianos)])
    with pytest.raises(ValueError, match="no data set is named"):
        Shards([])
