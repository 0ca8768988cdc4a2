"""Asked to end, the last bar leans towards the tonic of what was heard; nothing else does."""

import pickle

import numpy as np
import pytest

from tests.tokenization.grammar_cases import ids_of
from tokenization.language import language
from tokenization.remi.goals import LEFT_1
from tokenization.remi.language import Remi
from tokenization.remi.spelling import CHORD, VOCABULARY

LANGUAGE = language("remi-2")
SCALE = (0, 2, 4, 5, 7, 9, 11, 12)


def song(higher: int) -> np.ndarray:
    """Return a bar of a major scale from its tonic, on which it dwells."""
    notes = " ".join(
        f"subbeat_{2 * n} pitch_{60 + higher + step} volume_12 duration_{4 if step % 12 == 0 else 1}"
        for n, step in enumerate(SCALE)
    )
    return ids_of(LANGUAGE, f"begin bar {notes}")


@pytest.mark.parametrize("higher", [0, 5, 11])
def test_after_the_last_bar_has_begun_chords_on_the_tonic_are_likelier(higher: int):
    logit_bias = LANGUAGE.toward_end(song(higher))
    assert logit_bias is not None
    root = ("C", "F", "B")[(0, 5, 11).index(higher)]
    weights = {
        name: logit_bias.weights[1, logit_bias.kind[VOCABULARY.id(f"chord_{name}")]]
        for name in (f"{root}_M", f"{root}_m", "G#_M", "G#_m7", "N_N")
    }
    assert weights[f"{root}_M"] == weights[f"{root}_m"] > 1
    assert weights["N_N"] > 1
    assert weights["G#_M"] == weights["G#_m7"] == 0


def test_only_the_last_bar_leans_and_only_its_chords():
    logit_bias = LANGUAGE.toward_end(song(0))
    assert logit_bias is not None
    assert np.flatnonzero(logit_bias.goal).tolist() == [LEFT_1]
    assert np.flatnonzero(logit_bias.kind).tolist() == [*range(CHORD.start, CHORD.stop)]


def test_the_key_is_that_of_all_that_is_heard_when_the_last_bar_begins():
    logit_bias = LANGUAGE.toward_end(song(0))
    assert logit_bias is not None
    far = np.concatenate([song(0), *[song(7)[1:]] * 8, [LANGUAGE.bar, LEFT_1]])
    found = pickle.loads(pickle.dumps(logit_bias)).after(far)
    wanted = LANGUAGE.toward_end(song(7))
    assert wanted is not None
    assert found.kind.tolist() == wanted.kind.tolist() != logit_bias.kind.tolist()


def test_where_nothing_was_heard_or_no_end_can_be_asked_for_nothing_leans():
    assert LANGUAGE.toward_end(ids_of(LANGUAGE, "begin bar")) is None
    assert Remi().toward_end(ids_of(Remi(), "begin bar")) is None
    assert language("groove-2").toward_end(ids_of(language("groove-2"), "begin bar")) is None
