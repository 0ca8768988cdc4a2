"""Songs of POP909 are mapped to their annotated beats and chords."""

from pathlib import Path

import numpy as np
import pytest

from tests.training.data.sources import on_disk as disk
from tokenization.analysis.beats import FOUR_FOUR
from tokenization.formats import write_score
from tokenization.midi.reading import read_midi
from tokenization.score import Marker, Notes, Pedals, Score, Tempos, Track
from training.data.sources import SOURCES
from training.data.sources.pop909 import BEATS_FILE, CHORDS_FILE, read_song
from training.data.sources.source import list_files

TRACKS = (Track(name="MELODY"), Track(name="BRIDGE"), Track(name="PIANO"))


def song(folder: Path, onset_seconds: list[float], beats: str, chords: str = "") -> Path:
    """Write a song like POP909's, whose MIDI file has 90 beats per minute unlike the annotated beats."""
    folder = folder / "007"
    folder.mkdir()
    onset = np.rint(np.array(onset_seconds) * 90 / 60 * 480).astype(np.int64)
    track = np.arange(len(onset)) % 3
    same = np.ones_like(onset)
    score = Score(
        ticks_per_beat=480,
        tracks=TRACKS,
        notes=Notes(onset, 240 * same, 60 + track, 80 * same, track),
        tempos=Tempos(np.array([0]), np.array([90.0])),
        pedals=Pedals(onset[2:3], 240 * same[2:3], track[2:3]),
    )
    write_score(folder / "007.mid", score)
    (folder / BEATS_FILE).write_text(beats)
    (folder / CHORDS_FILE).write_text(chords)
    return folder


def beats_file(bars: list[int], first: float = 0.1, seconds: float = 0.6) -> str:
    """Return a beats file for bars with the given numbers of beats, counted in twos as in the data set."""
    rows = [(float(beat % 2 == 0), float(beat == 0)) for bar in bars for beat in range(bar)]
    return "\n".join(f"{first + seconds * i} {half} {bar}" for i, (half, bar) in enumerate(rows))


def test_song_is_mapped_to_its_annotated_beats(tmp_path: Path):
    # An upbeat of half a beat before the third bar, whose first beat is at 4.9 s.
    chords = "0.1\t4.9\tN\n4.9\t6.1\tBb:min7\n6.1\t7.3\tBb:min7/b3\n7.3\t9.7\tA:sus4(b7)\n"
    score = read_song(song(tmp_path, [4.6, 4.9, 5.5, 6.1], beats_file([4, 4, 4, 4]), chords))
    assert (score.notes.onset_ticks / 480).tolist() == [3.5, 4, 5, 6]
    assert score.tracks == TRACKS
    assert score.meters == FOUR_FOUR
    assert score.markers == (Marker(0, "N_N"), Marker(1920, "A#_m7"), Marker(3840, "A_sus4"))
    assert score.pedals.onset_ticks.tolist() == [5 * 480]
    np.testing.assert_allclose(score.tempos.beats_per_minute, [100])


ODD, LATE = beats_file([2, 4, 4, 4]), beats_file([4, 4, 4], first=6.1)
# Bars of three beats, pairs of which are one bar in the second column.
THREES = "\n".join(f"{i * 0.5} {i % 3 == 0:.1f} {i % 6 == 0:.1f}" for i in range(12))


@pytest.mark.parametrize(
    ("onsets", "beats", "expected", "metres"),
    [
        ([0.1, 1.3], ODD, [0, 2], [(0, 2, 4), (2, 4, 4)]),
        ([0.0, 1.5], THREES, [0, 3], [(0, 3, 4)]),  # the first column marks bars
        ([3.1, 6.1], LATE, [3, 8], [(0, 4, 4)]),  # a whole bar before the first annotated one
        ([0.5], "0.5 0 0\n1 0 0\n", [0], [(0, 4, 4)]),
    ],
)
def test_bars_follow_from_the_beats(tmp_path: Path, onsets, beats, expected, metres):
    score = read_song(song(tmp_path, onsets, beats))
    assert (score.notes.onset_ticks / 480).tolist() == expected
    starts, *fractions = score.meters.columns
    assert [*zip(starts / 480, *fractions, strict=True)] == metres


def test_bars_that_start_a_beat_off_are_corrected_from_the_notes(tmp_path: Path):
    # The bass, the strongest evidence, enters on the fourth beat of each annotated bar.
    beats = beats_file([4] * 10)
    folder = song(tmp_path, [0.1 + 0.6 * beat for beat in range(40)], beats, "0.1 9 C:maj\n")
    score = read_midi(folder / "007.mid")
    lowest = np.where(np.arange(40) % 4 == 3, 36, 60)
    length = np.where(np.arange(40) % 4 == 3, 3.5, 0.5) * 480 * 0.9
    notes = score.notes.replace(pitch=lowest, duration_ticks=length.astype(np.int64))
    write_score(folder / "007.mid", score.replace(notes=notes))
    corrected = read_song(folder)
    assert (corrected.notes.onset_ticks[lowest == 36] / 480 % 4).tolist() == [0] * 10


@pytest.mark.parametrize(
    ("beats", "chords", "message"),
    [
        ("0 1\n1 0 0\n", "", "beat_midi.txt is not a beats file"),
        ("", "", "beat_midi.txt needs two or more beats"),
        ("0 1 1\nnan 0 0\n", "", "beat_midi.txt needs two or more beats"),
        ("0 1 1\n1 0 0\n", "0 1\n", r"line 1 of .*chord_midi.txt is '0 1'"),
    ],
)
def test_malformed_annotation_is_named(tmp_path: Path, beats: str, chords: str, message: str):
    with pytest.raises(ValueError, match=message):
        read_song(song(tmp_path, [0.0], beats, chords))


def test_duplicate_songs_and_those_without_annotation_are_skipped(tmp_path: Path):
    disk.pop909(tmp_path / "a")
    disk.pop909(tmp_path / "b", 1)
    (tmp_path / "a" / "002" / "chord_midi.txt").unlink()
    found = SOURCES["pop909"].find(list_files(tmp_path), 0.05)
    assert [piece.name for piece in found.pieces] == ["001", "003"]
    reasons = {skipped.name: skipped.reason for skipped in found.skipped}
    assert reasons["a/002"] == "chord_midi.txt is missing"
    assert {*reasons} == {"a/002", "b/001"}
