"""A hidden part is written anew to the others, and its likeness to the true one is told beside what nobody wrote."""

import numpy as np
import pytest

from evaluation.accompaniment import accompany, compared, density, first_bars, hidden_parts, summary
from tests.evaluation.toys import toy_playable
from tests.tokenization.groove.cases import trio_of
from tokenization.groove.spelling import BASS, DRUMS, OTHER
from tokenization.groove_2.language import Groove2
from tokenization.score import Notes

GROOVE = Groove2()


def music(*notes: tuple[int, int, int, int]) -> Notes:
    """Return notes of (onset, duration, pitch, track)."""
    return trio_of([(o, d, p, 80, t) for o, d, p, t in notes]).notes.sorted()


BEATS = [(12 * n, 2, 36, DRUMS) for n in range(8)]
OFF = [(12 * n + 6, 2, 36, DRUMS) for n in range(8)]
LINE = [(24 * n, 12, 40 + n, BASS) for n in range(4)]


def test_bars_of_a_piece_begin_at_0_and_nothing_sounds_past_them():
    notes = music((0, 100, 60, OTHER), (48, 12, 61, OTHER), (90, 30, 62, OTHER), (96, 5, 63, OTHER))
    second = first_bars(notes, 1, 1)
    assert second.onset_ticks.tolist() == [0, 42]
    assert second.duration_ticks.tolist() == [12, 6]


def test_the_same_part_is_like_itself_and_one_off_the_beat_is_not():
    piece = music(*BEATS, *LINE)
    [row] = compared(piece, DRUMS, {"a": music(*BEATS), "b": music(*OFF), "c": None})
    assert row == {"metric": "onset_drum", "a": pytest.approx(1), "b": 0, "c": None}
    duration, pitch, _ = compared(piece, BASS, {"a": piece, "b": music(*BEATS)})
    assert (duration["metric"], pitch["metric"]) == ("onset_duration", "time_pitch")
    assert (duration["a"], duration["b"]) == (pytest.approx(1), None)  # b has no bass


def test_a_part_that_was_left_silent_is_like_the_hidden_one_in_nothing():
    piece, nothing = music(*BEATS, *LINE), music(*BEATS)
    for row in compared(piece, BASS, {"written": nothing, "same": nothing}):
        assert (row["written"], row["same"]) == (0, None)
    held = music(*BEATS, (0, 96, 40, BASS))  # of no duration that is counted
    duration, pitch, _ = compared(held, BASS, {"written": piece})
    assert (duration["written"], pitch["written"]) == (None, None)


def test_a_part_that_plays_alone_is_not_hidden():
    assert hidden_parts(music(*BEATS)) == []
    assert hidden_parts(music(*BEATS, *LINE)) == [BASS, DRUMS]


def test_a_style_counts_once_and_is_compared_with_another_piece_of_it():
    def row(style: int, written: float, same: float | None) -> dict:
        shared = {"part": "drums", "metric": "onset_drum", "style": style}
        return {**shared, "written": written, "next": 1.0, "same": same, "other": None}

    [found] = summary([row(1, 0.2, 0.4), row(1, 0.6, 0.3), row(2, 0.8, 0.9), row(3, 0.5, None)])
    assert (found["pieces"], found["written"]["n"]) == (4, 3)
    assert found["written"]["mean"] == pytest.approx((0.4 + 0.8 + 0.5) / 3)
    assert (found["above_same"], found["of"]) == (1, 2)
    assert (found["other"]["mean"], found["other"]["missing"]) == (None, 3)


def test_what_is_not_hidden_stays():
    model, piece = toy_playable(GROOVE), music(*BEATS[:4], *LINE[:2])
    written, again = (
        GROOVE.notes(accompany(model, GROOVE, piece, DRUMS, seed=1).finish().whole())
        for _ in range(2)
    )
    assert again == written
    bass = written[written.track == BASS]
    assert bass == music(*LINE[:2]).replace(velocity=np.zeros(2, dtype=np.int64))
    assert (written.track == DRUMS).any()
    assert not (written.track == OTHER).all()


def test_a_bass_on_the_chords_is_in_harmony_and_one_that_stays_on_a_note_is_not():
    chord_of = {0: (60, 64, 67), 48: (62, 65, 69), 96: (59, 62, 67), 144: (60, 64, 67)}  # C Dm G C
    chords = [(at, 48, pitch, OTHER) for at, pitches in chord_of.items() for pitch in pitches]
    roots = [(at, 48, pitch, BASS) for at, pitch in zip(chord_of, (36, 38, 31, 36), strict=True)]
    piece = music(*chords, *roots)
    pedal = music(*((at, 48, 36, BASS) for at in chord_of))
    *_, row = compared(piece, BASS, {"written": pedal, "same": piece, "other": None})
    assert row == {"metric": "in_harmony", "real": 1, "written": 0.5, "same": 1, "other": None}
    piece, silent = music(*BEATS, (0, 48, 36, BASS)), music(*BEATS)
    *_, row = compared(piece, BASS, {"written": silent})
    assert (row["metric"], row["real"], row["written"]) == ("in_harmony", 1, 0)
    *_, row = compared(silent, OTHER, {"written": piece})  # nothing pitched sounds
    assert (row["real"], row["written"]) == (None, None)


def test_notes_are_counted_by_the_bar_and_by_what_sounds_at_a_time():
    piece, drone = music(*BEATS, *LINE), music(*BEATS, (0, 96, 40, BASS), (0, 96, 47, BASS))
    bar, at_once = density(piece, BASS, 2, {"written": drone, "next": None, "same": music(*BEATS)})
    others = {"next": None, "same": 0}
    assert bar == {"metric": "notes_a_bar", "real": 4 / 2, "written": 1, **others}
    assert at_once == {"metric": "sounding", "real": 4 * 12 / 96, "written": 2, **others}
