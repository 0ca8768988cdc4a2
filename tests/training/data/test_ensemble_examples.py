"""Training sequences of the ensemble language, and sets that are drawn from by weights."""

from pathlib import Path

import numpy as np
import pytest

from tests.training.makers import prepared_set, toy_config
from tokenization.ensemble import layouts
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.spelling import Reading
from tokenization.ensemble.tokens import (
    AFTER,
    END,
    LEFT_1,
    PLAN_START,
    PLAN_STOP,
    SEAM_1,
    STYLE,
    TEMPO,
)  # fmt: skip
from training.config import DataConfig
from training.data.batches import Batches
from training.data.ensemble_examples import cut_ensemble
from training.data.shards import Shards
from training.run_folder import plain

LANGUAGE = Ensemble()


@pytest.fixture(scope="module")
def bands(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return two prepared sets of bands, one of four times as many files as the other."""
    folder = tmp_path_factory.mktemp("bands")
    return [
        prepared_set(folder / "large", "ensemble", train=8, held_out=2),
        prepared_set(folder / "small", "ensemble", train=2, held_out=1, first=20),
    ]


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({}, None),
        ({"endings": 1.0}, LEFT_1),
        ({"gaps": 1.0}, SEAM_1),
        ({"accompaniments": 1.0}, None),
    ],
)
def test_sequences_are_valid_whatever_is_drawn(bands: list[Path], shares: dict, said: int | None):
    shards = Shards([str(bands[0])])
    config = DataConfig(folder=str(bands[0]), length=700, drop_track=0.2, **shares)
    random = np.random.default_rng(3)
    drawn = []
    for row in [*range(len(shards.length))] * 8:
        ids = cut_ensemble(
            LANGUAGE, shards.ids(row), shards.bars(row), config, random, "band"
        ).astype(np.int64)
        assert len(ids) <= 701
        assert LANGUAGE.validate(layouts.plain(ids)) is None
        if said is not None:
            assert (ids == said).any() == (END in ids)
        drawn.append(ids)
    together = np.concatenate(drawn)
    for block in (STYLE, TEMPO):
        assert 0.2 < np.mean([block.holds(ids).any() for ids in drawn]) < 0.9
    planned = [((ids >= PLAN_START) & (ids < PLAN_STOP)).any() for ids in drawn]
    assert 0.4 < np.mean(planned) < 0.9
    assert (together == AFTER).any() == ("gaps" in shares)
    orders = {tuple(Reading(layouts.plain(ids)).parts.tolist()) for ids in drawn}
    assert len(orders) > 4


def test_the_plan_of_a_sequence_is_that_of_its_own_bars(bands: list[Path]):
    shards = Shards([str(bands[0])])
    config = DataConfig(folder=str(bands[0]), length=4000, drop_track=0.3)
    random = np.random.default_rng(5)
    for row in [*range(len(shards.length))] * 4:
        ids = cut_ensemble(LANGUAGE, shards.ids(row), shards.bars(row), config, random, None)
        ids = ids.astype(np.int64)
        plan = layouts.plan_of(LANGUAGE.sheet(layouts.plain(ids)))
        every = layouts.planned(layouts.plain(ids), plan)
        # Whatever is said is said by a whole plan, in the same order.
        rest = iter(every.tolist())
        asked = [token for token in ids.tolist() if not STYLE.start <= token < PLAN_START]
        assert all(token in rest for token in asked)


def test_sets_are_drawn_from_by_their_weights(bands: list[Path]):
    weights = {str(bands[0]): 1.0, str(bands[1]): 3.0}
    batches = Batches(DataConfig(folder=weights, length=64, batch=4), seed=1)
    again = Batches(DataConfig(folder=weights, length=64, batch=4), seed=1)
    np.testing.assert_array_equal(batches.batch(200), again.batch(200))
    random = np.random.default_rng(0)
    rows = np.array([batches._row(number, random) for number in range(1024)])
    sets = batches.shards.set_of(rows)
    assert (sets == 1).sum() == 768
    files = batches.shards.file[rows]
    of_large = files[sets == 0][:8]
    assert len(set(of_large.tolist())) == 8  # each of its files once in an epoch of its own
    with pytest.raises(ValueError, match="sets with weights have no common epoch"):
        batches.steps(None, 2.0)


def test_a_run_keeps_its_weights(bands: list[Path], tmp_path: Path):
    weights = {str(bands[0]): 1.0, str(bands[1]): 3.0}
    config = toy_config(tmp_path, bands[0], data={"folder": weights})
    assert plain(config)["data"]["folder"] == {
        str(one.resolve()): weights[str(one)] for one in bands
    }
    with pytest.raises(ValueError, match="each must be above 0"):
        DataConfig(folder={str(bands[0]): 0.0})
