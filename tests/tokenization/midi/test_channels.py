"""What is said of a channel holds for all tracks with notes on it, wherever it stands."""

import pytest

from tests.tokenization.midi import files as make
from tokenization.midi.reading import read_midi
from tokenization.score import Score


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


# Pedals.

DOWN, UP = make.pedal(0, 127), make.pedal(1900, 0)
SPAN = (0, 1900)


def spans(score: Score) -> list[list[tuple[int, int]]]:
    """Return the spans of the pedal of each track."""
    rows = list(zip(*(column.tolist() for column in score.pedals.columns), strict=True))
    return [[row[:2] for row in rows if row[2] == at] for at in range(len(score.tracks))]


def hand(pitch: int, *more: bytes, channel: int = 0) -> bytes:
    return make.track(
        *more, make.on(0, pitch, channel=channel), make.off(480, pitch, channel=channel)
    )


@pytest.mark.parametrize(
    "tracks",
    [
        (hand(72), make.track(DOWN, make.on(0, 48), make.off(480, 48), make.pedal(1420, 0))),
        (make.track(DOWN, make.on(0, 48), make.off(480, 48), make.pedal(1420, 0)), hand(72)),
        (hand(72), hand(48), make.track(DOWN, UP)),
        (make.track(make.event(0, 0xB0, 7, 99), make.event(0, 64, 99), make.event(1900, 64, 0)),)
        + (hand(72), hand(48)),
        # Pressed in one track and released in another.
        (hand(72, DOWN), hand(48), make.track(UP)),
    ],
)
def test_the_pedal_of_a_channel_holds_in_all_its_tracks(tracks: tuple[bytes, ...]):
    later = make.track(make.on(1940, channel=1), make.off(480, channel=1))
    score = read_midi(make.midi(*tracks, later))
    assert sorted(spans(score)) == [[], [SPAN], [SPAN]]
    assert len(score.notes) == 3


def test_a_pedal_holds_over_a_change_of_program():
    track = [make.program(0, 4), DOWN, make.on(0, 60), make.off(480, 60), make.program(0, 5)]
    track += [
        make.on(0, 62),
        make.off(480, 62),
        make.pedal(940, 0),
        make.on(0, 64),
        make.off(480, 64),
    ]
    score = read_midi(make.midi(make.track(*track)))
    assert [track.program for track in score.tracks] == [4, 5]
    assert spans(score) == [[SPAN], [SPAN]]
    assert make.rows(score) == [(0, 480, 60), (480, 480, 62), (1900, 480, 64)]


def test_a_pedal_in_another_track_that_is_never_released_is_so_at_the_end():
    first = hand(72, make.name("Händel".encode("latin-1")))
    score = read_midi(make.midi(first, make.track(DOWN), hand(60, channel=1)))
    assert sorted(spans(score)) == [[], [(0, 480)]]
    assert "Händel" in {track.name for track in score.tracks}


def test_a_damaged_track_beside_the_pedal_is_repaired_as_ever():
    broken = make.track(make.on(0, 72), make.off(480, 72), make.on(0, 200), make.off(480, 72))
    score = read_midi(make.midi(broken, make.track(DOWN, UP)))
    assert "above 127 became 127" in make.remarks(score)
    assert spans(score) == [[SPAN]]
