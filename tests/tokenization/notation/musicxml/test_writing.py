"""What is written as MusicXML reads back as the same notes, also by another library."""

import warnings
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenization.analysis.chords import CHORDS, named
from tokenization.formats import read_file
from tokenization.notation.musicxml.writing import (
    MOST_VOICES,
    key_of,
    spelled,
    values_of,
    voices_of,
    write_musicxml,
)
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

PIANO = (Track("Piano"),)
HITS = [(0, 1, 36), (0, 1, 42), (12, 1, 42), (20, 1, 38), (96, 1, 49)]


def piece(
    rows: list[tuple[int, int, int]],
    *,
    tracks: tuple[Track, ...] = PIANO,
    meters: tuple[tuple[int, int, int], ...] = ((0, 4, 4),),
) -> Score:
    """Return a score of onset, duration and pitch in 24ths of a beat; the tracks take turns."""
    onset, duration, pitch = np.array(rows).T
    track = np.arange(len(onset)) % len(tracks)
    return Score(
        ticks_per_beat=24,
        notes=Notes(onset, duration, pitch, 0 * onset + 81, track).sorted(),
        tracks=tracks,
        tempos=Tempos(np.array([0, 96]), np.array([90.0, 70.0])),
        meters=Meters(*np.array(meters).T),
    )


def rows(score: Score) -> Counter:
    found = score.rescaled(24).notes
    return Counter(zip(*(column.tolist() for column in found.columns), strict=True))


SCALE = [(24 * n, 24, 60 + n) for n in range(12)]
POLYPHONY = [(0, 300, 40), (6, 6, 70), (13, 50, 71), (24, 8, 72), (32, 8, 74), (40, 8, 76)]


@pytest.mark.parametrize(
    "score",
    [
        piece(SCALE),
        piece(POLYPHONY),
        piece(SCALE, meters=((0, 3, 4), (72, 6, 8), (144, 2, 4))),
        piece(SCALE, meters=((0, 4, 4), (60, 3, 4))),  # … which comes within a bar
        piece(SCALE, tracks=(Track("Bass", 33), Track("Other", 25))),
    ],
)
def test_notes_metres_and_tempos_read_back(score: Score):
    found = read_file(write_musicxml(score))
    assert rows(found) == rows(score)
    assert found.tempos == score.tempos.replace(onset_ticks=score.tempos.onset_ticks * 20)
    assert [t.program for t in found.tracks] == [t.program for t in score.tracks]
    if score.meters.onset_ticks.tolist() != [0, 60]:
        assert found.meters == score.meters.replace(onset_ticks=score.meters.onset_ticks * 20)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(1, 200), st.integers(21, 108)),
        min_size=1,
        max_size=40,
        unique_by=lambda row: (row[0], row[2]),
    )
)
def test_every_onset_reads_back_and_no_staff_has_a_fifth_voice(notes: list[tuple[int, int, int]]):
    score = piece(notes)
    found, written = rows(read_file(write_musicxml(score))), rows(score)
    assert Counter(row[0::2] for row in found.elements()) == Counter(
        row[0::2] for row in written.elements()
    )
    # What is changed is the end of notes that a fifth voice would need.
    voices = voices_of(score.notes)
    assert len(voices) <= MOST_VOICES
    assert all(a.end <= b.start for voice in voices for a, b in pairwise(voice))


def test_drums_keep_their_onsets_and_instruments():
    score = piece(HITS, tracks=(Track("Drums", 0, True),))
    found = read_file(write_musicxml(score))
    assert {row[0::2][:2] for row in rows(found)} == {row[0::2][:2] for row in rows(score)}
    assert found.tracks[0].is_drum


def test_another_library_reads_the_same():
    import music21

    score = piece([*POLYPHONY, (96, 24, 60)], meters=((0, 3, 4), (72, 6, 8)))
    data = write_musicxml(score, title="A <title> & more", made='{"seed": 1}')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = music21.converter.parseData(data.decode(), format="musicxml")
    found = Counter(
        (round(24 * float(chord.getOffsetInHierarchy(parsed))), one.pitch.midi)
        for chord in parsed.recurse().notes
        for one in (chord.notes if isinstance(chord, music21.chord.Chord) else [chord])
        if one.tie is None or one.tie.type == "start"
    )
    assert found == Counter((row[0], row[2]) for row in rows(score).elements())
    times = parsed.parts[0].recurse().getElementsByClass(music21.meter.TimeSignature)
    assert [time.ratioString for time in times] == ["3/4", "6/8"]
    assert ET.fromstring(data).findtext("work/work-title") == "A <title> & more"


@pytest.mark.parametrize(
    ("centre", "names"),
    [
        (-1, "C Db D Eb E F Gb G Ab A Bb B"),  # B♭ major
        (2, "C C# D Eb E F F# G G# A Bb B"),  # C major
        (6, "B# C# D D# E E# F# G G# A A# B"),  # C♯ minor
    ],
)
def test_notes_are_named_by_the_key(centre: int, names: str):
    signs = {-1: "b", 0: "", 1: "#"}
    found = [spelled(60 + n, centre) for n in range(12)]
    assert [f"{step}{signs[alter]}" for step, alter, _ in found] == names.split()
    steps = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
    sounding = [12 * (octave + 1) + steps[step] + alter for step, alter, octave in found]
    assert sounding == [*range(60, 72)]


@pytest.mark.parametrize(
    ("pitches", "fifths", "leading", "name"),
    [
        ((7, 9, 10, 0, 2, 3, 6, 7, 2, 7), -2, 6, ("F", 1, 4)),  # G minor
        ((0, 2, 3, 5, 7, 8, 11, 0, 7, 0), -3, 11, ("B", 0, 4)),  # C minor
        ((9, 11, 12, 14, 16, 17, 20, 21, 16, 21), 0, 8, ("G", 1, 4)),  # A minor
    ],
)
def test_what_leads_to_a_minor_tonic_is_a_raised_tone(pitches, fifths, leading, name):
    key = key_of(piece([(24 * n, 24, 60 + pitch) for n, pitch in enumerate(pitches)]))
    assert key.fifths == fifths
    assert spelled(60 + leading, key.centre) == name


@given(st.integers(1, 400), st.integers(0, 200))
def test_values_make_up_the_length(length: int, at: int):
    assert sum(value.length for value in values_of(length, at)) == length


def test_more_bars_than_can_be_read_back_are_refused_before_they_are_written():
    notes = Notes(
        np.full(64, 24 * 5000), np.full(64, 24), np.full(64, 60), np.full(64, 80), np.arange(64)
    )
    short = Meters(np.zeros(1), np.ones(1), np.full(1, 32))
    spread = Score(ticks_per_beat=24, notes=notes, tracks=(Track(),) * 64, meters=short)
    with pytest.raises(
        ValueError, match="2,560,512 bars in all its parts, and a score holds 300,000"
    ):
        write_musicxml(spread)


def marked(*chords: tuple[int, str], guesses: int = 0) -> Score:
    """Return a piece with chords, of which so many are guesses at first."""
    markers = [Marker(at, text, place < guesses) for place, (at, text) in enumerate(chords)]
    return piece(POLYPHONY, tracks=(Track("Drums", 0, True), *PIANO)).replace(
        markers=tuple(markers)
    )


@pytest.mark.parametrize("chord", CHORDS[:-1])
def test_every_chord_reads_back(chord: str):
    found = read_file(write_musicxml(marked((0, chord))))
    assert [(m.onset_ticks, m.text) for m in named(found)] == [(0, chord)]


def test_chords_stand_at_their_beats_with_their_basses_and_only_where_they_change():
    score = marked((0, "Verse"), (0, "Bb:min7"), (24, "G/B"), (96, "G/B"), (108, "Am7b5/E"))
    found = read_file(write_musicxml(score)).rescaled(24)
    chords = [(m.onset_ticks, m.text) for m in found.markers]
    assert chords == [(0, "Bb_m7"), (24, "G_M/B"), (108, "A_m7b5/E")]


def test_chords_that_are_guessed_are_not_written_before_one_is_known():
    assert b"<harmony" not in write_musicxml(marked((0, "C_M"), (96, "G_M"), guesses=2))
    found = read_file(write_musicxml(marked((0, "C_M"), (96, "G_M"), guesses=1))).rescaled(24)
    assert [(m.onset_ticks, m.text) for m in found.markers] == [(96, "G_M")]


def test_another_library_reads_the_same_chords():
    import music21

    data = write_musicxml(marked((0, "A#_m7"), (36, "C_M/E"), (132, "B_/o7"), (150, "N_N")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = music21.converter.parseData(data.decode(), format="musicxml")
    found = [
        (24 * float(chord.getOffsetInHierarchy(parsed)), chord.figure.replace("-", "b"))
        for chord in parsed.recurse().getElementsByClass(music21.harmony.Harmony)
    ]
    assert found == [(0, "Bbm7"), (36, "C/E"), (132, "Bø7"), (150, "N.C.")]
