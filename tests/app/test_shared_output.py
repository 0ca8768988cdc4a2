"""Commands that write to the same folder keep each other's files, even if `Song` and `song` are the same name."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.commands import making_music, tokens
from app.commands.making_music import first_free
from tests.training.makers import contents, on_disk

SEED_FILE = Path(__file__).parent.parent / "seeds" / "pop909_001.mid"
TINY = ["--model", "untrained:tiny", "--tokens", "40"]


def test_two_commands_that_find_one_free_number_use_two(command, tmp_path, monkeypatch):
    monkeypatch.setattr(making_music, "first_free", lambda *_: 0)  # as if both looked at once
    generate = ["generate", *TINY, "--score", "-o", tmp_path]
    said = command(*generate, "--seed", 1).out
    before = contents(tmp_path)
    said += command(*generate, "--seed", 2, "--variations", 2).out
    assert contents(tmp_path).items() >= before.items()
    names = [f"idea_{number}" for number in range(3)]
    assert {path.stem for path in tmp_path.iterdir()} == {*names}
    assert said.splitlines() == [str(tmp_path / f"{name}.mid") for name in names]


@pytest.mark.parametrize("name", ["x" * 251, on_disk("é" * 125), "\udcff" * 251])
def test_a_file_with_the_longest_name_is_continued(name: str, command, tmp_path: Path):
    song, out = tmp_path / f"{name}.mid", tmp_path / "out"
    shutil.copy(SEED_FILE, song)
    command("continue", song, *TINY, "--prompt-bars", 1, "--score", "-o", out)
    assert len([*out.iterdir()]) == 5
    assert all(path.name.startswith(name[:90]) for path in out.iterdir())
    [facts] = out.glob("*.json")
    assert json.loads(facts.read_text())["prompt"] == song.name


@pytest.mark.parametrize(
    ("there", "name", "number"),
    [
        ("Song.cont_4.mid", "song", 5),
        ("SONG.Prompt_Cont_2.MID", "song", 3),
        ("song.cont_1" + "0" * 200 + ".mid", "song", 0),  # too long for a number
        ("song0.cont_9.mid", "song", 0),
        (on_disk("song.cont_².mid"), "song", 0),
        (on_disk("cafe\u0301.cont_0.mid"), on_disk("caf\u00e9"), 1),  # é has two spellings
    ],
)
def test_names_that_are_equal_on_some_file_system_share_numbers(there, name, number, tmp_path):
    (tmp_path / there).touch()
    assert first_free(tmp_path, (f"{name}.cont_", f"{name}.prompt_cont_")) == number


def test_detokenize_does_not_replace_a_file_that_appears(command, refused, tmp_path, monkeypatch):
    text, target = tmp_path / "song.txt", tmp_path / "song.mid"
    text.write_text(command("tokenize", SEED_FILE).out)
    words, read = ["detokenize", text, "-o", target], tokens.read_input

    def meanwhile(*asked: Any) -> tuple[bytes, str]:
        target.write_bytes(b"another's")
        return read(*asked)

    monkeypatch.setattr(tokens, "read_input", meanwhile)
    assert refused(*words) == f"musicgen: {target}: File exists"
    assert target.read_bytes() == b"another's"
    command(*words, "--force")
    assert target.read_bytes()[:4] == b"MThd"
