"""Parts are written in some bars of a piece; all other notes stay, also in the file."""

import io
from dataclasses import replace
from functools import cache
from typing import Any
from xml.etree import ElementTree

import mido
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from musicgen.completion import EQUALS_OLD, infilling
from musicgen.generation.request import Request
from musicgen.pieces import read_piece
from tests.evaluation.toys import toy_playable
from tests.tokenization.midi.all_events import all_events
from tests.tools.page.own_files import lead_sheet
from tokenization.analysis.chords import named
from tokenization.ensemble.naming import parts_named
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

LANGUAGE = language("ensemble")
BAND = (
    Track("Lead Vocal", 53),
    Track("Keys", 4),
    Track("Upright Bass", 32),
    Track("Kit", 0, is_drum=True),
)
BEAT, BAR = 480, 1920
WINDS = ("flute", "oboe", "clarinet", "bassoon", "horn", "trumpet", "trombone", "tuba")
STRINGS = ("violin", "viola", "cello", "contrabass", "harp", "piano", "organ")


@cache
def player() -> Any:
    return toy_playable(LANGUAGE)


@st.composite
def bands(draw: st.DrawFn) -> bytes:
    """Draw a small file: some tracks, with notes off the grid that ring over bar lines."""
    tracks = draw(st.lists(st.sampled_from(BAND), min_size=1, max_size=4, unique=True))
    seed = draw(st.integers(0, 1 << 16))
    random, rows = np.random.default_rng(seed), []
    for number in range(len(tracks)):
        for beat in range(16):
            if not beat % 4 or random.random() < 0.8:
                at = max(0, beat * BEAT + int(random.integers(-15, 16)))
                pitch = int(random.choice([36, 38, 42, 60, 64, 67]))
                rows.append((at, int(random.choice([100, 470, 1000, 2500])), pitch, 80, number))
        rows.append((16 * BEAT - 10, 400, 60, 70, number))
    notes = Notes(*np.array(rows).T).sorted()
    cut = np.minimum(notes.duration_ticks, notes.next_strike_ticks - notes.onset_ticks)
    notes = notes.replace(duration_ticks=np.maximum(cut, 1))
    score = Score(
        ticks_per_beat=BEAT, notes=notes, tracks=tuple(tracks), tempos=Tempos([0], [120]),
        meters=Meters([0], [4], [4]),
    )  # fmt: skip
    return write_midi(score)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(bands(), st.data())
def test_all_events_outside_bars_and_parts_stay(data: bytes, draw: st.DataObject):
    piece = read_piece(LANGUAGE, data, name="band.mid")
    count = len(piece.score.tracks)
    first = draw.draw(st.integers(1, piece.bars))
    last = draw.draw(st.integers(first, piece.bars))
    names = draw.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2, unique=True))
    parts: list[int | str] = [*names, *draw.draw(st.sampled_from([(), ("+violin",), ("chords",)]))]
    request = Request(seed=draw.draw(st.integers(0, 99)))
    if last - first + 1 == piece.bars:
        last = max(first, last - 1)
    [take] = infilling(player(), piece, (first, last), request, parts).finish().takes()
    assert take.provenance["written_parts"] == parts
    # Half a step of the grid before a bar line belongs to the bar.
    low, high = ((bar * BAR) - BEAT / 48 for bar in (first - 1, last))
    before, after = all_events(data), all_events(take.midi)
    chosen = {track.name for n, track in enumerate(piece.score.tracks) if n in names}
    allowed = {*chosen, *(["Violin"] if "+violin" in parts else [])}
    for event in before - after:
        assert event.kind == "note"
        assert event.track in chosen
        assert low <= event.tick < high
    for event in after - before:
        if event.kind == "note":
            assert low <= event.tick < high
            assert event.track in allowed
            is_cut = event.what[2] <= last * BAR or last == piece.bars
            assert is_cut or event.track == "Kit"
        elif event.kind == "marker":
            assert "chords" in parts
            assert low <= event.tick < high
        else:
            assert event.track == "Violin"
            assert event.kind in ("track_name", "program_change")


def test_parts_are_found_by_number_name_program_and_role():
    tracks = (*BAND, Track("Piano", 40), Track("LH", 0, sources=(7,)), Track("RH", 0, sources=(8,)))
    for name, found in {
        "lead vocal": [0], "Keys": [1], "electric piano": [1], "Electric Piano 1": [1], "bass": [2],
        "acoustic_bass": [2], "drums": [3], "Drum": [3], "piano": [4], "7": [5], 1: [1], "violin": [4],
        "Acoustic Grand Piano": [5, 6], "piano 2": [6], "chords": ["chords"], "kit bass": [3, 2],
        "Banjo": [Track("Banjo", 105)], "slap bass": [Track("Slap Bass 1", 36)], "strings": [Track("Strings", 48)],
        "+violin": [Track("Violin", 40)], "+Lead Vocal": None, "kazoo": None, "9": None, 9: None,
    }.items():  # fmt: skip
        if found is not None:
            assert parts_named(tracks, [name]) == found, name
            continue
        with pytest.raises(ValueError, match="there is no track"):
            parts_named(tracks, [name])
    with pytest.raises(ValueError, match="did you mean 'Lead Vocal'"):
        parts_named(tracks, ["Led Vocal"])
    with pytest.raises(ValueError, match="instrument 'kazoo'"):
        parts_named(tracks, ["+kazoo"])
    assert parts_named(BAND[:1], ["drums"]) == [Track("Drums", 0, is_drum=True)]
    both = parts_named((Track("Violin", 40),), ["+violin", "violin"])
    assert both == [Track("Violin 2", 40), 0]
    assert parts_named((), ["+violin"] * 2) == [Track("Violin", 40), Track("Violin 2", 40)]


def song(*markers: Marker) -> bytes:
    """Return four bars of a tune and a bass."""
    rows = [(n * BEAT, BEAT - 20, 60 + n % 5, 80, 0) for n in range(16)]
    rows += [(n * BAR, BAR, 40, 80, 1) for n in range(4)]
    return write_midi(
        Score(
            ticks_per_beat=BEAT, notes=Notes(*np.array(rows).T).sorted(), tempos=Tempos([0], [120]),
            tracks=(Track("Tune", 73), Track("Upright Bass", 32)), markers=markers,
        )
    )  # fmt: skip


def test_new_tracks_have_their_own_program_and_the_file_keeps_the_others():
    piece = read_piece(LANGUAGE, song(), name="song.mid")
    [take] = (
        infilling(player(), piece, (2, 3), Request(seed=1), ["Banjo", "drums"]).finish().takes()
    )
    names = [(track.name, track.program, track.is_drum) for track in take.score.tracks]
    assert names[2:] == [("Banjo", 105, False), ("Drums", 0, True)]
    tracks = mido.MidiFile(file=io.BytesIO(take.midi)).tracks
    assert [track.name for track in tracks][-2:] == ["Banjo", "Drums"]
    assert not all_events(song()) - all_events(take.midi)
    bars = take.continuation.notes.onset_ticks // (4 * take.score.ticks_per_beat)
    assert {*bars.tolist()} == {1, 2}


def test_written_chords_replace_those_of_the_file():
    data = song(*(Marker(bar * BAR, text) for bar, text in enumerate(("C_M", "F_M", "G_7", "C_M"))))
    piece = read_piece(LANGUAGE, data, name="song.mid")
    [take] = infilling(player(), piece, (2, 2), Request(seed=1), ["chords"]).finish().takes()
    marks = [(mark.onset_ticks, mark.text) for mark in named(read_midi(take.midi))]
    kept = {(0, "C_M"), (2 * BAR, "G_7"), (3 * BAR, "C_M")}
    assert kept <= {*marks}
    assert all(BAR <= at < 2 * BAR for at, _ in {*marks} - kept)
    assert take.score.notes == piece.score.notes


def test_a_score_keeps_its_elements_when_parts_are_added_and_rewritten():
    """A lead sheet with words gets two parts in two bars, then its chords and one of these parts are rewritten."""
    data = lead_sheet()
    asked: list[tuple[list, bytes]] = [
        (["+strings", "drums"], b"lyric"),
        (["Strings", "chords"], b"lyric"),
    ]
    for count, (parts, kept) in enumerate(asked):
        piece = read_piece(LANGUAGE, data, name="lead sheet.musicxml")
        [take] = infilling(player(), piece, (3, 4), Request(seed=1), parts).finish().takes()
        new, said = take.file(".musicxml")
        assert said == ""
        before, after = (ElementTree.fromstring(one).findall("part") for one in (data, new))
        assert len(after) == 3
        assert len({part.get("id") for part in after}) == 3
        assert {len(part.findall("measure")) for part in after} == {8}
        assert new.count(b"<" + kept) == data.count(b"<" + kept)
        for old, now in zip(before, after, strict=False):
            bars = [*zip(old.iterfind("measure"), now.iterfind("measure"), strict=True)]
            same = [
                ElementTree.tostring(a).strip() == ElementTree.tostring(b).strip() for a, b in bars
            ]
            assert all(same[:2] + same[5:])  # bar 5 can state the chord in force again
            assert all(same) or count
        data = new


@pytest.mark.parametrize("part", ["tune", "bass"])
def test_a_take_that_equals_the_old_bars_says_so(part: str):
    piece = read_piece(LANGUAGE, song(), name="song.mid")
    work = infilling(player(), piece, (2, 3), Request(seed=1), [part]).finish()
    [take] = work.takes()
    assert take.score.remarks == ()
    work.hear = lambda ids: piece.score
    [take] = work.takes()
    assert take.score.remarks == (EQUALS_OLD,)


@pytest.mark.parametrize(
    ("bars", "parts", "sentence"),
    [
        ((4, 5), ["bass"], "bars 4 to 5 cannot be filled in a piece that has 4 bars"),
        ((1, 2), [], "no part is named"),
        ((1, 2), ["kazoo"], "no track or instrument 'kazoo'"),
        ((1, 2), ["+violin"] * 9, "9 parts for violin; the limit is 8"),
        ((1, 2), [*WINDS, *STRINGS], "17 parts, with the chords; the limit is 16"),
    ],
)  # fmt: skip
def test_impossible_parts_are_refused(bars: tuple[int, int], parts: list, sentence: str):
    piece = read_piece(LANGUAGE, song(), name="song.mid")
    with pytest.raises(ValueError, match=sentence):
        infilling(player(), piece, bars, Request(), parts)


def test_a_piece_without_a_setting_as_in_a_prepared_set_is_rewritten():
    notes = Notes(*np.array([(BEAT * n, BEAT, 60 + n % 7, 80, 0) for n in range(16)]).T)
    score = Score(
        ticks_per_beat=BEAT, notes=notes, tracks=(Track("Flute", 73),), tempos=Tempos([0], [120]),
        meters=Meters([0], [4], [4]),
    )  # fmt: skip
    piece = read_piece(LANGUAGE, write_midi(score), name="a.mid")
    bare = replace(piece, encoded=replace(piece.encoded, setting=None), original=None)
    work = infilling(player(), bare, (2, 2), Request(seed=1))
    work.finish()
    assert work.takes()[0].score.tracks
