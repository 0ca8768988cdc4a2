"""Bars are written anew: they may be as if lost, and then the piece says them, or known, and then others come."""

from dataclasses import replace

import numpy as np
import pytest

import musicgen
from musicgen.completion import WholeIds, infilling
from musicgen.continuation import Continuation
from musicgen.generation.recall.phrases import Phrasing
from musicgen.generation.recall.recalling import Habits
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


@pytest.mark.parametrize(("start", "stop"), [(2, 5), (6, 12), (0, 12)])
def test_no_phrase_is_decided_on_in_a_gap_however_little_is_around_it(
    model, piece, start: int, stop: int
):
    always = replace(SURE, phrasing=Phrasing(begin=1, stay=1, back=(0, 0, 1)))
    player = replace(model, habits=always)
    goal = player.language.infilling(piece.encoded.ids, start, stop)
    recall = WholeIds(player, goal, wanted(1)).order().request.recall
    assert recall is not None
    assert recall.phrasing is None
    going_on = Continuation(player, piece.prompt(8), wanted(1)).order().request.recall
    assert going_on is not None
    assert going_on.phrasing == always.phrasing
