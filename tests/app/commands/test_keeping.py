"""Every command that writes to a file gives the file back, with what was written in it."""

import json
from pathlib import Path

import pytest

from app.cli import main
from tests.tokenization.midi.test_keeping import band, check_kept, sounding
from tests.tokenization.notation.musicxml.test_keeping import heard, written

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
def test_a_continuation_keeps_the_file_up_to_the_seam(tmp_path, capsys, more):
    song, seam = tmp_path / "song.mid", 16 * 96
    song.write_bytes(band(1, 96))
    words = ("continue", song, "--prompt-bars", 4, "--bars", 2, "--model", MODEL, *more)
    path, said = made(tmp_path, capsys, *words)
    whole = path.with_name(path.name.replace(".cont_", ".prompt_cont_")).read_bytes()
    assert "notes alone" not in said
    check_kept(song.read_bytes(), whole, seam)
    later = [note[2] - seam for note in sounding(whole) if note[2] >= seam]
    assert 0 <= min(later) <= max(later) < 8 * 96


def test_a_score_is_given_back_as_a_score(tmp_path, capsys):
    path = tmp_path / "song.musicxml"
    path.write_bytes(written())
    made(tmp_path, capsys, "continue", path, "--bars", 2, "--model", MODEL)
    [text] = (tmp_path / "out").glob("*.musicxml")
    assert b"Caf" in text.read_bytes()
    assert not heard(written()) - heard(text.read_bytes())
