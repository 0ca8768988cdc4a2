import json
from pathlib import Path

import pytest

from app.cli import main
from tests.training.data.sources import on_disk as disk
from tokenization.prepared import TOKENS_FILE, Prepared


def prepare(*arguments: object) -> int:
    return main(["data", *map(str, arguments), "--workers", "0"])


def fails(capsys: pytest.CaptureFixture[str], code: int) -> str:
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("musicgen: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("pop909", disk.pop909),
        ("pop-piano", disk.pop_piano_midi),
        ("groove", disk.groove),
        ("midi", disk.midi_folder),
    ],
)
def test_each_kind_is_prepared_and_can_be_inspected(kind: str, make, tmp_path: Path, capsys):
    make(tmp_path / "source")
    assert prepare(kind, tmp_path / "source", tmp_path / "set", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    prepared = Prepared.open(tmp_path / "set")
    assert told["tokens"] == len(prepared.tokens)
    assert told["counts"] == prepared.meta["counts"]
    assert main(["data", "inspect", str(tmp_path / "set"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == told["counts"]
    assert found["source"]["name"] == kind


def test_what_is_told_to_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = disk.midi_folder(tmp_path / "source", 20)
    (source / "bad.mid").touch()
    assert prepare("midi", source, tmp_path / "set", "--validation", "0.2") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].endswith(
        f"{len(Prepared.open(tmp_path / 'set').tokens):,} tokens of remi-2"
    )
    assert out.splitlines()[1].split() == ["split", "files", "pieces", "tokens", "bars", "notes"]
    assert "Skipped 1:\n  bad.mid: it is empty (0 bytes)" in err
    assert main(["data", "inspect", str(tmp_path / "set")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for part in (
        "is right",
        "median",
        "family",
        "Skipped 1:",
        "begins:\nbegin\nbar subbeat_0 tempo_101",
    ):
        assert part in out


def test_many_skipped_files_are_not_all_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = disk.midi_folder(tmp_path / "source", 1)
    for number in range(15):
        (source / f"bad{number}.mid").touch()
    assert prepare("midi", source, tmp_path / "set", "--validation", "0") == 0
    err = capsys.readouterr().err
    assert "Skipped 15:" in err
    assert "… and 5 more, which meta.json lists" in err
    assert "No piece is held out for validation" in err


def test_nothing_is_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    disk.midi_folder(tmp_path / "source")
    assert prepare("midi", tmp_path / "source", tmp_path / "set") == 0
    capsys.readouterr()
    before = (tmp_path / "set" / TOKENS_FILE).read_bytes()
    assert "with --force" in fails(capsys, prepare("midi", tmp_path / "source", tmp_path / "set"))
    arguments = ("midi", tmp_path / "source", tmp_path / "set", "--language", "groove")
    assert "with --force" in fails(capsys, prepare(*arguments))
    assert (tmp_path / "set" / TOKENS_FILE).read_bytes() == before
    assert prepare(*arguments, "--force") == 0
    assert Prepared.open(tmp_path / "set").meta["language"]["language"] == "groove"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["midi", "{tmp}/nowhere", "{tmp}/set"], "no folder or archive"),
        (
            ["pop909", "{tmp}/source", "{tmp}/set"],
            "it looks like a folder of MIDI, MusicXML or ABC files, which `musicgen data midi`",
        ),
        (["midi", "{tmp}/source", "{tmp}/source"], "holds no prepared data set"),
        (
            ["midi", "{tmp}/source", "{tmp}/set", "--validation", "1"],
            "1 is held out; 0 to 0.45 can be",
        ),
        (["midi", "{tmp}/source", "{tmp}/source/song0.mid"], "is a file; give a folder"),
        (
            ["midi", "{tmp}/source/song0.mid", "{tmp}/set"],
            "neither a folder nor a tar or zip archive",
        ),
        (
            ["pop909", "{tmp}/source", "{tmp}/set", "--language", "groove"],
            "invalid choice: 'groove'",
        ),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path, capsys):
    disk.midi_folder(tmp_path / "source")
    assert message in fails(
        capsys, prepare(*(argument.format(tmp=tmp_path) for argument in arguments))
    )
    assert not (tmp_path / "set").exists()


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, capsys):
    disk.midi_folder(tmp_path / "source")
    (tmp_path / "file").touch()
    message = fails(capsys, prepare("midi", tmp_path / "source", tmp_path / "file" / "set"))
    assert "file" in message


@pytest.mark.parametrize(
    ("folder", "says"),
    [("nowhere", "there is no prepared data set"), (".", "is not a prepared data set: it has no")],
)
def test_only_prepared_sets_are_inspected(folder: str, says: str, tmp_path: Path, capsys):
    assert says in fails(capsys, main(["data", "inspect", str(tmp_path / folder)]))


def test_a_damaged_set_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    disk.midi_folder(tmp_path / "source")
    assert prepare("midi", tmp_path / "source", tmp_path / "set") == 0
    capsys.readouterr()
    tokens = tmp_path / "set" / TOKENS_FILE
    data = bytearray(tokens.read_bytes())
    data[10] ^= 1
    tokens.write_bytes(data)
    assert "is damaged" in fails(capsys, main(["data", "inspect", str(tmp_path / "set")]))
