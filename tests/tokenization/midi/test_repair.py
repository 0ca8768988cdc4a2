"""Damaged files are read as far as possible, with remarks on the repairs."""

import pytest

from tests.tokenization.midi import files as make
from tests.tokenization.midi.files import NOTE, remarks, rows
from tokenization.midi.reading import read_midi

ONE = [(0, 480, 60)]
ONCE = [make.on(0), make.off(480)]
NEVER = "never ended"
LENGTHS = (3, 30, 10**9)  # wrong chunk lengths, after which the next track is still found
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
    (make.header(tracks=5) + NOTE, "announces 5 tracks; the file has 1"),
    (make.header() + make.track(make.on(0), make.off(480), length=1000), "wrong length"),
    (make.header() + make.track(make.on(0), make.off(480), length=6), "wrong length"),
    (make.header() + make.track(make.on(0), make.off(480), end=b""), ""),
    (make.header() + make.chunk(b"XFIH", b"abc") + NOTE, ""),
    (make.header() + NOTE + b"garbage behind", ""),
    (make.chunk(b"MThd", make.header()[8:] + b"more") + NOTE, ""),
    (b"MThd\0\0\0\1" + make.header()[8:] + NOTE, "wrong length"),
    (b"\0" * 128 + make.midi(NOTE), "128 bytes before the header was skipped"),
    (b"RIFF\0\0\0\0RMIDdata\0\0\0\0" + make.midi(NOTE), "A RIFF wrapper of 20 bytes"),
    (make.midi(NOTE, kind=7), "unknown file type 7 was read as type 1"),
    (make.midi(make.track(make.on(0), make.off(480), make.END, make.on(0))), ""),
    (make.header() + NOTE[:-5], "could be read only in part"),
    (make.midi(NOTE, division=0), "time division 0 is invalid: 480 ticks"),
]
EVENTS = [
    # Overlapping notes of a pitch end first-in first-out.
    ([make.on(0), make.on(10), make.off(90), make.off(100)], [(0, 100, 60), (10, 190, 60)], ""),
    ([make.on(0), make.off(9), make.on(0), make.off(5)], [(0, 9, 60), (9, 5, 60)], ""),
    (
        [make.on(0), make.off(0), make.on(5), make.off(9)],
        [(0, 1, 60), (5, 9, 60)],
        "Extended 1 note of length 0 to",
    ),
    # A note without an end lasts until the pitch starts again, at most four beats.
    ([make.on(0), make.on(480), make.off(240)], [(0, 480, 60), (480, 240, 60)], NEVER),
    ([make.on(0), make.on(4800), make.off(240)], [(0, 1920, 60), (4800, 240, 60)], NEVER),
    # A missing end does not prolong later notes.
    (
        [make.on(0)] + [make.on(480), make.off(100)] * 2,
        [(0, 480, 60), (480, 100, 60), (1060, 100, 60)],
        NEVER,
    ),
    # No ends at all, as in files of drum machines.
    ([make.on(0), make.on(10), make.on(10)], [(0, 10, 60), (10, 10, 60), (20, 480, 60)], NEVER),
    # A note without an end lasts until all notes are switched off; other pitches are unaffected.
    (
        [make.on(0), make.on(0, 64), make.off(30, 64), make.event(70, 0xB0, 123, 0)],
        [(0, 100, 60), (0, 30, 64)],
        NEVER,
    ),
    # A note without an end lasts until the track ends, but at least a beat.
    ([make.on(0), make.meta(960, 1, b"later")], [(0, 960, 60)], NEVER),
    ([make.on(0)], [(0, 480, 60)], NEVER),
    # Values above 127 become 127: symusic's issue 104; the pressure has one byte.
    ([make.event(0, 0xD0, 5), make.event(0, 0xB0, 7, 168), *ONCE], ONE, "1 value above 127 became"),
    # Events before the damage are kept, and undefined events are skipped.
    ([*ONCE, b"\x00\x90\x3c"], ONE, ""),
    ([*ONCE, make.event(0, 0xF4), make.on(0)], [*ONE, (480, 480, 60)], ""),
]


@pytest.mark.parametrize(
    ("data", "expected", "remark"),
    [
        *((data, ONE, remark) for data, remark in CHUNKS),
        *(
            (
                make.header(tracks=2)
                + make.track(make.on(0, 50), make.off(10, 50), length=length)
                + NOTE,
                [(0, 10, 50), *ONE],
                "wrong length",
            )
            for length in LENGTHS
        ),
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
    assert "1 value above 127 became 127" in remarks(score)


def test_a_large_file_is_repaired_like_a_small_one():
    plain = [make.on(0, 50), make.off(10, 50)] * 70_000
    score = read_midi(make.midi(make.track(make.on(0), *plain)))
    assert rows(score)[:2] == [(0, 10, 50), (0, 1920, 60)]
    assert len(score.notes) == 70_001
    assert f"1 note {NEVER}" in remarks(score)


def test_pedal_events_become_spans():
    events = [make.pedal(0, 127), make.on(0), make.pedal(5, 90), make.pedal(5, 0)]
    events += [make.pedal(0, 64), make.pedal(10, 63), make.off(100), make.pedal(5, 100)]
    score = read_midi(make.midi(make.track(*events, b"\x0a\xff\x2f\x00", end=b"")))
    spans = zip(*(column.tolist() for column in score.pedals.columns), strict=True)
    assert list(spans) == [(0, 10, 0), (10, 10, 0), (125, 10, 0)]  # the last lasts until the end
