import json
from pathlib import Path

import pytest

from tests.training.data.sources import on_disk as disk
from tokenization.prepared import TOKENS_FILE, Prepared

ALONE = ("--workers", 1)


def test_text_output_for_people(tmp_path: Path, command):
    source = disk.midi_folder(tmp_path / "source", 20)
    for number in range(15):
        (source / f"bad{number}.mid").touch()
    prepare = ["data", "midi", source, tmp_path / "set", *ALONE]
    out, err = command(*prepare, "--validation", 0.2)
    total = len(Prepared.open(tmp_path / "set").tokens)
    assert f"{total:,} tokens of ensemble" in out
    assert ["split", "files", "pieces", "tokens", "bars", "notes"] in map(
        str.split, out.splitlines()
    )
    assert "Skipped 15:\n  bad0.mid: it is empty (0 bytes)" in out
    assert "… and 5 more, which meta.json lists" in out
    assert out.count("it is empty (0 bytes)") == 10
    assert "No piece is held out for validation" not in err
    assert command("data", "inspect", tmp_path / "set") == (out, "")
    assert "verified" in out
    err = command(*prepare, "--validation", 0, "--force").err
    assert "No piece is held out for validation" in err


def test_inspect_force_and_damage(tmp_path, command, refused):
    disk.midi_folder(tmp_path / "source")
    prepare = ["data", "midi", tmp_path / "source", tmp_path / "set", *ALONE]
    told = json.loads(command(*prepare, "--json").out)
    found = json.loads(command("data", "inspect", tmp_path / "set", "--json").out)
    assert told["tokens"] == len(Prepared.open(tmp_path / "set").tokens)
    assert (found["counts"], found["source"]) == (told["counts"], told["source"])
    tokens = tmp_path / "set" / TOKENS_FILE
    before = tokens.read_bytes()
    assert "with --force" in refused(*prepare)
    assert "with --force" in refused(*prepare, "--language", "groove")
    assert tokens.read_bytes() == before
    command(*prepare, "--language", "groove", "--force")
    assert Prepared.open(tmp_path / "set").meta["language"]["language"] == "groove"
    data = bytearray(tokens.read_bytes())
    data[10] ^= 1
    tokens.write_bytes(data)
    assert "is damaged" in refused("data", "inspect", tmp_path / "set")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("midi nowhere set", "no folder or archive"),
        ("midi source source/song0.mid/set", "song0.mid"),
        ("midi source set --workers 0", "--workers is 0; it must be 1 or more"),
        ("pop909 source set --language groove", "invalid choice: 'groove'"),
    ],
)
def test_bad_input_is_one_line(words: str, message: str, tmp_path: Path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    disk.midi_folder(Path("source"))
    assert message in refused("data", *words.split())
    assert not Path("set").exists()
