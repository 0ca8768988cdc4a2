"""Training sequences that are examples of a goal: endings, gaps and accompaniments."""

import numpy as np
import pytest

from tests.tokenization.groove_2.cases import given_in
from tests.tokenization.remi.cases import EVERY_METRE, score_of
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
from tokenization.language import COUNTED
from tokenization.prepared import Prepared
from tokenization.remi.goals import plain
from tokenization.score import Notes
from training.config import DataConfig
from training.data.ensemble_examples import cut_ensemble
from training.data.examples import cut_groove, cut_remi
from training.data.shards import Shards

MANY = range(80)
GROOVE = Groove2()
NAMES = EVERY_METRE.vocabulary.names
# A waltz of 24 bars, of which each sounds another note, and a march after it.
NOTES = [(12 * bar, 3, 40 + bar, 64) for bar in range(24)]
NOTES += [(288 + 8 * bar, 3, 70 + bar, 64) for bar in range(12)]
WALTZ = EVERY_METRE.encode(score_of(NOTES, meters=[(0, 3, 4), (288, 2, 4)])).ids


def nothing(random: np.random.Generator) -> np.ndarray:
    raise AssertionError("another piece was asked for")


# Piano


def piano_cuts(**changes) -> list[np.ndarray]:
    config = DataConfig(**{"folder": "", "length": 40, "transpose": 0, **changes})
    bars = EVERY_METRE.bars(WALTZ)
    draws = (np.random.default_rng(seed) for seed in MANY)
    return [cut_remi(EVERY_METRE, WALTZ, bars, config, random, nothing) for random in draws]


def pitches(ids: np.ndarray) -> list[int]:
    return [int(NAMES[token].split("_")[1]) for token in ids if NAMES[token].startswith("pitch")]


def test_crop_of_a_piano_says_its_metre_where_it_begins():
    firsts = set()
    for crop in piano_cuts():
        words = [NAMES[token] for token in crop if NAMES[token] != "begin"]
        first = pitches(crop)[0]
        assert words[:2] == ["bar", "metre_2/4" if first >= 70 else "metre_3/4"]
        assert len(crop) == 41
        firsts.add(first)
    assert len(firsts) > 10


def test_ending_of_a_piano_counts_the_bars_down_to_the_end():
    lengths = set()
    for crop in piano_cuts(endings=1.0, length=120):
        words = [NAMES[token] for token in crop]
        assert words[-1] == "end"
        counted = [at for at, word in enumerate(words) if word.startswith("left_")]
        counts = [int(words[at][5:]) for at in counted]
        assert counts == list(range(len(counts), 0, -1))
        assert {words[at - 1] for at in counted} == {"bar"}
        assert pitches(crop)[-3:] == [79, 80, 81]
        lengths.add(len(counts))
    assert lengths == set(range(1, COUNTED + 1))


def test_gap_of_a_piano_has_what_comes_after_it_first():
    starts = set()
    for crop in piano_cuts(gaps=1.0, length=150):
        words = [NAMES[token] for token in crop]
        assert (words[:2], words[-1]) == (["begin", "after"], "end")
        seams = [int(word[5:]) for word in words if word.startswith("seam_")]
        assert seams == list(range(len(seams), 0, -1))
        assert 1 <= len(seams) <= 8
        closed = words.index("before")
        later, written = pitches(crop[:closed]), pitches(plain(crop))
        assert written == list(range(written[0], written[0] + len(written))) or 70 in written
        if later:
            assert later[0] in (written[-1] + 1, 70)
        # What comes first stands at the same place of every four bars as what it comes after.
        given = words[:closed].count("bar")
        assert (given + words[closed:].count("bar")) % 4 == 0
        starts.add(written[0])
    assert len(starts) > 5
    for crop in piano_cuts(gaps=1.0, length=20):  # where no gap fits
        assert not any(NAMES[token].startswith("seam") for token in crop)


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
