"""On a full disk, a command ends with an error that names the file, and leaves no partial file."""

import os
import resource
import sys
from pathlib import Path

import pytest

from musicgen.weights import load, save
from tokenization.whole_file import write_whole

GENERATE = ["generate", "--model", "untrained:tiny", "--tokens", "60", "--audio", "-o"]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch):
    """Return a function that limits the size of files, to simulate a full disk."""
    bounds = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # truncated bytecode breaks imports
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # write as much as there is room for
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, bounds[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, bounds)


def test_results_are_written_whole_or_not_at_all(room, command, tmp_path: Path):
    command(*GENERATE, tmp_path / "all")
    (path,) = (tmp_path / "all").glob("*.wav")
    sound = path.read_bytes()
    assert sound[:4] == b"RIFF"
    assert int.from_bytes(sound[4:8], "little") == len(sound) - 8
    for most in (0, 100, 20_000, 196_608):
        folder = tmp_path / str(most)
        room(most)
        said = command(*GENERATE, folder, code=2).err
        assert said.splitlines()[-1].startswith(f"musicgen: {folder}")
        left = [*folder.iterdir()]
        assert not [path for path in left if path.suffix == ".wav" or path.name.startswith(".")]
        assert all(path.stat().st_size for path in left)


def test_an_interrupt_leaves_no_partial_file(model: Path, tmp_path: Path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    path, new = tmp_path / "a.json", tmp_path / "new"
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"after")
    with pytest.raises(KeyboardInterrupt):
        save(new, *load(model))
    assert path.read_bytes() == b"before"
    assert {*tmp_path.iterdir()} == {path, model, new}
    assert not [*new.iterdir()]
