"""What is said of a channel holds for all tracks with notes on it, wherever it stands."""

import pytest

from tests.tokenization.midi import files as make
from tokenization.midi.reading import read_midi


def notes(channel: int, *before: bytes) -> bytes:
    return make.track(*before, make.on(0, channel=channel), make.off(9, channel=channel))


# Programs.


def test_programs_set_in_a_track_without_notes_hold_for_the_others():
    setup = make.track(make.program(0, 33, 1), make.program(0, 5, 2), make.program(9, 6, 2))
    second = notes(2, make.program(0, 7, 2))
    assert [t.program for t in read_midi(make.midi(setup, notes(1), second)).tracks] == [33, 7]


@pytest.mark.parametrize(
    "first",
    [
        make.tempo(0, 0x08CD9B),  # 104 beats a minute
        make.name("— Händel —".encode()),
        make.event(1 << 11, 0xB0, 7, 100),
    ],
)
def test_a_track_without_notes_is_one_though_some_bytes_look_like_notes(first: bytes):
    setup = make.track(first, make.program(0, 40, 0), make.program(0, 32, 1))
    score = read_midi(make.midi(setup, notes(0), notes(1)))
    assert [track.program for track in score.tracks] == [40, 32]


def test_programs_of_a_track_with_notes_are_its_own():
    own = notes(3, make.program(0, 40, 0))
    assert [track.program for track in read_midi(make.midi(own, notes(0))).tracks] == [0, 0]
