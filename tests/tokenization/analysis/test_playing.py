"""New notes are played like the given ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenization.analysis.playing import playing_of
from tokenization.score import Notes, Score, Track

LEVEL = 8  # velocities that are heard alike
HELD = 24  # ticks that all durations are heard as


def score(rows: list[tuple[int, int]], onset: int = 0) -> Score:
    """Return notes of given velocities and durations, one a beat."""
    velocity, duration = np.array(rows, np.int64).reshape(-1, 2).T
    ticks = onset + 24 * np.arange(len(rows))
    pitch, track = np.full(len(rows), 60), np.zeros(len(rows), np.int64)
    notes = Notes(ticks, duration, pitch, velocity, track)
    return Score(ticks_per_beat=24, notes=notes, tracks=(Track(),))


def heard(played: Score) -> Score:
    notes = played.notes
    level = notes.velocity // LEVEL * LEVEL + LEVEL // 2
    return played.replace(
        notes=notes.replace(velocity=level, duration_ticks=np.full(len(level), HELD))
    )


rows = st.lists(st.tuples(st.integers(8, 119), st.integers(1, HELD)), min_size=1, max_size=30)


@given(given_rows=rows, new=rows, seed=st.integers(0, 9))
def test_new_notes_have_velocities_and_durations_of_given_notes(given_rows, new, seed):
    played = score(given_rows)
    playing = playing_of(played, heard(played), 24)
    written = heard(score(new, onset=24 * len(given_rows)))
    found = playing.apply(written, np.ones(len(new), bool), seed).notes
    levels = {velocity // LEVEL for velocity, _ in given_rows}
    for velocity, duration, level in zip(
        found.velocity, found.duration_ticks, written.notes.velocity // LEVEL, strict=True
    ):
        assert velocity // LEVEL == level
        assert (level not in levels) or velocity in {v for v, _ in given_rows}
        assert duration in {d for _, d in given_rows}


@given(given_rows=rows, new=rows)
def test_a_note_stays_the_same_while_others_are_written_and_given_notes_stay(given_rows, new):
    played = score(given_rows)
    playing = playing_of(played, heard(played), 24)
    written = heard(score([*given_rows, *new]))
    is_new = np.arange(len(written.notes)) >= len(given_rows)
    whole = playing.apply(written, is_new, 0).notes
    part = playing.apply(written.replace(notes=written.notes[:-1]), is_new[:-1], 0).notes
    assert part == whole[:-1]
    assert whole[: len(given_rows)] == written.notes[: len(given_rows)]
