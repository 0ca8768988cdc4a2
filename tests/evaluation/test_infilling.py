"""A filled gap is compared with the true bars, and what comes after it counts in the loss."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation.infilling import f1, fill, gap_losses, leap, likeness
from musicgen.generation.likelihood import position_losses
from musicgen.generation.recall.recalling import Habits
from tests.evaluation.scores import piano_of
from tests.evaluation.toys import toy_playable
from tests.tokenization.groove.cases import trio_of
from tokenization.groove.spelling import BASS, DRUMS
from tokenization.language import given_until, language
from tokenization.score import Score

BAR = 4 * 12


@pytest.mark.parametrize("name", ["remi-2", "groove-2"])
def test_bars_outside_the_gap_stay_and_those_in_it_are_written(name: str):
    spoken = language(name)
    if name == "groove-2":
        rows = [(12 * n, 6, 36 + n % 3, 80, track) for n in range(24) for track in (BASS, DRUMS)]
        score = trio_of(rows)
    else:
        score = piano_of([(12 * n, 6, 60 + n % 5) for n in range(24)])
    ids, model = spoken.encode(spoken.arrange(score)).ids, toy_playable(spoken)
    new = fill(model, ids, 2, 4, seed=1).finish().whole()
    lines = spoken.bars(ids)
    assert len(lines) == len(spoken.bars(new)) == 6
    true, written = spoken.decode(ids), spoken.decode(new)
    assert f1(true, written, 0, 2) == f1(true, written, 4, 6) == 1
    found = f1(true, written, 2, 4)
    assert found is not None
    assert found < 1
    # Without what comes after, the loss is that of the piece as it is.
    (aware, alone), recalled = gap_losses(model, ids, 2, 4, 0)
    losses = position_losses(model.performer, np.asarray(ids, dtype=np.int64), 0)
    assert alone == pytest.approx(losses[lines[2] - 1 : lines[4] - 1].mean(), rel=1e-6)
    assert aware != alone
    assert recalled is None


@pytest.mark.parametrize("name", ["remi-2", "groove-2"])
def test_a_gap_is_filled_as_the_piece_has_it_far_after_it(name: str):
    """Nothing else says it: the model is untrained, and the bars are neither before the gap nor in the prompt."""
    spoken = language(name)
    bars = np.random.default_rng(0).integers(40, 60, (20, 8))
    bars[15:18] = bars[1:4]
    assert given_until(4, 4) <= 15
    notes = [(6 * n, 6, int(pitch)) for n, pitch in enumerate(bars.flat)]
    score = piano_of(notes) if name == "remi-2" else trio_of([(*n, 80, BASS) for n in notes])
    ids = spoken.encode(spoken.arrange(score)).ids
    plain = toy_playable(spoken)
    recalling = replace(plain, habits=Habits(weights=(30.0, 0.0, 0.0, 0.0)))
    found, strayed = (
        f1(spoken.decode(ids), spoken.decode(fill(m, ids, 2, 4, seed=1).finish().whole()), 2, 4)
        for m in (recalling, plain)
    )
    assert found is not None
    assert strayed is not None
    assert found > strayed + 0.2
    _, recalled = gap_losses(recalling, ids, 2, 4, 0)
    assert recalled is not None
    assert recalled.aware < recalled.alone - 1


def test_cells_agree_by_place_and_pitch():
    true = piano_of([(0, 6, 60), (12, 6, 62), (24, 6, 64), (36, 6, 65)])
    half = piano_of([(0, 6, 60), (12, 6, 62), (25, 6, 70), (36, 6, 71)])
    assert f1(true, half, 0, 1) == 0.5
    assert f1(piano_of([]), piano_of([]), 0, 1) is None


def test_the_leap_is_that_of_the_top_over_the_seam():
    score = piano_of([(36, 12, 60), (36, 12, 72), (48, 12, 50), (48, 12, 79)])
    assert leap(score, 1) == 7
    assert leap(score, 2) is None  # nothing begins after it


def test_a_gap_like_its_surroundings_is_likest():
    steady = [(12 * n, 6, 60) for n in range(16)]
    assert likeness(piano_of(steady), 1, 2, 4) == pytest.approx(1, abs=0.02)
    assert likeness(piano_of(steady[:4] + steady[8:]), 1, 2, 4) == 0  # silent, and not around
    assert likeness(piano_of(steady[4:8]), 1, 2, 4) is None
    off = [(12 * n + (6 if 4 <= n < 8 else 0), 6, 60) for n in range(16)]
    found = likeness(piano_of(off), 1, 2, 4)
    assert found is not None
    assert found < 0.6


def test_drums_are_told_by_their_beats_and_not_by_intervals():
    def groove(moved: int, kick: int) -> Score:
        rows = [(12 * n, 6, 40 + n % 3, 80, BASS) for n in range(16)]
        for n in range(16):
            in_gap = 4 <= n < 8
            onset = 12 * n + (moved if in_gap else 0)
            rows.append((onset, 2, kick if in_gap else 36, 80, DRUMS))
        return trio_of(rows)

    plain = likeness(groove(0, 36), 1, 2, 4)
    assert plain is not None
    assert plain > 0.9
    for other in (groove(6, 36), groove(0, 38)):
        assert likeness(other, 1, 2, 4) == pytest.approx(plain - 1 / 3)  # the bass is as it was
