"""Sequences of piano to learn from: crops that say their metre, and examples of each goal."""

from pathlib import Path

import numpy as np
import pytest

from tests.tokenization.remi.cases import EVERY_METRE, score_of
from tests.training.makers import prepared_set
from tokenization.language import COUNTED
from tokenization.remi.goals import plain
from training.config import DataConfig
from training.data.batches import Batches
from training.data.examples import cut_remi

MANY = range(60)
NAMES = EVERY_METRE.vocabulary.names
# A waltz of 24 bars, of which each sounds another note, and a march after it.
NOTES = [(12 * bar, 3, 40 + bar, 64) for bar in range(24)]
NOTES += [(288 + 8 * bar, 3, 70 + bar, 64) for bar in range(12)]
WALTZ = EVERY_METRE.encode(score_of(NOTES, meters=[(0, 3, 4), (288, 2, 4)])).ids
BARS = EVERY_METRE.bars(WALTZ)


def nothing(random: np.random.Generator) -> np.ndarray:
    raise AssertionError("another piece was asked for")


def cuts(**changes) -> list[np.ndarray]:
    config = DataConfig(**{"folder": "", "length": 40, "transpose": 0, **changes})
    return [
        cut_remi(EVERY_METRE, WALTZ, BARS, config, np.random.default_rng(s), nothing) for s in MANY
    ]


def pitches(ids: np.ndarray) -> list[int]:
    return [int(NAMES[token].split("_")[1]) for token in ids if NAMES[token].startswith("pitch")]


def test_a_crop_says_its_metre_where_it_begins():
    firsts = set()
    for crop in cuts():
        words = [NAMES[token] for token in crop if NAMES[token] != "begin"]
        first = pitches(crop)[0]
        assert words[:2] == ["bar", "metre_2/4" if first >= 70 else "metre_3/4"]
        assert len(crop) == 41
        firsts.add(first)
    assert len(firsts) > 10


def test_an_ending_counts_down_to_the_end_of_the_piece():
    lengths = set()
    for crop in cuts(endings=1.0, length=120):
        assert NAMES[crop[-1]] == "end"
        counts = [int(NAMES[token][5:]) for token in crop if NAMES[token].startswith("left_")]
        assert counts == list(range(len(counts), 0, -1))
        assert pitches(crop)[-3:] == [79, 80, 81]
        after = [
            NAMES[crop[i - 1]] for i, token in enumerate(crop) if NAMES[token].startswith("left_")
        ]
        assert set(after) == {"bar"}
        lengths.add(len(counts))
    assert lengths == set(range(1, COUNTED + 1))


def test_a_gap_has_what_comes_after_it_first():
    starts = set()
    for crop in cuts(gaps=1.0, length=150):
        words = [NAMES[token] for token in crop]
        assert words[:2] == ["begin", "after"]
        assert words[-1] == "end"
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


def test_where_no_gap_fits_a_crop_is_cut():
    for crop in cuts(gaps=1.0, length=20):
        assert not any(NAMES[token].startswith("seam") for token in crop)


def test_without_shares_nothing_but_music_is_drawn(tmp_path: Path):
    folder = prepared_set(tmp_path / "set", "remi-2")
    config = DataConfig(folder=str(folder), length=60, batch=4)
    batch = Batches(config, 1).batch(0)
    assert batch.shape == (4, 61)
    assert batch.max() < EVERY_METRE.vocabulary["left"].start
    asked = DataConfig(folder=str(folder), length=400, batch=4, endings=0.5, gaps=0.5)
    drawn = Batches(asked, 1).batch(0)
    assert (drawn[:, :].max(axis=1) >= EVERY_METRE.vocabulary["left"].start).all()


@pytest.mark.parametrize("name", ["remi", "remi-2"])
def test_both_versions_can_be_trained_on(tmp_path: Path, name: str):
    folder = prepared_set(tmp_path / "set", name)
    batches = Batches(DataConfig(folder=str(folder), length=30, batch=2), 1)
    assert batches.language["tokens"] == {"remi": 362, "remi-2": 432}[name]
    assert batches.longest_ticks is None
