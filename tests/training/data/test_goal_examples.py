"""Training sequences that are examples of a goal: endings, gaps and accompaniments."""

import numpy as np
import pytest

from tests.training.makers import prepared_set
from tokenization.ensemble import layouts, tokens
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.spelling import Reading
from training.config import DataConfig
from training.data.ensemble_examples import cut_ensemble
from training.data.shards import Shards


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return Shards([str(prepared_set(tmp_path_factory.mktemp("bands") / "set", "ensemble"))])


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({}, None),
        ({"endings": 1.0}, tokens.LEFT_1),
        ({"gaps": 1.0}, tokens.SEAM_1),
        ({"accompaniments": 1.0}, None),
    ],
)
def test_sequence_of_a_band_is_valid_whatever_is_drawn(shards: Shards, shares, said: int | None):
    config = DataConfig(folder="", length=700, drop_track=0.2, **shares)
    random, drawn = np.random.default_rng(3), []
    for row in [*range(len(shards.length))] * 8:
        piece = (shards.ids(row), shards.bars(row))
        drawn.append(cut_ensemble(Ensemble(), *piece, config, random, "band").astype(np.int64))
    for ids in drawn:
        assert len(ids) <= 701
        assert Ensemble().validate(layouts.plain(ids)) is None
        assert said is None or (ids == said).any() == (tokens.END in ids)
    for block in (tokens.STYLE, tokens.TEMPO):
        assert 0.2 < np.mean([block.holds(ids).any() for ids in drawn]) < 0.9
    planned = [((ids >= tokens.PLAN_START) & (ids < tokens.PLAN_STOP)).any() for ids in drawn]
    assert 0.4 < np.mean(planned) < 0.9
    assert (np.concatenate(drawn) == tokens.AFTER).any() == ("gaps" in shares)
    orders = {tuple(Reading(layouts.plain(ids)).parts.tolist()) for ids in drawn}
    assert len(orders) > 4
    for ids in drawn:  # whatever is said of bars is said by a whole plan, in the same order
        written = layouts.plain(ids)
        every = layouts.planned(written, layouts.plan_of(Ensemble().sheet(written)))
        rest = iter(every.tolist())
        asked = [x for x in ids.tolist() if not tokens.STYLE.start <= x < tokens.PLAN_START]
        assert shares or all(token in rest for token in asked)
