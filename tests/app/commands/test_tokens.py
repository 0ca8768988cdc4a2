import io
import json
import sys
from pathlib import Path

import pytest

from app.cli import main
from tests.tokenization.quantised import quantised
from tests.training.data.sources.on_disk import band, piano
from tokenization.any_file import read_file
from tokenization.formats import write_score
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


def tokenized(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["tokenize", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("musicgen: ")
    assert err.count("\n") == 1
    return err


class TestTokenize:
    def test_a_bar_is_a_line(self, song: Path, capsys: pytest.CaptureFixture[str]):
        assert main(["tokenize", str(song)]) == 0
        out, err = capsys.readouterr()
        begin, *bars = out.splitlines()
        assert begin == "begin"
        assert len(bars) == 4
        assert bars[0].startswith("bar subbeat_0 tempo_101 chord_C_M pitch_")
        assert all(bar.startswith("bar ") for bar in bars)
        assert "32 notes" in err

    def test_json_has_tokens_ids_bars_and_what_was_lost(
        self, song: Path, capsys: pytest.CaptureFixture[str]
    ):
        found = json.loads(tokenized(capsys, song, "--json"))
        speaker = language("remi")
        expected = speaker.encode(speaker.arrange(read_midi(song)))
        assert found["language"] == "remi"
        assert found["ids"] == expected.ids.tolist()
        assert found["tokens"] == [speaker.vocabulary.names[i] for i in found["ids"]]
        assert found["bars"] == expected.bars.tolist()
        assert found["losses"] == {}
        assert found["notes"] == 32

    def test_the_standard_input_is_read(
        self, song: Path, capsys: pytest.CaptureFixture[str], monkeypatch
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(song.read_bytes())))
        assert tokenized(capsys, "-") == tokenized(capsys, song)

    @pytest.mark.parametrize(
        "tracks",
        [
            ["Bass", "Drums", "Guitar"],
            ["bass=Bass", "drums=1", "other=guitar"],
            ["other=3"],
        ],
    )
    def test_tracks_of_a_trio_can_be_chosen(
        self, trio: Path, tracks: list[str], capsys: pytest.CaptureFixture[str]
    ):
        found = json.loads(
            tokenized(capsys, trio, "--language", "groove", "--json", "--tracks", *tracks)
        )
        assert found["setting"]["programs"] == [33, 0, 25]

    def test_a_role_may_be_empty_or_have_several_tracks(
        self, trio: Path, capsys: pytest.CaptureFixture[str]
    ):
        arguments = (
            trio,
            "--language",
            "groove",
            "--json",
            "--tracks",
            "-",
            "Drums",
            "Piano,Guitar",
        )
        found = json.loads(tokenized(capsys, *arguments))
        assert not any(token.startswith("note_on_0") for token in found["tokens"])
        assert sum(token.startswith("note_on_2") for token in found["tokens"]) > 16

    def test_tracks_of_a_piano_can_be_chosen(self, trio: Path, capsys: pytest.CaptureFixture[str]):
        assert json.loads(tokenized(capsys, trio, "--json", "--tracks", "Piano"))["notes"] == 16

    @pytest.mark.parametrize(
        ("tracks", "message"),
        [
            (["Bass"], "--tracks has 1 track; groove takes the bass, the drums and the other"),
            (["lead=Bass"], "each of bass, drums, other can be, once"),
            (["bass=0", "bass=1"], "each of bass, drums, other can be, once"),
            (["Bass", "Drums", "Kazoo"], "there is no track 'Kazoo'"),
        ],
    )
    def test_wrong_tracks_are_named(self, trio: Path, tracks: list[str], message: str, capsys):
        assert message in fails(
            capsys, "tokenize", trio, "--language", "groove", "--tracks", *tracks
        )

    @pytest.mark.parametrize("content", [b"", b"MThd", b"ID3 a song", b"<html>"])
    def test_what_is_no_midi_file_is_named(self, content: bytes, tmp_path: Path, capsys):
        (tmp_path / "bad.mid").write_bytes(content)
        assert "bad.mid" in fails(capsys, "tokenize", tmp_path / "bad.mid")

    def test_a_missing_file_is_named(self, tmp_path: Path, capsys):
        assert "nowhere.mid" in fails(capsys, "tokenize", tmp_path / "nowhere.mid")


class TestDetokenize:
    @pytest.mark.parametrize("options", [[], ["--json"]])
    @pytest.mark.parametrize(("name", "spoken"), [("song", "remi"), ("trio", "groove")])
    def test_tokens_come_back_as_the_notes_they_say(
        self, name: str, spoken: str, options: list[str], tmp_path: Path, request, capsys
    ):
        source = request.getfixturevalue(name)
        (tmp_path / "tokens").write_text(tokenized(capsys, source, "--language", spoken, *options))
        assert (
            main(
                [
                    "detokenize",
                    str(tmp_path / "tokens"),
                    "-o",
                    str(tmp_path / "again.mid"),
                    "--json",
                ]
            )
            == 0
        )
        out, err = capsys.readouterr()
        told = json.loads(out)
        assert ("tempo are not among these tokens" in err) == (spoken == "groove" and not options)
        again = read_midi(tmp_path / "again.mid")
        speaker = language(spoken)
        expected = quantised(speaker, speaker.arrange(read_midi(source)))
        assert told == {
            **{"midi": str(tmp_path / "again.mid"), "language": spoken},
            **{"notes": len(expected.notes), "bars": 4},
        }
        factor = again.ticks_per_beat // expected.ticks_per_beat
        assert again.notes.onset_ticks.tolist() == (expected.notes.onset_ticks * factor).tolist()
        assert sorted(again.notes.pitch.tolist()) == sorted(expected.notes.pitch.tolist())
        if options and spoken == "groove":
            assert [track.program for track in again.tracks] == [
                track.program for track in expected.tracks
            ]

    def test_a_part_of_a_piece_will_do(self, song: Path, tmp_path: Path, capsys, monkeypatch):
        part = "\n".join(tokenized(capsys, song).splitlines()[:3])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(part.encode())))
        assert main(["detokenize", "-", "-o", str(tmp_path / "part.mid")]) == 0
        assert capsys.readouterr().out == f"{tmp_path / 'part.mid'}: 16 notes in 2 bars\n"

    def test_a_file_is_replaced_only_on_request(self, song: Path, tmp_path: Path, capsys):
        (tmp_path / "tokens").write_text(tokenized(capsys, song))
        target = tmp_path / "mine.mid"
        target.write_text("mine")
        assert "mine.mid exists" in fails(capsys, "detokenize", tmp_path / "tokens", "-o", target)
        assert target.read_text() == "mine"
        assert main(["detokenize", str(tmp_path / "tokens"), "-o", str(target), "--force"]) == 0
        assert len(read_midi(target).notes) == 32

    def test_what_is_written_goes_by_the_ending_of_its_name(
        self, song: Path, tmp_path: Path, capsys
    ):
        tokens = tmp_path / "tokens"
        tokens.write_text(tokenized(capsys, song))
        for name in ("a.musicxml", "a.mid", "without an ending"):
            assert main(["detokenize", str(tokens), "-o", str(tmp_path / name)]) == 0
            assert (tmp_path / name).read_bytes()[:4] == (b"<?xm" if "xml" in name else b"MThd")
            assert len(read_file(tmp_path / name).notes) == 32
        capsys.readouterr()
        assert "a.json ends in none of" in fails(
            capsys, "detokenize", tokens, "-o", tmp_path / "a.json"
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "tokens holds no tokens"),
            (
                "one two",
                "holds no tokens of the languages remi, remi-2, groove, groove-2 and ensemble",
            ),
            (
                "begin\nbar subbeat_0 pitch_999",
                "token 3 in line 2 of .*tokens is 'pitch_999', which is not a token",
            ),
            (
                "begin\nbar subbeat_0 pitch_60 bar",
                "token 4 in line 2 of .*tokens is wrong: volume must follow",
            ),
            ("begin note_off_0_60", "token 2 in line 1 of .*tokens is wrong: "),
            ("begin bar bar", "make no note"),
            ("{", "starts like JSON, but is not"),
            ('{"a": 1}', 'has no list "tokens"'),
            ('{"tokens": [], "ids": []}', "holds no tokens"),
            (
                '{"tokens": ["begin", "bar", "x"]}',
                r"tokens\[2\] of .*tokens is 'x', which is not a token of the language remi",
            ),
            ('{"tokens": ["begin"], "language": "abc"}', "there is no language 'abc'"),
            (
                '{"tokens": ["begin", "note_on_0_40"], "setting": {"programs": 1}}',
                "setting in .* needs programs",
            ),
            ('{"tokens": ["begin"], "language": ["remi"]}', "there is no language"),
            ('{"tokens":' * 100_000, "starts like JSON, but is not"),
            (
                '{"tokens": ["begin", "note_on_0_40"], "setting": {"programs": [Infinity, 0, 0], '
                '"velocities": [90, 90, 90], "beats_per_minute": 120}}',
                r"setting in .* needs programs \(0 to 127\)",
            ),
            (
                '{"tokens": ["begin", "note_on_0_40"], "setting": {"programs": [0, 0, 0], '
                '"velocities": [90, 90, 90], "beats_per_minute": 0}}',
                "setting in .* beats_per_minute above 0",
            ),
            ("\xff\xfe", "is not text"),
        ],
    )
    def test_a_fault_is_named_with_its_place(self, text: str, message: str, tmp_path: Path, capsys):
        (tmp_path / "tokens").write_bytes(text.encode("latin1"))
        assert main(["detokenize", str(tmp_path / "tokens"), "-o", str(tmp_path / "out.mid")]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        with pytest.raises(ValueError, match=message):
            raise ValueError(err)
        assert not (tmp_path / "out.mid").exists()

    def test_only_files_are_read_and_replaced(self, song: Path, tmp_path: Path, capsys):
        tokens, target = tmp_path / "tokens", tmp_path / "out.mid"
        tokens.write_text(tokenized(capsys, song))
        assert "is a folder" in fails(capsys, "detokenize", tmp_path, "-o", target)
        for path in (tmp_path, "/dev/null"):
            message = fails(capsys, "detokenize", tokens, "-o", path, "--force")
            assert f"{path} is a folder or a device" in message
        assert ". is a folder or a device: give a MIDI" in fails(capsys, "tokenize", ".")

    def test_tokens_without_end_are_not_read(self, tmp_path: Path, capsys, monkeypatch):
        monkeypatch.setattr("app.commands.detokenize.MOST_BYTES", 10)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"begin bar " * 9)))
        assert "the standard input has more than" in fails(
            capsys, "detokenize", "-", "-o", tmp_path / "out.mid"
        )

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("bar " * 300, "more than 200 tokens"),
            ('{"tokens": [' + '"bar", ' * 300 + '"bar"]}', "more than 200 tokens"),
            ('{"tokens": [' + "[], " * 300 + "[]]}", "it holds more"),
            ('{"tokens": [' + "1," * 1000 + "1]}", "it holds more"),
        ],
    )
    def test_more_tokens_than_a_piece_has_are_not_looked_at(
        self, text: str, said: str, tmp_path: Path, capsys, monkeypatch
    ):
        monkeypatch.setattr("app.token_text.MOST_TOKENS", 200)
        monkeypatch.setattr("app.token_text.MOST_BRACKETS", 20)
        (tmp_path / "tokens").write_text(text)
        assert said in fails(capsys, "detokenize", tmp_path / "tokens", "-o", tmp_path / "out.mid")

    def test_tokens_of_another_language_are_refused(self, song: Path, tmp_path: Path, capsys):
        (tmp_path / "tokens").write_text(tokenized(capsys, song))
        arguments = (
            "detokenize",
            tmp_path / "tokens",
            "-o",
            tmp_path / "out.mid",
            "--language",
            "groove",
        )
        assert "token 1 in line 2" in fails(capsys, *arguments)

    def test_a_missing_file_and_a_missing_folder_are_named(
        self, song: Path, tmp_path: Path, capsys
    ):
        assert "nowhere" in fails(
            capsys, "detokenize", tmp_path / "nowhere", "-o", tmp_path / "out.mid"
        )
        (tmp_path / "tokens").write_text(tokenized(capsys, song))
        assert "deep" in fails(
            capsys, "detokenize", tmp_path / "tokens", "-o", tmp_path / "deep" / "out.mid"
        )
