"""Bars are written anew: they may be as if lost, and then the piece says them, or known, and then others come."""

from dataclasses import replace

import numpy as np
import pytest

import musicgen
from musicgen.completion import WholeIds, infilling
from musicgen.generation.recall.habits import Habits
from musicgen.generation.sampling import Sampling
from musicgen.options import Options
from musicgen.pieces import read_piece
from tests.tokenization.notation.scores import bars, note, score

SURE = Habits(weights=(30.0, 0.0, 0.0, 0.0))  # all that is recalled is trusted
PHRASE = ("CDEF", "GAGF", "EDCG")


@pytest.fixture(scope="module")
def model():
    return replace(musicgen.load("untrained:tiny:remi-2"), habits=SURE)


@pytest.fixture(scope="module")
def piece(model):
    """A phrase of three bars, said four times."""
    said = ["".join(note(step, 5, 2) for step in steps) for steps in PHRASE] * 4
    return read_piece(model.language, score(bars(*said)), name="song.musicxml")


def wanted(seed: int, variations: int = 1) -> Options:
    sampling = Sampling(temperature=1, recall=1.0)
    return Options(seed=seed, variations=variations, sampling=sampling)


def pitches(ids: np.ndarray, model, first: int, last: int) -> list[int]:
    notes = model.language.decode(ids).notes
    beat = model.language.decode(ids).ticks_per_beat
    bar = notes.onset_ticks // (4 * beat) + 1
    return notes.pitch[(bar >= first) & (bar <= last)].tolist()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bars_as_if_lost_are_recalled_and_bars_to_be_replaced_are_not(model, piece, seed: int):
    ids, language = piece.encoded.ids, model.language
    true = pitches(ids, model, 8, 9)
    goal = language.infilling(ids, 7, 9)
    lost = WholeIds(model, goal, wanted(seed)).finish().whole()
    assert pitches(lost, model, 8, 9) == true
    replaced = WholeIds(model, goal, wanted(seed), replacing=True).finish().whole()
    assert pitches(replaced, model, 8, 9) != true


def test_takes_of_bars_that_the_piece_says_again_are_new_and_differ(model, piece):
    takes = infilling(model, piece, (8, 9), wanted(5, variations=3)).finish().takes()
    new = [tuple(take.continuation.notes.pitch.tolist()) for take in takes]
    assert len({*new, tuple(pitches(piece.encoded.ids, model, 8, 9))}) == 4
