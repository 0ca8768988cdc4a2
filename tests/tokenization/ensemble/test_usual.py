"""Parts of bands go on with the lengths, loudness, chords and drums that they had."""

import numpy as np
import pytest

from tokenization.ensemble.grammar import AFTER_VALUE, PLACED
from tokenization.ensemble.habits import Habits, habits_of
from tokenization.ensemble.spelling import Reading
from tokenization.ensemble.tokens import AT, BAR, LENGTHS, PITCH, VOCABULARY

ID = VOCABULARY.id
EVEN = ["pitch_60 pitch_64"] * 16


def habits(*chords: str, drums: str = "drums at_0 loudness_8 drum_36 at_24 drum_38") -> Habits:
    """Return the habits of a piano that plays these chords, one a bar, and of drums."""
    bars = (f"bar piano at_0 length_24 loudness_8 {chord} {drums}" for chord in chords)
    text = f"begin piano {drums[:5]} {' '.join(bars)}"
    given = Reading(np.array([ID(name) for name in text.split()])).sheet()
    return habits_of(given, True, np.zeros(0), np.zeros(0))


def nats(found: Habits, part: int, kind: int, *, notes: int = 0, loudness: int = -1) -> np.ndarray:
    row = np.zeros(len(VOCABULARY), np.float32)
    found.usual.add_to(row, part, kind=kind, at=0, notes=notes, loudness=loudness)
    return row


def test_what_a_part_has_not_done_is_improbable():
    piano, drums = (nats(habits(*EVEN), part, PLACED) for part in (0, 1))
    assert piano[ID("length_24")] == piano[ID("loudness_8")] == 0
    assert piano[ID("length_12")] < 0
    assert piano[ID("loudness_15")] < piano[ID("loudness_10")] < 0
    assert drums[ID("drum_36")] == drums[ID("drum_38")] == 0
    assert drums[ID("drum_56")] < 0


def test_it_is_less_improbable_the_more_often_something_new_came():
    lengths = [f"length_{LENGTHS[n]}" for n in range(12)]
    text = " ".join(
        f"bar piano at_0 {lengths[bar % 12]} loudness_8 pitch_60 drums at_0 loudness_8 drum_36"
        for bar in range(16)
    )
    given = Reading(np.array([ID(name) for name in f"begin piano drums {text}".split()])).sheet()
    varied = habits_of(given, True, np.zeros(0), np.zeros(0))
    assert nats(varied, 0, PLACED)[ID("length_96")] == 0


def test_a_note_keeps_the_loudness_only_if_it_is_usual():
    row = nats(habits(*EVEN), 0, PLACED, loudness=15)
    assert row[PITCH.start + 60] == row[ID("loudness_15")] < row[ID("loudness_8")]


@pytest.mark.parametrize(("notes", "goes_on"), [(1, True), (2, False)])
def test_chords_have_as_many_notes_as_before(notes, goes_on):
    row = nats(habits(*EVEN), 0, AFTER_VALUE, notes=notes)
    assert (row[PITCH.start + 67] > row[AT.start + 48] == row[BAR]) == goes_on
    assert (row[PITCH.start + 67] < row[AT.start + 48] == row[BAR]) != goes_on


def test_music_without_drums_is_free():
    alone = habits(*EVEN, drums="piano voice_2 at_0 length_24 loudness_8 pitch_50")
    assert not nats(alone, 0, PLACED).any()
    assert not nats(alone, 0, AFTER_VALUE, notes=2).any()
