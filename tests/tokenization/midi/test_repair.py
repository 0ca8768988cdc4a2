"""Damaged files are read as far as possible, with remarks on the repairs."""

import pytest

from tests.tokenization.midi import files as make
from tests.tokenization.midi.files import NOTE, remarks, rows
from tokenization.midi.reading import DAMAGED, read_midi

ONE = [(0, 480, 60)]
ONCE = [make.on(0), make.off(480)]
# Wrong chunk lengths, after which the next track is still found.
SHORT = [make.track(make.on(0, 50), make.off(10, 50), length=length) for length in (3, 30, 10**9)]
# Running status continues after meta events and system exclusive messages.
BETWEEN = (
    make.meta(0, 1, b"hi"),
    make.event(0, 0xF0, 2, 1, 0xF7),
    make.event(0, 0xF7, 2, 0x61, 0x62),
    make.event(0, 0xF2, 1, 2),
    make.event(0, 0xF1, 1),
    make.event(0, 0xF6),
)
CHUNKS = [
    (make.header(tracks=5) + NOTE, ""),
    (make.header() + make.track(make.on(0), make.off(480), length=1000), DAMAGED),
    (make.header() + make.track(make.on(0), make.off(480), length=6), DAMAGED),
    (make.header() + make.track(make.on(0), make.off(480), end=b""), ""),
    (make.header() + make.chunk(b"XFIH", b"abc") + NOTE, ""),
    (make.header() + NOTE + b"garbage behind", ""),
    (make.chunk(b"MThd", make.header()[8:] + b"more") + NOTE, ""),
    (b"MThd\0\0\0\1" + make.header()[8:] + NOTE, ""),
    (b"\0" * 128 + make.midi(NOTE), ""),
    (b"RIFF\0\0\0\0RMIDdata\0\0\0\0" + make.midi(NOTE), ""),
    (make.midi(NOTE, kind=7), ""),
    (make.midi(make.track(make.on(0), make.off(480), make.END, make.on(0))), ""),
    (make.header() + NOTE[:-4], DAMAGED),
]
EVENTS = [
    # Overlapping notes of a pitch end first-in first-out.
    ([make.on(0), make.on(10), make.off(90), make.off(100)], [(0, 100, 60), (10, 190, 60)], ""),
    ([make.on(0), make.off(9), make.on(0), make.off(5)], [(0, 9, 60), (9, 5, 60)], ""),
    ([make.on(0), make.off(0), make.on(5), make.off(9)], [(0, 1, 60), (5, 9, 60)], ""),
    # A note without an end lasts until the pitch starts again, at most four beats.
    ([make.on(0), make.on(480), make.off(240)], [(0, 480, 60), (480, 240, 60)], ""),
    ([make.on(0), make.on(4800), make.off(240)], [(0, 1920, 60), (4800, 240, 60)], ""),
    # A missing end does not prolong later notes.
    (
        [make.on(0)] + [make.on(480), make.off(9)] * 2,
        [(0, 480, 60), (480, 9, 60), (969, 9, 60)],
        "",
    ),
    # No ends at all, as in files of drum machines.
    ([make.on(0), make.on(10), make.on(10)], [(0, 10, 60), (10, 10, 60), (20, 1920, 60)], ""),
    ([make.on(0), make.meta(960, 1, b"later")], [(0, 1920, 60)], ""),
    # Values above 127 become 127: as in many files; the pressure has one byte.
    ([make.event(0, 0xD0, 5), make.event(0, 0xB0, 7, 168), *ONCE], ONE, ""),
    # Events before the damage are kept, and undefined events are skipped.
    ([*ONCE, b"\x00\x90\x3c"], ONE, DAMAGED),
    ([*ONCE, make.event(0, 0xF4), make.on(0)], [*ONE, (480, 1920, 60)], ""),
]


@pytest.mark.parametrize(
    ("data", "expected", "remark"),
    [
        *((data, ONE, remark) for data, remark in CHUNKS),
        *((make.header(tracks=2) + track + NOTE, [(0, 10, 50), *ONE], DAMAGED) for track in SHORT),
        *((make.midi(make.track(make.on(0), x, make.event(480, 60, 0))), ONE, "") for x in BETWEEN),
        *((make.midi(make.track(*events)), *found) for events, *found in EVENTS),
    ],
)
def test_no_note_is_lost(data: bytes, expected: list, remark: str):
    score = read_midi(data)
    assert rows(score) == expected
    assert score.ticks_per_beat == 480
    assert remark in remarks(score)


def test_velocities_above_127_become_127():
    score = read_midi(make.midi(make.track(make.on(0, 60, 200), make.off(480))))
    assert score.notes.velocity.tolist() == [127]


def test_a_large_file_is_repaired_like_a_small_one():
    plain = [make.on(0, 50), make.off(10, 50)] * 70_000
    score = read_midi(make.midi(make.track(make.on(0), *plain)))
    assert rows(score)[:2] == [(0, 10, 50), (0, 1920, 60)]
    assert len(score.notes) == 70_001


def test_pedal_events_become_spans():
    events = [make.pedal(0, 127), make.on(0), make.pedal(5, 90), make.pedal(5, 0)]
    events += [make.pedal(0, 64), make.pedal(10, 63), make.off(100), make.pedal(5, 100)]
    score = read_midi(make.midi(make.track(*events, b"\x0a\xff\x2f\x00", end=b"")))
    spans = zip(*(column.tolist() for column in score.pedals.columns), strict=True)
    assert list(spans) == [(0, 10, 0), (10, 10, 0), (125, 10, 0)]  # the last lasts until the end
