"""`musicgen evaluate style` on files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from evaluation.metrics.style import cosine, onset_duration, time_pitch
from tests.evaluation.scores import BASS, DRUMS, OTHER, random_trio, trio
from tokenization.formats import write_score
from tokenization.midi.reading import read_midi
from tokenization.score import Notes, Score


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a band, another one, its drums alone, and rubbish."""
    monkeypatch.chdir(tmp_path)
    write_score(tmp_path / "band.mid", random_trio(0, 120, beats=32))
    write_score(tmp_path / "other.mid", random_trio(1, 90, beats=24))
    write_score(tmp_path / "drums.mid", trio([(at, 1, 36, DRUMS) for at in range(0, 96, 12)]))
    write_score(
        tmp_path / "bass.mid", trio([(at, 6, 40 + at % 5, BASS) for at in range(0, 96, 12)])
    )
    (tmp_path / "rubbish.mid").write_bytes(b"no music")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    """Run the command; return what it printed and what it said beside."""
    assert main(["evaluate", "style", *arguments]) == code
    return capsys.readouterr()


def pitched(score: Score) -> Notes:
    """Return all notes but those of drums."""
    return score.notes[~np.array([track.is_drum for track in score.tracks])[score.notes.track]]


def test_json_has_the_whole_and_the_quarters(folder: Path, capsys: pytest.CaptureFixture[str]):
    rows = json.loads(told(capsys, "band.mid", "other.mid", "band.mid", "--json").out)
    assert [tuple(row) for row in rows] == 20 * [("output", "metric", "quarter", "similarity")]
    assert [row["quarter"] for row in rows] == 4 * [None, 1, 2, 3, 4]
    assert [row["output"] for row in rows] == 10 * ["other.mid"] + 10 * ["band.mid"]
    wholes = {(r["output"], r["metric"]): r["similarity"] for r in rows if r["quarter"] is None}
    assert wholes["band.mid", "time_pitch"] == pytest.approx(1)
    band, other = (read_midi(folder / name) for name in ("band.mid", "other.mid"))
    for metric in (onset_duration, time_pitch):
        histograms = [metric(pitched(score), score.ticks_per_beat) for score in (band, other)]
        assert wholes["other.mid", metric.__name__] == pytest.approx(cosine(*histograms))


def test_an_output_that_is_named_twice_is_compared_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    once = told(capsys, "band.mid", "other.mid").out
    assert told(capsys, "band.mid", "other.mid", "other.mid").out == once


def test_all_tracks_add_the_drums(folder: Path, capsys: pytest.CaptureFixture[str]):
    rows = json.loads(told(capsys, "band.mid", "drums.mid", "--tracks", "all", "--json").out)
    assert {row["metric"] for row in rows} == {"onset_duration", "time_pitch", "onset_drum"}
    assert all(row["similarity"] is not None for row in rows if row["metric"] == "onset_drum")


def test_an_empty_histogram_has_no_similarity(folder: Path, capsys: pytest.CaptureFixture[str]):
    write_score(folder / "rest.mid", trio([(0, 6, 60, OTHER), (372, 12, 64, OTHER)]))
    rows = json.loads(told(capsys, "band.mid", "rest.mid", "--json").out)
    onset_durations = [r["similarity"] for r in rows if r["metric"] == "onset_duration"]
    assert [value is None for value in onset_durations] == [False, False, True, True, False]
    assert all(r["similarity"] is None for r in rows if r["metric"] == "time_pitch")
    table = told(capsys, "band.mid", "rest.mid").out
    assert "–" in table
    assert "nan" not in table.lower()


def test_bad_files_are_named_and_the_rest_is_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    out, err = told(capsys, "band.mid", "rubbish.mid", "none.mid", "drums.mid", "other.mid")
    assert out.count("other.mid") == 2
    assert "drums" not in out
    lines = err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("rubbish.mid is not a MIDI file")
    assert lines[1].startswith("there is no file none.mid")
    assert lines[2] == "drums.mid has no notes on pitched tracks, so there is nothing to compare"


def test_nothing_to_compare_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]):
    out, err = told(capsys, "band.mid", "rubbish.mid", code=2)
    assert out == ""
    assert err.splitlines()[-1].startswith("musicgen: no output could be compared with band.mid")
    _, err = told(capsys, "rubbish.mid", "band.mid", code=2)
    assert err.startswith("musicgen: rubbish.mid is not a MIDI file")
    _, err = told(capsys, "drums.mid", "band.mid", code=2)
    assert "drums.mid has no notes on pitched tracks" in err
    _, err = told(capsys, "band.mid", "band.mid", "--grid", "0", code=2)
    assert "--grid is 0" in err


def test_by_track(folder: Path, capsys: pytest.CaptureFixture[str]):
    out, err = told(
        capsys, "band.mid", "bass.mid", "--by-track", "--tracks", "all", "--grid", "12", "--json"
    )
    found = {(r["track"], r["metric"]): r["similarity"] for r in json.loads(out)}
    assert found.keys() == {
        ("Bass", "onset_duration"),
        ("Bass", "time_pitch"),
        ("Drums", "onset_drum"),
        ("Other", "onset_duration"),
        ("Other", "time_pitch"),
    }
    assert found["Bass", "onset_duration"] is not None
    assert found["Other", "onset_duration"] is None
    assert err.splitlines() == [
        "bass.mid has no track 'Drums' as the reference has it",
        "bass.mid has no track 'Other' as the reference has it",
    ]
    assert "Bass" in told(capsys, "band.mid", "bass.mid", "--by-track").out
