"""Written MIDI files read back as the same music."""

import re
from io import BytesIO
from itertools import pairwise

import miditoolkit
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from miditoolkit.midi import containers

from tokenization.midi.reading import all_events, read_midi, split_chunks
from tokenization.midi.writing import write_midi, written_ticks_per_beat
from tokenization.score import Marker, Meters, Notes, Pedals, Score, Tempos, Track

PARTS = ("notes", "tracks", "tempos", "meters", "pedals", "markers", "ticks_per_beat")
MIDDLE_C = Notes([0], [480], [60], [80], [0])
LETTERS = st.characters(exclude_categories=("C", "Z"), exclude_characters="\ufffd")
TEXT = st.text(LETTERS, min_size=1)


def parts_of(count: int) -> tuple[Track, ...]:
    return tuple(Track(f"part {number}", number % 15) for number in range(count))


def score_of(notes: Notes = MIDDLE_C, **parts: object) -> Score:
    """Return a score without missing attributes, so that the reader assumes nothing."""
    complete = {"ticks_per_beat": 480, "tracks": parts_of(1), "tempos": Tempos([0], [120.0])}
    return Score(notes=notes.sorted(), **{**complete, "meters": Meters([0], [4], [4]), **parts})


def assert_same(read: Score, written: Score) -> None:
    for part in PARTS:
        assert getattr(read, part) == getattr(written, part), part


def changes(draw, values: st.SearchStrategy, end: int) -> tuple[list[int], list]:
    """Draw changes at increasing ticks, the first at 0."""
    ticks = [0, *sorted(draw(st.sets(st.integers(1, end), max_size=4)))]
    return ticks, [draw(values) for _ in ticks]


def spans(draw, end: int) -> list[tuple[int, int]]:
    """Draw consecutive spans, with or without gaps."""
    ticks = sorted(draw(st.lists(st.integers(0, end), max_size=8, unique=True)))
    return [(a, b - a) for a, b in pairwise(ticks)][:: draw(st.integers(1, 2))]


@st.composite
def scores(draw) -> Score:
    """Draw any score that MIDI can represent, without overlapping notes of one pitch and track."""
    ticks_per_beat = draw(st.sampled_from([1, 8, 12, 96, 480, 32_767]))
    end = 20 * ticks_per_beat
    notes, pedals, tracks = [], [], []
    kit = draw(st.integers(0, 127))
    for track in range(draw(st.integers(1, 18))):
        is_drum = draw(st.booleans())
        name = draw(TEXT)
        tracks.append(Track(name, kit if is_drum else draw(st.integers(1, 15)), is_drum))
        for pitch in draw(st.sets(st.integers(0, 127), min_size=1, max_size=3)):
            length = st.tuples(st.integers(0, end), st.integers(1, end))
            for onset, duration in spans(draw, end) or [draw(length)]:
                notes.append((onset, duration, pitch, draw(st.integers(1, 127)), track))
        pedals += [(onset, duration, track) for onset, duration in spans(draw, end)]
    tempo = st.integers(30_000, 0xFFFFFF).map(lambda microseconds: 60e6 / microseconds)
    meter = st.tuples(st.integers(1, 255), st.sampled_from([1, 2, 4, 8, 16, 32, 64]))
    meter_ticks, meters = changes(draw, meter, end)
    return Score(
        ticks_per_beat=ticks_per_beat,
        notes=Notes(*np.array(notes).T).sorted(),
        tracks=tuple(tracks),
        tempos=Tempos(*changes(draw, tempo, end)),
        meters=Meters(meter_ticks, *zip(*meters, strict=True)),
        pedals=Pedals(*np.array(pedals).reshape(-1, 3).T),
        markers=tuple(Marker(*marker) for marker in zip(*changes(draw, TEXT, end), strict=True)),
    )


@given(scores())
@settings(max_examples=50)
def test_any_score_reads_back(score: Score):
    written = score.rescaled(written_ticks_per_beat(score.ticks_per_beat))
    data = write_midi(score)
    read = read_midi(data)
    assert_same(read, written)
    assert read.remarks == ()
    assert write_midi(score) == data


@given(scores())
@settings(max_examples=50)
def test_the_events_are_those_that_miditoolkit_writes(score: Score):
    score = score.rescaled(written_ticks_per_beat(score.ticks_per_beat))
    ours = split_chunks(write_midi(score), "it").bodies
    midi = miditoolkit.MidiFile()
    midi.tempo_changes = [containers.TempoChange(tempo, tick) for tick, tempo in rows(score.tempos)]
    midi.time_signature_changes = [
        containers.TimeSignature(upper, lower, tick) for tick, upper, lower in rows(score.meters)
    ]
    midi.markers = [containers.Marker(latin_1(m.text), m.onset_ticks) for m in score.markers]
    for index, track in enumerate(score.tracks):
        notes, pedals = (part[part.track == index] for part in (score.notes, score.pedals))
        written = containers.Instrument(track.program, track.is_drum, latin_1(track.name))
        written.notes = [
            containers.Note(velocity, pitch, onset, onset + duration)
            for onset, duration, pitch, velocity, _ in rows(notes)
        ]
        written.pedals = [
            containers.Pedal(onset, onset + duration) for onset, duration, _ in rows(pedals)
        ]
        midi.instruments.append(written)
    midi.dump(file=(file := BytesIO()))
    theirs = split_chunks(file.getvalue(), "it").bodies
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        # Their channels count the drum tracks, too.
        assert without_channels(one) == without_channels(other)


def rows(part) -> list[tuple]:
    return [*zip(*(column.tolist() for column in part.columns), strict=True)]


def latin_1(text: str) -> str:
    """Disguise UTF-8 bytes as Latin-1, because miditoolkit encodes text as Latin-1."""
    return text.encode().decode("latin-1")


def without_channels(body: bytes) -> list[tuple[int, int, bytes]]:
    return [(tick, status if status > 0xEF else status & 0xF0, data)
            for tick, status, data, _ in all_events(body)]  # fmt: skip


@given(st.lists(st.tuples(*[st.integers(0, 20)] * 2, st.integers(60, 61)), min_size=1))
@settings(max_examples=50)
def test_overlapping_notes_of_a_pitch_keep_onsets_and_ends(rows):
    onsets, durations, pitches = zip(*rows, strict=True)
    notes = Notes(onsets, np.add(durations, 1), pitches, [64] * len(rows), [0] * len(rows))
    read = read_midi(write_midi(score_of(notes))).notes
    for pitch in (60, 61):
        before, after = notes[notes.pitch == pitch], read[read.pitch == pitch]
        assert sorted(after.onset_ticks) == sorted(before.onset_ticks)
        assert sorted(after.end_ticks) == sorted(before.end_ticks)


def test_a_low_resolution_is_multiplied():
    found = [written_ticks_per_beat(n) for n in (1, 12, 95, 96, 220)]
    assert found == [480, 480, 475, 96, 220]
    read = read_midi(write_midi(score_of(Notes([3], [1], [60], [80], [0]), ticks_per_beat=12)))
    assert (read.notes.onset_ticks[0], read.notes.duration_ticks[0]) == (120, 40)


def test_rescaling_rounds_but_keeps_every_note():
    score = score_of(Notes([3, 13], [8, 1], [60, 61], [80, 80], [0, 0]), markers=(Marker(14, "x"),))
    coarse = score.rescaled(48)
    assert coarse.notes == Notes([0, 1], [1, 1], [60, 61], [80, 80], [0, 0])
    assert coarse.markers == (Marker(1, "x"),)
    assert score.rescaled(480) is score


def on_tracks(count: int) -> Notes:
    """Return one note on each of several tracks."""
    return Notes(*[[0] * count, [9] * count, [60] * count, [80] * count, range(count)])


@pytest.mark.parametrize("drums", [3, 15])
def test_each_track_has_its_own_channel_and_drums_have_the_tenth(drums: int):
    tracks = tuple(Track("", 1, is_drum=index == drums) for index in range(16))
    data = write_midi(score_of(on_tracks(16), tracks=tracks))
    programs = [value for value in re.sub(rb"MTrk....", b"", data, flags=re.S) if value >> 4 == 0xC]
    assert {*programs} == {*range(0xC0, 0xD0)}
    assert data.count(b"\x00\x99\x3c") == 1


def test_tracks_of_one_program_share_a_channel_if_there_are_too_few():
    score = score_of(on_tracks(30), tracks=parts_of(30))
    data = write_midi(score)
    for channel in range(15):
        status = 0xC0 | (channel + (channel > 8))
        assert data.count(bytes((0, status, channel))) == 2
    assert_same(read_midi(data), score)


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (score_of(Notes.empty()), "there are no notes to write"),
        (score_of(MIDDLE_C.replace(velocity=[0])), "a velocity of 1 at least"),
        (score_of(MIDDLE_C.replace(duration_ticks=[0])), "a length of 1 tick"),
        (score_of(meters=Meters([0], [4], [3])), "power of 2"),
        (score_of(tracks=(Track("", 128),)), r"0\.\.127"),
        (score_of(MIDDLE_C.replace(pitch=[128])), "pitch .* one is 128"),
        (score_of(MIDDLE_C.replace(velocity=[128])), "velocity .* one is 128"),
        (score_of(tempos=Tempos([0], [3.0])), "length of a beat"),
        (score_of(meters=Meters([0], [256], [4])), "upper number"),
    ],
)
def test_values_outside_the_range_of_midi_are_refused(score, sentence):
    with pytest.raises(ValueError, match=sentence):
        write_midi(score)


def test_texts_are_written_at_the_start_in_utf8():
    data = write_midi(score_of(), texts=("model: größe", "x" * 300))
    text = "model: größe".encode()
    assert data.index(b"\x00\xff\x01" + bytes((len(text),)) + text) == 22
    assert b"\x00\xff\x01\x82\x2c" + b"x" * 300 in data
    assert_same(read_midi(data), score_of())


def test_overlapping_pedals_are_merged():
    pedals = Pedals([10, 0, 30], [20, 15, 5], [0, 0, 0])
    read = read_midi(write_midi(score_of(pedals=pedals))).pedals
    assert read == Pedals([0, 30], [30, 5], [0, 0])


def test_tracks_without_notes_are_left_out():
    score = score_of(MIDDLE_C.replace(track=[1]), tracks=parts_of(2))
    assert read_midi(write_midi(score)).tracks == score.tracks[1:]
