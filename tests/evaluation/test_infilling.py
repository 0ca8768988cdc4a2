"""Infilling: the measures of a filled gap, and the effect of the bars after it on the loss."""

import numpy as np
import pytest

from evaluation.study.extrapolation import position_losses
from evaluation.study.form_and_infilling import f1, gap_losses, likeness
from evaluation.study.piece_jobs import TokenCompletion
from musicgen.generation.request import Request
from musicgen.generation.sampling import MUSICAL
from musicgen.playable import Playable
from tests.evaluation.scores import BASS, DRUMS, piano_of, trio
from tests.evaluation.toys import sure_playable, toy_playable
from tokenization.language import language, suffix_stop
from tokenization.score import Score


def filled(model: Playable, ids: np.ndarray) -> Score:
    goal = model.language.infilling(ids, 2, 4)
    work = TokenCompletion(model, goal, Request(seed=1, sampling=MUSICAL))
    return model.language.decode(work.finish().whole())


def test_recall_fills_a_gap_with_material_from_far_after_it():
    """Recall is the only source: the models are untrained, and the bars occur only after the gap."""
    ensemble = language("ensemble")
    bars = np.random.default_rng(0).integers(40, 60, (20, 8))
    bars[15:18] = bars[1:4]  # repeats bars 3 and 4
    assert suffix_stop(4) <= 15
    notes = [(6 * n, 6, int(pitch)) for n, pitch in enumerate(bars.flat)]
    model, ids = toy_playable(ensemble), ensemble.encode(ensemble.arrange(piano_of(notes))).ids
    recalling = sure_playable(model.language)
    true, written, recalled = model.language.decode(ids), filled(model, ids), filled(recalling, ids)
    for score in (written, recalled):
        assert f1(true, score, 0, 2) == f1(true, score, 4, 20) == 1
    strayed, found = (f1(true, score, 2, 4) for score in (written, recalled))
    assert found > strayed + 0.2
    # Without the bars after the gap, the loss is that of the original piece.
    aware, alone = gap_losses(model, ids, 2, 4, 0)
    losses = position_losses(model.performer, ids.astype(np.int64), 0)
    lines = model.language.bars(ids)
    assert alone == pytest.approx(losses[lines[2] - 1 : lines[4] - 1].mean(), rel=1e-6)
    assert aware != alone


def test_f1_compares_onsets_and_pitches():
    true = piano_of([(0, 6, 60), (12, 6, 62), (24, 6, 64), (36, 6, 65)])
    half = piano_of([(0, 6, 60), (12, 6, 62), (25, 6, 70), (36, 6, 71)])
    assert f1(true, half, 0, 1) == 0.5
    assert f1(piano_of([]), piano_of([]), 0, 1) is None


def test_likeness_is_highest_for_a_gap_like_its_surroundings():
    steady = [(12 * n, 6, 60) for n in range(16)]
    assert likeness(piano_of(steady), 1, 2, 4) == pytest.approx(1, abs=0.02)
    assert likeness(piano_of(steady[:4] + steady[8:]), 1, 2, 4) == 0  # only the gap is silent
    assert likeness(piano_of(steady[4:8]), 1, 2, 4) is None
    off = [(12 * n + (6 if 4 <= n < 8 else 0), 6, 60) for n in range(16)]
    found = likeness(piano_of(off), 1, 2, 4)
    assert found < 0.6


def test_likeness_of_drums_depends_on_beats_and_drums_only():
    def groove(moved: int, kick: int) -> Score:
        rows = [(12 * n, 6, 40 + n % 3, BASS) for n in range(16)]
        rows += [(12 * n, 2, 36, DRUMS) for n in range(16) if not 4 <= n < 8]
        return trio([*rows, *((12 * n + moved, 2, kick, DRUMS) for n in range(4, 8))])

    plain = likeness(groove(0, 36), 1, 2, 4)
    assert plain > 0.9
    for other in (groove(6, 36), groove(0, 38)):
        assert likeness(other, 1, 2, 4) == pytest.approx(plain - 1 / 3)  # the bass is unchanged
