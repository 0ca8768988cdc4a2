"""Every command that writes to a file gives the file back, with what was written in it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import mido
import pytest

from app.cli import main
from tests.tokenization.midi.test_keeping import band, events, is_made, sounding
from tests.tokenization.notation.musicxml.test_keeping import heard, written
from tokenization.formats import read_file

MODEL = "untrained:tiny:ensemble"


def made(tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: object) -> tuple[Path, str]:
    """Return the MIDI file of a command's first take, and what was said beside it."""
    assert main([*map(str, words), "-o", str(tmp_path / "out"), "--json", "--seed", "3"]) == 0
    said = capsys.readouterr()
    return Path(json.loads(said.out)[0]["midi"]), said.err


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.mid"
    path.write_bytes(band(1, 96))
    return path


@pytest.mark.parametrize("more", [[], ["--end"]])
def test_a_continuation_keeps_the_file_up_to_the_seam(song, tmp_path, capsys, more):
    words = ("continue", song, "--prompt-bars", 4, "--bars", 2, "--model", MODEL, *more)
    path, said = made(tmp_path, capsys, *words)
    whole = path.with_name(path.name.replace(".cont_", ".prompt_cont_")).read_bytes()
    assert "notes alone" not in said
    seam = 16 * 96
    for before, after in zip(events(song.read_bytes()), events(whole), strict=False):
        assert [e for e in after if e[0] < seam and not is_made(e)] == [
            e for e in before if e[0] < seam
        ]
    assert any(note[2] >= seam for note in sounding(whole))
    assert not any(note[2] >= seam + 8 * 96 for note in sounding(whole))
    assert mido.MidiFile(file=io.BytesIO(whole)).ticks_per_beat == 96


@pytest.mark.parametrize(
    ("words", "bars"),
    [
        (("continue", "--prompt-bars", 4, "--bars", 2, "--chords", "Dm | G7 C"), {4, 5, 5.5}),
        (("rewrite", "--range", "3-4"), set()),
        (("accompany", "--write", "flute"), set()),
    ],
)
def test_a_score_names_the_chords_that_are_known(song, tmp_path, capsys, words, bars):
    command, *more = words
    made(tmp_path, capsys, command, song, *more, "--model", MODEL, "--score")
    text = next(path for path in (tmp_path / "out").glob("*.musicxml") if ".cont_" not in path.name)
    found = read_file(text)
    chords = {m.onset_ticks / found.ticks_per_beat / 4: m.text for m in found.markers}
    assert {*chords} == bars
    assert not bars or [*chords.values()] == ["D_m", "G_7", "C_M"]


def test_a_score_is_given_back_as_a_score(tmp_path, capsys):
    path = tmp_path / "song.musicxml"
    path.write_bytes(written())
    made(tmp_path, capsys, "continue", path, "--bars", 2, "--model", MODEL)
    [text] = (tmp_path / "out").glob("*.musicxml")
    assert b"Caf" in text.read_bytes()
    assert not heard(written()) - heard(text.read_bytes())
