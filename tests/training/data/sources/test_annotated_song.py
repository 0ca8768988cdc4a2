from pathlib import Path

import numpy as np
import pytest

from tokenization.analysis.grid import FOUR_FOUR
from tokenization.formats import write_score
from tokenization.midi.reading import read_midi
from tokenization.score import Marker, Notes, Pedals, Score, Tempos, Track
from training.data.sources import pop909
from training.data.sources.pop909 import BEATS_FILE, CHORDS_FILE, read_beats, read_song

TRACKS = (Track(name="MELODY"), Track(name="BRIDGE"), Track(name="PIANO"))


def song(folder: Path, onset_seconds: list[float], beats: str, chords: str) -> Path:
    """Write a song of POP909's shape: at 90 a minute, on beats that are not the file's."""
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
    """Write bars of so many beats, in twos, as the data set does."""
    rows = [(float(beat % 2 == 0), float(beat == 0)) for bar in bars for beat in range(bar)]
    return "\n".join(f"{first + seconds * i} {half} {bar}" for i, (half, bar) in enumerate(rows))


def test_a_song_lies_on_its_annotated_beats(tmp_path):
    # An upbeat of half a beat before the third bar, whose first beat is at 4.9 s.
    folder = song(
        tmp_path,
        [4.6, 4.9, 5.5, 6.1],
        beats_file([4, 4, 4, 4]),
        "0.1\t4.9\tN\n4.9\t6.1\tBb:min7\n6.1\t7.3\tBb:min7/b3\n7.3\t9.7\tA:sus4(b7)\n",
    )
    score = read_song(folder)
    assert (score.notes.onset_ticks / 480).tolist() == [3.5, 4, 5, 6]
    assert score.tracks == TRACKS
    assert score.meters == FOUR_FOUR
    assert score.markers == (Marker(0, "N_N"), Marker(1920, "A#_m7"), Marker(3840, "A_sus4"))
    assert score.pedals.onset_ticks.tolist() == [5 * 480]
    np.testing.assert_allclose(score.tempos.beats_per_minute, [100])
    assert score.remarks == ()


def test_odd_bars_are_as_they_are_and_are_said(tmp_path):
    folder = song(tmp_path, [0.1, 1.3], beats_file([2, 4, 4, 4]), "0.1 3 C:maj\n")
    score = read_song(folder)
    assert (score.notes.onset_ticks / 480).tolist() == [0, 2]
    assert meters(score) == [(0, 2, 4), (2, 4, 4)]
    assert score.remarks == ("1 of 3 bars have other than 4 beats.",)


def test_a_song_in_threes_counts_bars_by_the_first_column(tmp_path):
    rows = [(i * 0.5, float(i % 3 == 0), float(i % 6 == 0)) for i in range(12)]
    text = "\n".join(" ".join(map(str, row)) for row in rows)
    folder = song(tmp_path, [0.0, 1.5], text, "0 6 C:maj\n")
    assert read_beats(folder / BEATS_FILE)[1].nonzero()[0].tolist() == [0, 3, 6, 9]
    score = read_song(folder)
    assert (score.notes.onset_ticks / 480).tolist() == [0, 3]
    assert meters(score) == [(0, 3, 4)]


def test_bars_before_the_first_annotated_one_are_whole(tmp_path):
    beats = beats_file([4, 4, 4], first=6.1)
    score = read_song(song(tmp_path, [3.1, 6.1], beats, "0.1 3 C:maj\n"))
    assert (score.notes.onset_ticks / 480).tolist() == [3, 8]
    assert meters(score) == [(0, 4, 4)]


def test_bars_that_begin_a_beat_off_are_mended_by_the_notes(tmp_path, monkeypatch):
    # The bass, which counts for more than the rest, enters on each fourth beat of the annotated bars.
    beats = beats_file([4] * 10)
    folder = song(tmp_path, [0.1 + 0.6 * beat for beat in range(40)], beats, "0.1 9 C:maj\n")
    score = read_midi(folder / "007.mid")
    lowest = np.where(np.arange(40) % 4 == 3, 36, 60)
    length = np.where(np.arange(40) % 4 == 3, 3.5, 0.5) * 480 * 0.9
    notes = score.notes.replace(pitch=lowest, duration_ticks=length.astype(np.int64))
    write_score(folder / "007.mid", score.replace(notes=notes))
    mended = read_song(folder)
    monkeypatch.setattr(pop909, "mended", lambda downbeats, *_: np.flatnonzero(downbeats))
    annotated = read_song(folder)
    assert (mended.notes.onset_ticks[lowest == 36] / 480 % 4).tolist() == [0] * 10
    assert (annotated.notes.onset_ticks[lowest == 36] / 480 % 4).tolist() == [3] * 10
    assert mended.remarks[-1] == (
        "10 of 10 bars begin on another beat than annotated, where bass, chords and melody say so."
    )
    assert not any("another beat" in remark for remark in annotated.remarks)


def meters(score: Score) -> list[tuple[float, int, int]]:
    """Return the time signatures by their beat."""
    rows = zip(*score.meters.columns, strict=True)
    return [(tick / 480, int(n), int(d)) for tick, n, d in rows]


def test_without_downbeats_the_first_beat_starts_a_bar(tmp_path):
    score = read_song(song(tmp_path, [0.5], "0.5 0 0\n1 0 0\n", ""))
    assert score.notes.onset_ticks.tolist() == [0]
    assert "marks no bars" in score.remarks[-1]
    assert score.markers == ()


@pytest.mark.parametrize(
    ("beats", "chords", "message"),
    [
        ("0 1\n1 0 0\n", "", "beat_midi.txt is not a beats file"),
        ("0 1 one\n", "", "beat_midi.txt is not a beats file"),
        ("", "", "beat_midi.txt needs two or more beats"),
        ("0 1 1\n0 0 0\n", "", "beat_midi.txt needs two or more beats, each later"),
        ("0 1 1\nnan 0 0\n", "", "beat_midi.txt needs two or more beats"),
        ("0 1 1\n1 0 0\n", "0 1 C:maj\n1 2 H:dur\n", r"line 2 of .*chord_midi.txt is '1 2 H:dur'"),
        ("0 1 1\n1 0 0\n", "0 1\n", r"line 1 of .*chord_midi.txt is '0 1'"),
    ],
)
def test_a_broken_song_is_named(tmp_path, beats, chords, message):
    with pytest.raises(ValueError, match=message):
        read_song(song(tmp_path, [0.0], beats, chords))


@pytest.mark.parametrize("missing", ["007.mid", BEATS_FILE, CHORDS_FILE])
def test_a_missing_file_is_named(tmp_path, missing):
    folder = song(tmp_path, [0.0], beats_file([4]), "0 1 C:maj\n")
    (folder / missing).unlink()
    with pytest.raises(FileNotFoundError, match=missing):
        read_song(folder)
