import io
import json
import re
import sys
from pathlib import Path

import pytest

from tests.tokenization.grammar_cases import quantised
from tests.training.data.sources.on_disk import band, piano
from tokenization.formats import read_file, write_score
from tokenization.language import language
from tokenization.midi.reading import read_midi
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


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(("name", "spoken"), [("song", "remi"), ("trio", "groove")])
def test_tokens_are_converted_back_to_notes(name, spoken, options, tmp_path, request, command):
    source = request.getfixturevalue(name)
    tokens, target = tmp_path / "tokens", tmp_path / "again.mid"
    tokens.write_text(command("tokenize", source, "--language", spoken, *options).out)
    out, err = command("detokenize", tokens, "-o", target, "--json")
    assert ("so defaults are used" in err) == (spoken == "groove" and not options)
    again = read_midi(target)
    speaker = language(spoken)
    expected = quantised(speaker, speaker.arrange(read_midi(source)))
    facts = {"midi": str(target), "language": spoken, "notes": len(expected.notes), "bars": 4}
    assert json.loads(out) == facts
    factor = again.ticks_per_beat // expected.ticks_per_beat
    assert again.notes.onset_ticks.tolist() == (expected.notes.onset_ticks * factor).tolist()
    assert sorted(again.notes.pitch.tolist()) == sorted(expected.notes.pitch.tolist())
    if options and spoken == "groove":
        programs = [[track.program for track in score.tracks] for score in (again, expected)]
        assert programs[0] == programs[1]


def test_the_format_follows_the_suffix(song, tmp_path: Path, command, refused):
    tokens = tmp_path / "tokens"
    tokens.write_text(command("tokenize", song).out)
    for name in ("a.musicxml", "a.mid", "without an ending"):
        command("detokenize", tokens, "-o", tmp_path / name)
        assert (tmp_path / name).read_bytes()[:4] == (b"<?xm" if "xml" in name else b"MThd")
        assert len(read_file(tmp_path / name).notes) == 32
    assert "a.mid exists" in refused("detokenize", tokens, "-o", tmp_path / "a.mid")
    assert "json has an unknown ending" in refused("detokenize", tokens, "-o", tmp_path / "a.json")


SETTING = (
    '{"tokens": ["begin", "note_on_0_40"], "setting": {"programs": [%s, 0, 0], '
    '"velocities": [90, 90, 90], "beats_per_minute": %s}}'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tokens has no tokens"),
        ("begin\nbar subbeat_0 pitch_999", "token 4 of .*tokens is 'pitch_999', which"),
        ("begin bar bar", "contain no notes"),
        ('{"tokens":' * 9_000, "looks like JSON, but is not valid"),
        ('{"tokens": ["begin", "bar", "x"]}', "token 3 of .*tokens is 'x', which is not a"),
        ('{"tokens": ["begin", "note_on_0_40"], "setting": {"programs": 1}}', "programs is 1"),
        (SETTING % (0, 0), "setting: a band needs .* a positive tempo"),
    ],
)
def test_an_error_has_its_position(text: str, message: str, tmp_path: Path, refused):
    (tmp_path / "tokens").write_bytes(text.encode("latin1"))
    target = tmp_path / "out.mid"
    assert re.search(message, refused("detokenize", tmp_path / "tokens", "-o", target))
    assert not target.exists()


def test_too_many_tokens_are_not_read(tmp_path: Path, refused, monkeypatch):
    for name, most in (("MOST_TOKENS", 200), ("MOST_BRACKETS", 20)):
        monkeypatch.setattr(f"app.commands.tokens.{name}", most)
    for text, said in (
        ("bar " * 300, "more than 200 tokens"),
        ('{"tokens": [' + '"bar", ' * 300 + '"bar"]}', "more than 200 tokens"),
        ('{"tokens": [' + "[], " * 300 + "[]]}", "too many lists or values"),
        ('{"tokens": [' + "1," * 1000 + "1]}", "too many lists or values"),
    ):
        (tmp_path / "tokens").write_text(text)
        assert said in refused("detokenize", tmp_path / "tokens", "-o", tmp_path / "out.mid")
    monkeypatch.setattr("app.commands.tokens.MOST_BYTES", 10)
    standard_input(monkeypatch, b"begin bar " * 9)
    said = refused("detokenize", "-", "-o", tmp_path / "out.mid")
    assert "the standard input has more than" in said
