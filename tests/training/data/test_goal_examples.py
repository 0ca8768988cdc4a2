"""Training sequences that are examples of a goal: endings, gaps and accompaniments."""

import numpy as np
import pytest

from tests.tokenization.groove_2.cases import given_in
from tests.training.makers import prepared_set
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
from tokenization.groove_2 import goals
from tokenization.groove_2 import spelling as trio
from tokenization.groove_2.language import Groove2
from tokenization.prepared import Prepared
from tokenization.score import Notes
from training.config import DataConfig
from training.data.ensemble_examples import cut_ensemble
from training.data.examples import cut_groove
from training.data.shards import Shards

MANY = range(80)
GROOVE = Groove2()


def nothing(random: np.random.Generator) -> np.ndarray:
    raise AssertionError("another piece was asked for")


# Grooves


@pytest.fixture(scope="module")
def grooves(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared.open(prepared_set(tmp_path_factory.mktemp("groove-2") / "set", "groove-2"))


def trio_cuts(data: Prepared, **changes) -> list[np.ndarray]:
    config = DataConfig(**{"folder": "", "length": 120, "transpose": 0, **changes})
    given = (GROOVE, np.asarray(data.ids(0)), data.bars(0), config)
    return [cut_groove(*given, np.random.default_rng(seed), nothing) for seed in MANY]


def test_accompaniment_has_some_parts_given_before_each_block(grooves: Prepared):
    seen = set()
    for crop in trio_cuts(grooves, accompaniments=1.0, length=5000):
        who = tuple(sorted({int(t) for t in crop[trio.GIVEN.holds(crop)] - trio.GIVEN.start}))
        written = GROOVE.notes(trio.plain(crop))
        # Every part is either given, be it silent, or there to be written: nothing is left to guess.
        assert {*who, *np.unique(written.track).tolist()} == {0, 1, 2}
        runs = [token for token in given_in(crop) if token < trio.GOAL_START]
        given = GROOVE.notes(np.array([trio.BEGIN, *runs, trio.END]))
        assert len(given)
        notes = Notes.concatenate([given, written]).sorted()
        assert crop.tolist() == goals.accompaniment(notes, who).tolist()
        seen.add(who)
    assert len(seen) == 6  # every subset but none and all


def test_goals_come_in_their_shares(grooves: Prepared):
    crops = trio_cuts(grooves, endings=0.2, gaps=0.3, accompaniments=0.5, length=5000)
    firsts = np.array([crop[1] for crop in crops])
    assert np.mean(firsts == trio.AFTER) == pytest.approx(0.3, abs=0.15)
    assert np.mean(trio.GIVEN.holds(firsts)) == pytest.approx(0.5, abs=0.15)
    for shares in ({"endings": -0.1}, {"gaps": 1.5}, {"endings": 0.5, "accompaniments": 0.6}):
        with pytest.raises(ValueError, match="they are shares, of 1 together at most"):
            DataConfig(folder="", **shares)


# Bands


@pytest.fixture(scope="module")
def bands(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return Shards([str(prepared_set(tmp_path_factory.mktemp("bands") / "set", "ensemble"))])


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({}, None),
        ({"endings": 1.0}, LEFT_1),
        ({"gaps": 1.0}, SEAM_1),
        ({"accompaniments": 1.0}, None),
    ],
)
def test_sequence_of_a_band_is_valid_whatever_is_drawn(bands: Shards, shares, said: int | None):
    config = DataConfig(folder="", length=700, drop_track=0.2, **shares)
    random, drawn = np.random.default_rng(3), []
    for row in [*range(len(bands.length))] * 8:
        piece = (bands.ids(row), bands.bars(row))
        drawn.append(cut_ensemble(Ensemble(), *piece, config, random, "band").astype(np.int64))
    for ids in drawn:
        assert len(ids) <= 701
        assert Ensemble().validate(layouts.plain(ids)) is None
        assert said is None or (ids == said).any() == (END in ids)
    for block in (STYLE, TEMPO):
        assert 0.2 < np.mean([block.holds(ids).any() for ids in drawn]) < 0.9
    planned = [((ids >= PLAN_START) & (ids < PLAN_STOP)).any() for ids in drawn]
    assert 0.4 < np.mean(planned) < 0.9
    assert (np.concatenate(drawn) == AFTER).any() == ("gaps" in shares)
    orders = {tuple(Reading(layouts.plain(ids)).parts.tolist()) for ids in drawn}
    assert len(orders) > 4
    for ids in drawn:  # whatever is said of bars is said by a whole plan, in the same order
        written = layouts.plain(ids)
        every = layouts.planned(written, layouts.plan_of(Ensemble().sheet(written)))
        rest = iter(every.tolist())
        asked = [token for token in ids.tolist() if not STYLE.start <= token < PLAN_START]
        assert shares or all(token in rest for token in asked)
