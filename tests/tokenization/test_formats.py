"""A score is written in the format that its file's name ends in, and says how it was made."""

import json
from pathlib import Path

import pytest

from tests.training.data.sources.on_disk import piano
from tokenization.any_file import read_file
from tokenization.formats import FORMATS, write_score

MADE = {"model": "größe", "seed": 3}


@pytest.mark.parametrize("ending", [*FORMATS, ".MID"])
def test_each_format_is_read_back_and_says_how_it_was_made(ending: str, tmp_path: Path):
    path, score = tmp_path / f"a title{ending}", piano()
    write_score(path, score, MADE)
    again = read_file(path)
    assert again.notes.pitch.tolist() == score.notes.pitch.tolist()
    data = path.read_bytes()
    ascii_only = ending.lower().startswith(".mid")
    said = json.dumps(MADE, ensure_ascii=ascii_only).encode()
    assert said in data.replace(b"&quot;", b'"')
    assert ascii_only or b"<work-title>a title</work-title>" in data


def test_another_ending_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(ValueError, match=r"in none of \.mid, \.midi, \.musicxml and \.xml"):
        write_score(tmp_path / "song.pdf", piano())
    assert not list(tmp_path.iterdir())
