import io
import json
import sys
from pathlib import Path

import pytest

from tests.training.data.sources.on_disk import band, piano
from tokenization.formats import write_score
from tokenization.score import Marker


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.mid"
    write_score(path, piano(markers=(Marker(0, "C_M"), Marker(1920, "G_7"))))
    return path


@pytest.fixture
def trio(tmp_path: Path) -> Path:
    path = tmp_path / "trio.mid"
    write_score(path, band())
    return path


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_each_bar_is_one_line(song: Path, command, monkeypatch):
    out, err = command("tokenize", song, "--language", "remi")
    begin, *bars = out.splitlines()
    assert begin == "begin"
    assert len(bars) == 4
    assert bars[0].startswith("bar subbeat_0 tempo_101 chord_C_M pitch_")
    assert all(bar.startswith("bar ") for bar in bars)
    assert "32 notes" in err
    standard_input(monkeypatch, song.read_bytes())
    assert command("tokenize", "-", "--language", "remi").out == out


@pytest.mark.parametrize("said", ["bass=Bass drums=1 other=guitar", "other=3"])
def test_tracks_of_a_trio_can_be_chosen(trio: Path, said: str, command):
    words = ["tokenize", trio, "--language", "groove", "--json", "--tracks", *said.split()]
    assert json.loads(command(*words).out)["setting"]["programs"] == [33, 0, 25]
