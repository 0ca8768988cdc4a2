"""Every file is either read or refused with a one-sentence reason."""

import pytest

from tests.tokenization.midi import files as make
from tests.tokenization.midi.files import NOTE, remarks, rows
from tokenization.limits import UPLOAD, Limits, MusicFileError
from tokenization.midi.reading import read_midi
from tokenization.score import Columns, Marker, Score


def listed(found: Columns) -> list[tuple[int, ...]]:
    """Return tempos, meters or pedals as tuples."""
    return list(zip(*(column.tolist() for column in found.columns), strict=True))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is not a MIDI file: it has 0 bytes"),
        (b"MThd\0\0\0\6\0", "no tracks after it"),
        (make.header() + b"MTrk\0\0", "it is damaged"),
        (make.header()[:10] + NOTE, "has a damaged MIDI header"),
        (make.midi(make.track()), "contains no notes that can be read: choose a file with music"),
        (make.midi(make.track(make.off(0), make.off(9))), "contains no notes"),
        (make.midi(make.track(make.meta(0, 5, b"la"))), "contains no notes"),
        (make.midi(make.track(b"\x81\x80\x80\x80\x00\x90\x3c\x40")), "it is damaged"),
        (make.midi(NOTE, NOTE, kind=2), "is a sequence of pieces"),
        (make.midi(NOTE, division=0xE728), "counts time in seconds"),
        (make.midi(NOTE, division=0), "counts time in seconds"),
        (make.midi(make.track(make.on(0), make.off(2**27))), "beats, but at most 25,000"),
        (make.midi(make.track(make.on(2**28 - 1), make.off(1) * 9)), "it is damaged"),
    ],
)
def test_files_without_music_are_refused_in_a_sentence(data, sentence):
    with pytest.raises(MusicFileError, match=sentence) as caught:
        read_midi(data, name="song\n.mid")
    message = str(caught.value)
    assert message.startswith("song?.mid ")
    assert "\n" not in message
    assert len(message) < 250


MANY = [make.on(0), make.off(1)] * 50_001
LONG = make.midi(make.track(make.on(480 * 2_600), make.off(480)))


@pytest.mark.parametrize(
    ("data", "limits", "sentence"),
    [
        (bytes(2**20 + 1), UPLOAD, r"larger than the 1,048,576 bytes"),
        (make.midi(make.track(*MANY)), UPLOAD, "50,001 notes, but at most 50,000"),
        (make.midi(*[NOTE] * 65), UPLOAD, "65 tracks, but at most 64"),
        (LONG, UPLOAD, "22 minutes, but at most 20"),
        (LONG, Limits(beats=100), "2,601 beats, but at most 100"),
        (make.midi(*[make.track()] * 5_000), Limits(), "more than 4,096 tracks"),
    ],
)
def test_errors_name_the_exceeded_limit(data, limits, sentence):
    with pytest.raises(MusicFileError, match=sentence):
        read_midi(data, limits=limits)


def test_a_track_is_split_by_channel_and_program():
    score = read_midi(make.sixteen_channels())
    assert [track.is_drum for track in score.tracks].index(True) == 9
    assert [track.program for track in score.tracks] == [3 * channel for channel in range(16)]
    assert len(score.notes) == 18
    assert score.markers == (Marker(0, "A_m7"),)
    assert listed(score.meters) == [(0, 3, 4)]
    events = [part for n in range(40) for part in (make.program(0, n), make.on(0), make.off(9))]
    changing = read_midi(make.midi(make.track(*events)))
    assert [track.program for track in changing.tracks] == [*range(40)]
    assert [rows(changing, track) for track in range(40)] == [[(9 * n, 9, 60)] for n in range(40)]


def on_channel(channel: int, *before: bytes) -> bytes:
    return make.track(*before, make.on(0, channel=channel), make.off(9, channel=channel))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        make.tempo(0, 0x08CD9B),  # some bytes look like notes
        make.name("— Händel —".encode()),
        make.event(1 << 11, 0xB0, 7, 100),
    ],
)
def test_programs_in_a_track_without_notes_apply_to_the_others(first: bytes):
    setup = make.track(first, make.program(0, 33, 1), make.program(0, 5, 2), make.program(9, 6, 2))
    own = on_channel(2, make.program(0, 7, 2), make.program(0, 40, 3))
    score = read_midi(make.midi(setup, on_channel(1), own, on_channel(3)))
    assert [track.program for track in score.tracks] == [33, 7, 0]


@pytest.mark.parametrize(
    ("chunk", "is_track"),
    [
        ([make.name(b"Flute"), make.program(0, 73, 5)], True),
        ([make.name(b" "), make.program(0, 73, 5)], False),
        ([make.name(b"Flute")], False),
        ([make.name(b"Set-up"), make.program(0, 73, 1)], False),  # another chunk plays this channel
        ([make.name(b"Set-up"), make.program(0, 73, 5), make.program(0, 40, 6)], False),
    ],
)
def test_a_named_track_with_a_program_of_its_own_can_be_silent(chunk: list[bytes], is_track: bool):
    score = read_midi(make.midi(make.track(*chunk), on_channel(1)))
    assert [track.name for track in score.tracks[:-1]] == (["Flute"] if is_track else [])
    assert score.notes.track.tolist() == [is_track]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("ピアノ".encode("cp932"), "ピアノ"),
        ("桜ソロ".encode(), "桜ソロ"),
        ("été à Besançon".encode("latin-1"), "été à Besançon"),
        (b"\xff\xfe odd \x81", "ÿþ odd \x81"),
        (b" Piano\0\0", "Piano"),
    ],
)
def test_the_encoding_of_text_is_detected(data, text):
    score = read_midi(make.note_file(make.name(data), make.meta(0, 6, data.strip(b" \0"))))
    assert score.tracks[0].name == text
    assert score.markers == (Marker(0, text),)


DOWN, UP = make.pedal(0, 127), make.pedal(1900, 0)
SPAN = (0, 1900)


def hand(pitch: int, *more: bytes, channel: int = 0) -> bytes:
    on, off = make.on(0, pitch, channel=channel), make.off(480, pitch, channel=channel)
    return make.track(*more, on, off)


def spans(score: Score) -> list[list[tuple[int, int]]]:
    """Return the spans of the pedal of each track."""
    rows = listed(score.pedals)
    return [[row[:2] for row in rows if row[2] == at] for at in range(len(score.tracks))]


PEDALLED = make.track(DOWN, make.on(0, 48), make.off(480, 48), make.pedal(1420, 0))
BEAT, END = (make.on(0), make.off(480)), make.pedal(940, 0)
RUNNING = [make.event(0, 0xB0, 7, 99), make.event(0, 64, 99), make.event(1900, 64, 0)]


@pytest.mark.parametrize(
    "tracks",
    [
        (hand(72), PEDALLED),
        (PEDALLED, hand(72)),
        (hand(72), hand(48), make.track(DOWN, UP)),
        (make.track(*RUNNING), hand(72), hand(48)),
        (hand(72, DOWN), hand(48), make.track(UP)),  # pressed in one track, released in another
        (make.track(make.program(0, 4), DOWN, *BEAT, make.program(0, 5), *BEAT, END),),
    ],
)
def test_a_pedal_applies_to_all_tracks_of_its_channel(tracks: tuple[bytes, ...]):
    later = make.track(make.on(1940, channel=1), make.off(480, channel=1))
    score = read_midi(make.midi(*tracks, later))
    assert sorted(spans(score)) == [[], [SPAN], [SPAN]]
    assert len(score.notes) == 3


def test_a_pedal_without_release_is_released_at_the_end():
    score = read_midi(make.midi(hand(72), make.track(DOWN), hand(60, channel=1)))
    assert sorted(spans(score)) == [[], [(0, 480)]]


def test_a_missing_tempo_and_meter_are_assumed_with_remarks():
    score = read_midi(make.midi(NOTE))
    assert (listed(score.tempos), listed(score.meters)) == ([(0, 120)], [(0, 4, 4)])
    assert score.remarks == (
        "No tempo is given: 120 beats per minute were assumed.",
        "No time signature is given: 4/4 was assumed.",
    )
    complete = read_midi(make.note_file(make.tempo(0, 0xFFFFFF), make.meter(0, 6, 3)))
    assert listed(complete.tempos) == [(0, 60e6 / 0xFFFFFF)]  # the slowest tempo in MIDI
    assert (listed(complete.meters), complete.remarks) == ([(0, 6, 8)], ())


def test_all_tempos_are_kept_except_earlier_ones_on_the_same_tick():
    changes = [make.tempo(24, 500_000 + step) for step in range(500)]
    score = read_midi(make.note_file(make.tempo(0, 1), make.tempo(0, 300_000), *changes))
    assert len(score.tempos) == 501
    assert score.tempos.beats_per_minute[0] == 200


def test_impossible_tempos_and_signatures_are_left_out():
    for bad in (0, 29_999):
        score = read_midi(make.note_file(make.tempo(0, 500_000), make.tempo(9, bad)))
        assert listed(score.tempos) == [(0, 120)]
    for numerator, power in ((0, 2), (255, 255), (3, 31)):
        score = read_midi(make.note_file(make.meter(0, numerator, power)))
        assert listed(score.meters) == [(0, 4, 4)]


def test_a_late_signature_moves_to_the_start_or_follows_four_four():
    soon = read_midi(make.note_file(make.meter(10, 3, 2), make.meter(1430, 4, 2)))
    assert listed(soon.meters) == [(0, 3, 4), (1440, 4, 4)]
    assert "moved to the start" in remarks(soon)
    late = read_midi(make.note_file(make.meter(5000, 3, 2)))
    assert listed(late.meters) == [(0, 4, 4), (5000, 3, 4)]


def test_events_far_after_the_notes_are_dropped():
    far = [make.meta(2**27, 6, b"far"), make.tempo(0, 9)]
    score = read_midi(make.midi(make.track(DOWN, make.on(0), make.off(480), *far)))
    assert score.markers == ()
    assert listed(score.tempos) == [(0, 120)]
    assert score.pedals.duration_ticks.tolist() == [25_000 * 480]
