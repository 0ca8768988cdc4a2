"""Commands that write into one folder keep each other's files, also where `Song` and `song` are one name."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.commands import detokenize, making_music
from app.commands.making_music import first_free
from tests.names import on_disk

SEED_FILE = Path(__file__).parent.parent / "seeds" / "pop909_001.mid"
TINY = ["--model", "untrained:tiny", "--tokens", "40"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_two_commands_that_find_one_number_free_write_under_two(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(making_music, "first_free", lambda *_: 0)  # as both find it at one moment
    generate = ["generate", *TINY, "--score", "-o", str(tmp_path)]
    assert main([*generate, "--seed", "1"]) == 0
    before = contents(tmp_path)
    assert main([*generate, "--seed", "2", "--variations", "2"]) == 0
    assert contents(tmp_path).items() >= before.items()
    assert {path.stem for path in tmp_path.iterdir()} == {
        f"untrained-tiny.cont_{number}" for number in range(3)
    }
    said = capsys.readouterr().out.splitlines()
    assert said == [str(tmp_path / f"untrained-tiny.cont_{number}.mid") for number in range(3)]


@pytest.mark.parametrize("name", ["x" * 251, on_disk("é" * 125), "\udcff" * 251])
def test_a_file_with_the_longest_name_goes_on(name: str, tmp_path: Path):
    song, out = tmp_path / f"{name}.mid", tmp_path / "out"
    shutil.copy(SEED_FILE, song)
    assert (
        main(["continue", str(song), *TINY, "--prompt-bars", "1", "--score", "-o", str(out)]) == 0
    )
    assert len([*out.iterdir()]) == 5
    assert all(path.name.startswith(name[:90]) for path in out.iterdir())


@pytest.mark.parametrize(
    ("there", "number"),
    [
        ("Song.cont_4.mid", 5),
        ("SONG.Prompt_Cont_2.MID", 3),
        ("song.cont_1" + "0" * 200 + ".mid", 0),  # nobody has counted so far
        ("other.cont_4.mid", 0),
    ],
)
def test_names_that_are_one_to_some_system_share_their_numbers(
    there: str, number: int, tmp_path: Path
):
    (tmp_path / there).touch()
    assert first_free(tmp_path, ("song.cont_", "song.prompt_cont_")) == number


def test_both_spellings_of_a_letter_are_one_name(tmp_path: Path):
    (tmp_path / on_disk("cafe\u0301.cont_0.mid")).touch()
    assert first_free(tmp_path, (on_disk("caf\u00e9.cont_"),)) == 1


def test_tokens_replace_no_file_that_came_while_they_were_read(tmp_path, capsys, monkeypatch):
    text, target = tmp_path / "song.txt", tmp_path / "song.mid"
    assert main(["tokenize", str(SEED_FILE)]) == 0
    text.write_text(capsys.readouterr().out)
    words, read = ["detokenize", str(text), "-o", str(target)], detokenize.read_given

    def meanwhile(*asked: Any) -> tuple[bytes, str]:
        target.write_bytes(b"another's")
        return read(*asked)

    monkeypatch.setattr(detokenize, "read_given", meanwhile)
    assert main(words) == 2
    assert capsys.readouterr().err == f"musicgen: {target}: File exists\n"
    assert target.read_bytes() == b"another's"
    assert main([*words, "--force"]) == 0
    assert target.read_bytes()[:4] == b"MThd"
