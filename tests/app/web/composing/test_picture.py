"""What the page draws and plays is what the score says."""

import numpy as np
import pytest

from app.web.composing.streamed_takes import picture, trained_bars
from app.web.offered_models import example
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.score import Marker, Score


def test_a_picture_has_every_note_in_order():
    score = language("groove").arrange(read_midi(example("trio-jazz")))
    drawn = picture(score, 20)
    rows = np.array(drawn["notes"]).reshape(-1, 5)
    assert np.array_equal(rows, np.stack(score.notes.columns, axis=-1))
    assert drawn["lines"] == [4 * score.ticks_per_beat * bar for bar in range(21)]
    assert [track["drum"] for track in drawn["tracks"]] == [False, True, False]
    assert drawn["tempos"] == [[0, 120.0]]
    assert drawn["meters"] == [[0, 4, 4]]


def test_an_empty_score_is_one_empty_bar():
    drawn = picture(Score(ticks_per_beat=8, markers=(Marker(0, "N_N"),)))
    assert (drawn["notes"], drawn["lines"], drawn["chords"]) == ([], [0, 32], [[0, "N_N"]])


def test_keys_have_flats_where_they_are():
    remi = language("remi")
    song = remi.arrange(read_midi(example("piano-g-minor")))
    assert picture(song)["centre"] in range(-1, 3)  # five places below it is no D♯, six above F♯


def test_the_trained_length_falls_into_its_bar():
    remi = language("remi")
    ids = remi.encode(remi.arrange(read_midi(example("piano-c-major")))).ids
    starts = remi.bars(ids)
    assert trained_bars(remi, ids, 0) is None  # untrained
    assert trained_bars(remi, ids, len(ids)) is None
    assert trained_bars(remi, ids, int(starts[5])) == 5
    halfway = int(starts[5] + starts[6]) // 2
    assert trained_bars(remi, ids, halfway) == pytest.approx(5.5, abs=0.1)
