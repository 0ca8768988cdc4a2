"""Saved scores are what a player reads: keys, clefs, staves, transposition, tuplets, swing, voices, words."""

import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.page.own_files import Meta, midi, part
from tests.tools.page.scores import MUSESCORE, WANTED, opened_by_musescore, saved, seen
from tokenization.edit import Bar
from tokenization.formats import musicxml, read_file
from tokenization.notation.musicxml.rhythm import values_in
from tokenization.score import KeyChanges, Lyric, Meters, Notes, Score, Tempos, Texts, Track


@pytest.mark.parametrize("name", WANTED)
def test_a_saved_score_is_as_a_player_expects(name: str):
    assert seen(saved(name)) == WANTED[name]


@pytest.mark.long
@pytest.mark.skipif(not MUSESCORE, reason="MuseScore is not installed")
@pytest.mark.parametrize("name", ["quartet", "ten tracks"])
def test_musescore_opens_a_saved_score(name: str, tmp_path: Path):
    assert opened_by_musescore(saved(name), tmp_path / "score.png") == ""


def played(rows: list[tuple[float, float, int]], track: Track, **more: object) -> Score:
    """Return a score of (beat, beats, pitch)."""
    on, length, pitch = np.array(rows).T
    notes = Notes(np.rint(480 * on), np.rint(480 * length), pitch, 0 * on + 80, 0 * on)
    plain = Score(
        ticks_per_beat=480,
        notes=notes,
        tracks=(track,),
        tempos=Tempos([0], [120.0]),
        meters=Meters([0], [4], [4]),
    )
    return plain.replace(**more)


def written(score: Score) -> ET.Element:
    return ET.fromstring(musicxml(score))


def test_swing_is_written_as_straight_eighths():
    late = [(n // 2 + (0.64 if n % 2 else 0), 0.3, 60 + n % 5) for n in range(32)]
    root = written(played(late, Track("Flute", 73)))
    assert root.findtext(".//words") == "Swing"
    assert {note.findtext("type") for note in root.iter("note")} == {"eighth"}
    straight = [(n / 2, 0.4, 60 + n % 5) for n in range(32)]
    assert written(played(straight, Track("Flute", 73))).find(".//words") is None


def test_a_triplet_is_a_complete_tuplet():
    root = written(played([(n / 3, 0.3, 60 + n) for n in range(12)], Track("Violin", 40)))
    kinds = [one.get("type") for one in root.iter("tuplet")]
    assert kinds == ["start", "stop"] * 4


def test_a_note_that_is_struck_twice_at_once_is_one_note():
    beats = [(float(n), 1.0, 60 + n) for n in range(8)]
    clean, twice = (
        written(played([*beats, *more], Track("Piano", 0)))
        for more in ([], [(3.958, 0.04, 64), (5.042, 0.9, 65)])
    )
    assert ET.tostring(clean) == ET.tostring(twice)


def test_the_key_of_the_file_is_kept_where_it_changes():
    score = played(
        [(n, 1, 60) for n in range(8)], Track("Alto Sax", 65), key_signature=(1, False),
        key_changes=KeyChanges([4 * 480], [-3], [1]),
    )  # fmt: skip
    fifths = [int(one.text or "") for one in written(score).iter("fifths")]
    assert fifths == [4, 0]  # as an alto saxophone reads them


def test_words_title_and_composer_are_written():
    lyrics = (Lyric(0, "hal", 0, True), Lyric(480, "lo", 0))
    score = played([(0, 1, 67), (1, 1, 69)], Track("Voice", 53), texts=Texts("Air", "Me", lyrics))
    root = written(score)
    assert (root.findtext("work/work-title"), root.findtext("identification/creator")) == (
        "Air",
        "Me",
    )
    assert [(one.findtext("syllabic"), one.findtext("text")) for one in root.iter("lyric")] == [
        ("begin", "hal"),
        ("end", "lo"),
    ]
    assert read_file(musicxml(score)).texts == score.texts


def test_karaoke_words_are_read_from_midi():
    words = [(0, Meta("lyrics", text="Hal-")), (1, Meta("lyrics", text="lo "))]
    data, *_ = midi({"Lead Vocal": part(0, 53, [(0, 1, 67, 80), (1, 1, 69, 80)], words)})
    texts = read_file(data).texts
    assert [(one.text, one.continues) for one in texts.lyrics] == [("Hal", True), ("lo", False)]


def test_a_pickup_is_a_short_bar_and_reads_back():
    score = played([(3, 1, 67), (4, 4, 60)], Track("Voice", 53))
    data = musicxml(score)
    first = ET.fromstring(data).find("part/measure")
    assert first is not None
    assert (first.get("implicit"), first.get("number")) == ("yes", "0")
    assert (read_file(data).notes.onset_ticks / read_file(data).ticks_per_beat).tolist() == [3, 4]


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 95), max_size=12, unique=True),
    st.sampled_from([(4, 4), (3, 4), (6, 8), (12, 8), (7, 8), (5, 4), (2, 2)]),
)
def test_values_fill_their_segments_and_tuplets_are_complete(
    cuts: list[int], time: tuple[int, int]
):
    size = 96 * time[0] // time[1]
    edges = sorted({0, size, *(cut for cut in cuts if cut < size)})
    segments = [(a, b, n % 3 == 2) for n, (a, b) in enumerate(pairwise(edges))]
    values = values_in(segments, Bar(0, size, time, shows_time=False))
    flat = [value for some in values for value in some]
    assert [(some[0].start, some[-1].stop) for some in values] == [(a, b) for a, b, _ in segments]
    assert all(one.stop == two.start for one, two in pairwise(flat))
    tuplets = [value.tuplet for value in flat if value.tuplet]
    assert tuplets == ["start", "stop"] * (len(tuplets) // 2)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(30, 100)), min_size=1, max_size=40,
        unique_by=lambda row: (row[0], row[2]),
    ),
    st.sampled_from([Track("Piano"), Track("Flute", 73), Track("Strings", 48), Track("Drums", 0, True)]),
)  # fmt: skip
def test_every_note_of_a_readable_score_reads_back(rows: list[tuple[int, int, int]], track: Track):
    score = played([(on / 4, length / 4, pitch) for on, length, pitch in rows], track)
    found = read_file(musicxml(score))
    onsets = np.rint(4 * found.notes.onset_ticks / found.ticks_per_beat).astype(int).tolist()
    assert sorted(zip(onsets, found.notes.pitch.tolist(), strict=True)) == sorted(
        (on, p) for on, _, p in rows
    )
