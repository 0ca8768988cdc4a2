import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.tokenization.quantised import quantised
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


@pytest.fixture
def tokens(tmp_path: Path, song: Path, command) -> Path:
    (tmp_path / "tokens").write_text(command("tokenize", song).out)
    return tmp_path / "tokens"


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_bar_is_a_line(song: Path, command, monkeypatch):
    out, err = command("tokenize", song)
    begin, *bars = out.splitlines()
    assert begin == "begin"
    assert len(bars) == 4
    assert bars[0].startswith("bar subbeat_0 tempo_101 chord_C_M pitch_")
    assert all(bar.startswith("bar ") for bar in bars)
    assert "32 notes" in err
    standard_input(monkeypatch, song.read_bytes())
    assert command("tokenize", "-").out == out


def test_json_has_tokens_ids_bars_and_what_was_lost(song: Path, command):
    found = json.loads(command("tokenize", song, "--json").out)
    speaker = language("remi")
    expected = speaker.encode(speaker.arrange(read_midi(song)))
    assert found["language"] == "remi"
    assert found["ids"] == expected.ids.tolist()
    assert found["tokens"] == [speaker.vocabulary.names[i] for i in found["ids"]]
    assert found["bars"] == expected.bars.tolist()
    assert found["losses"] == {}
    assert found["notes"] == 32


@pytest.mark.parametrize(
    "tracks", ["Bass Drums Guitar", "bass=Bass drums=1 other=guitar", "other=3"]
)
def test_tracks_of_a_trio_can_be_chosen(trio: Path, tracks: str, command):
    words = ["tokenize", trio, "--language", "groove", "--json", "--tracks", *tracks.split()]
    assert json.loads(command(*words).out)["setting"]["programs"] == [33, 0, 25]


def test_a_role_may_be_empty_or_have_several_tracks(trio: Path, command):
    words = ["tokenize", trio, "--language", "groove", "--json", "--tracks"]
    found = json.loads(command(*words, "-", "Drums", "Piano,Guitar").out)
    assert not any(token.startswith("note_on_0") for token in found["tokens"])
    assert sum(token.startswith("note_on_2") for token in found["tokens"]) > 16
    assert json.loads(command("tokenize", trio, "--json", "--tracks", "Piano").out)["notes"] == 16


@pytest.mark.parametrize(
    ("tracks", "message"),
    [
        ("Bass", "--tracks has 1 track; groove takes the bass, the drums and the other"),
        ("lead=Bass", "each of bass, drums, other can be, once"),
        ("bass=0 bass=1", "each of bass, drums, other can be, once"),
        ("Bass Drums Kazoo", "there is no track 'Kazoo'"),
    ],
)
def test_wrong_tracks_are_named(trio: Path, tracks: str, message: str, refused):
    words = ["tokenize", trio, "--language", "groove", "--tracks", *tracks.split()]
    assert message in refused(*words)


def test_what_is_no_file_of_music_is_named(tmp_path: Path, refused):
    (tmp_path / "bad.mid").write_bytes(b"<html>")
    assert "bad.mid" in refused("tokenize", tmp_path / "bad.mid")
    assert "nowhere\\udcff.mid" in refused("tokenize", os.fsdecode(b"nowhere\xff.mid"))
    assert ". is a folder or a device: give a MIDI" in refused("tokenize", ".")


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(("name", "spoken"), [("song", "remi"), ("trio", "groove")])
def test_tokens_come_back_as_the_notes_they_say(
    name: str, spoken: str, options: list[str], tmp_path: Path, request, command
):
    source = request.getfixturevalue(name)
    tokens, target = tmp_path / "tokens", tmp_path / "again.mid"
    tokens.write_text(command("tokenize", source, "--language", spoken, *options).out)
    out, err = command("detokenize", tokens, "-o", target, "--json")
    assert ("tempo are not among these tokens" in err) == (spoken == "groove" and not options)
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


def test_a_part_of_a_piece_will_do(tokens: Path, tmp_path: Path, command, monkeypatch):
    part = "\n".join(tokens.read_text().splitlines()[:3])
    standard_input(monkeypatch, part.encode())
    out = command("detokenize", "-", "-o", tmp_path / "part.mid").out
    assert out == f"{tmp_path / 'part.mid'}: 16 notes in 2 bars\n"


def test_what_is_written_goes_by_the_ending_of_its_name(tokens, tmp_path: Path, command, refused):
    for name in ("a.musicxml", "a.mid", "without an ending"):
        command("detokenize", tokens, "-o", tmp_path / name)
        assert (tmp_path / name).read_bytes()[:4] == (b"<?xm" if "xml" in name else b"MThd")
        assert len(read_file(tmp_path / name).notes) == 32
    assert "a.mid exists" in refused("detokenize", tokens, "-o", tmp_path / "a.mid")
    assert "a.json ends in none of" in refused("detokenize", tokens, "-o", tmp_path / "a.json")


SETTING = (
    '{"tokens": ["begin", "note_on_0_40"], "setting": {"programs": [%s, 0, 0], '
    '"velocities": [90, 90, 90], "beats_per_minute": %s}}'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tokens holds no tokens"),
        ("one two", "no tokens of the languages remi, groove and ensemble"),
        ("begin\nbar subbeat_0 pitch_999", "token 3 in line 2 of .*tokens is 'pitch_999', which"),
        ("begin\nbar subbeat_0 pitch_60 bar", "token 4 in line 2 of .*: volume must follow"),
        ("begin bar bar", "make no note"),
        ("{", "starts like JSON, but is not"),
        ('{"tokens":' * 9_000, "starts like JSON, but is not"),
        ('{"a": 1}', 'has no list "tokens"'),
        ('{"tokens": [], "ids": []}', "holds no tokens"),
        ('{"tokens": ["begin", "bar", "x"]}', r"tokens\[2\] of .*tokens is 'x', which is not a"),
        ('{"tokens": ["begin"], "language": ["remi"]}', "there is no language"),
        ('{"tokens": ["begin", "note_on_0_40"], "setting": {"programs": 1}}', "needs programs"),
        (SETTING % ("Infinity", 120), r"setting in .* needs programs \(0 to 127\)"),
        (SETTING % (0, 0), "setting in .* beats_per_minute above 0"),
        ("\xff\xfe", "is not text"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, message: str, tmp_path: Path, refused):
    (tmp_path / "tokens").write_bytes(text.encode("latin1"))
    target = tmp_path / "out.mid"
    assert re.search(message, refused("detokenize", tmp_path / "tokens", "-o", target))
    assert not target.exists()


def test_only_files_are_read_and_replaced(tokens: Path, tmp_path: Path, refused):
    target = tmp_path / "out.mid"
    assert "is a folder" in refused("detokenize", tmp_path, "-o", target)
    assert "nowhere" in refused("detokenize", tmp_path / "nowhere", "-o", target)
    assert "deep" in refused("detokenize", tokens, "-o", tmp_path / "deep" / "out.mid")
    for path in (tmp_path, "/dev/null"):
        message = refused("detokenize", tokens, "-o", path, "--force")
        assert f"{path} is a folder or a device" in message
    message = refused("detokenize", tokens, "-o", target, "--language", "groove")
    assert "token 1 in line 2" in message


def test_tokens_without_end_are_not_read(tmp_path: Path, refused, monkeypatch):
    for name, most in (("MOST_TOKENS", 200), ("MOST_BRACKETS", 20)):
        monkeypatch.setattr(f"app.token_text.{name}", most)
    for text, said in (
        ("bar " * 300, "more than 200 tokens"),
        ('{"tokens": [' + '"bar", ' * 300 + '"bar"]}', "more than 200 tokens"),
        ('{"tokens": [' + "[], " * 300 + "[]]}", "it holds more"),
        ('{"tokens": [' + "1," * 1000 + "1]}", "it holds more"),
    ):
        (tmp_path / "tokens").write_text(text)
        assert said in refused("detokenize", tmp_path / "tokens", "-o", tmp_path / "out.mid")
    monkeypatch.setattr("app.commands.detokenize.MOST_BYTES", 10)
    standard_input(monkeypatch, b"begin bar " * 9)
    said = refused("detokenize", "-", "-o", tmp_path / "out.mid")
    assert "the standard input has more than" in said
