"""What the roll draws is what the score says."""

import numpy as np
import pytest

from app.web.picture import chord_sign, picture, trained_bars
from app.web.studio import example
from tokenization.language import language
from tokenization.midi import read_midi
from tokenization.score import Marker, Score


def test_a_picture_has_every_note_in_order():
    score = language("groove").arrange(read_midi(example("trio-jazz")))
    drawn = picture(score, prompt_bars=2, bars=20)
    rows = [[int(n) for n in row.split(",")] for row in drawn["notes"].split(";")[:-1]]
    assert np.array_equal(np.array(rows), np.stack(score.notes.columns, axis=-1))
    assert drawn["barTicks"] == 4 * score.ticks_per_beat
    assert (drawn["bars"], drawn["promptBars"], drawn["count"]) == (20, 2, len(score.notes))
    assert [track["drum"] for track in drawn["tracks"]] == [False, True, False]
    assert drawn["tempos"] == [[0, 120.0]]


def test_an_empty_score_is_one_empty_bar():
    drawn = picture(Score(ticks_per_beat=8, markers=(Marker(0, "N_N"),)))
    assert (drawn["notes"], drawn["bars"], drawn["chords"]) == ("", 1, [[0, ""]])


@pytest.mark.parametrize(
    ("name", "sign"),
    [("C_M", "C"), ("F#_m7", "F♯m7"), ("A#_M7", "A♯maj7"), ("B_/o7", "Bø7"), ("D_o", "D°"), ("D_o7", "D°7"),
     ("E_+", "E+"), ("G_sus4", "Gsus4"), ("N_N", ""), ("verse", "verse")],
)  # fmt: skip
def test_chords_are_written_as_musicians_do(name: str, sign: str):
    assert chord_sign(name) == sign


def test_the_trained_length_falls_into_its_bar():
    remi = language("remi")
    ids = remi.encode(remi.arrange(read_midi(example("piano-c-major")))).ids
    starts = remi.bars(ids)
    assert trained_bars(remi, ids, 0) is None  # untrained
    assert trained_bars(remi, ids, len(ids)) is None
    assert trained_bars(remi, ids, int(starts[5])) == 5
    halfway = int(starts[5] + starts[6]) // 2
    assert trained_bars(remi, ids, halfway) == pytest.approx(5.5, abs=0.1)
