"""On a full disk, a command ends with a sentence that names the file, and leaves no part of one."""

import os
import resource
import subprocess
import sys
import threading
from argparse import Namespace
from pathlib import Path

import pytest

from app.audio import default_soundfont
from app.commands.train import training_line
from app.options import claim
from app.web.offered_models import example
from musicgen.storage.checkpoint import load, save
from tokenization.whole_file import write_whole
from training.disk import full_disk_named
from training.loop import Progress

ROOT = Path(__file__).parent.parent.parent
GENERATE = ["generate", "--model", "untrained:tiny", "--tokens", "60", "--audio", "-o"]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch):
    """Return a function that bounds the bytes of a file, which stands for a disk that is full."""
    bounds = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # which would be cut off, and tripped over
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # a stream that takes what there is room for
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, bounds[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, bounds)


def test_a_result_is_whole_or_not_there(room, command, tmp_path: Path):
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


def test_sound_is_made_where_memory_is_limited():
    words = [sys.executable, "-m", "app.audio", str(default_soundfont()), str(3 << 30)]
    ended = subprocess.run(
        words, cwd=ROOT, input=example("trio-jazz"), capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )  # fmt: skip
    assert len(ended.stdout) > 100_000, ended.stderr


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("fails", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_goes_wrong_leaves_no_part_of_a_file(fails, model: Path, tmp_path: Path, monkeypatch):
    def fail(*_: object) -> None:
        raise fails

    monkeypatch.setattr(os, "fsync", fail)
    path, new = tmp_path / "a.json", tmp_path / "new"
    path.write_bytes(b"before")
    with pytest.raises(type(fails)) as of_file:
        write_whole(path, b"after")
    with pytest.raises(type(fails)) as of_model:
        save(new, *load(model))
    assert path.read_bytes() == b"before"
    assert {*tmp_path.iterdir()} == {path, model, new}
    assert not [*new.iterdir()]
    if isinstance(fails, OSError):
        assert of_file.value.filename == str(path)
        assert of_model.value.filename == str(new / "model.safetensors.new")


def test_what_a_folder_takes_over_from_another_is_whole(tmp_path: Path, monkeypatch):
    first, second, third = (tmp_path / name for name in ("report", "report-2", "report-3"))
    claim(first, Namespace(models=["a"]))
    (first / "kept" / "deep").mkdir(parents=True)
    for name in ("deep/one.json", ".two.part", "three.json"):
        (first / "kept" / name).write_text(name * 1000)
    claim(second, Namespace(models=["b"]), "kept")
    taken = {path.relative_to(second).as_posix() for path in second.rglob("*") if path.is_file()}
    assert taken == {".asked.json", "kept/deep/one.json", "kept/three.json"}
    assert (second / "kept" / "three.json").read_text() == "three.json" * 1000
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as raised:
        claim(third, Namespace(models=["c"]), "kept")
    assert raised.value.filename == str(third / ".asked.json")
    assert not [path for path in third.rglob("*") if path.is_file()]


def test_a_thread_that_meets_the_full_disk_too_adds_nothing(monkeypatch):
    """TensorBoard writes in one."""
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    thread = threading.Timer(0.1, full)

    def write() -> None:
        with full_disk_named(Path("here"), "wait"):
            thread.start()
            full()

    with pytest.raises(OSError, match="the disk of here is full; free some space, or wait"):
        write()
    thread.join()
    assert said == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is full")
def test_a_training_goes_on_where_what_it_says_has_no_place(monkeypatch):
    with open("/dev/full", "w", buffering=1) as log:  # by lines, as the standard error is
        monkeypatch.setattr(sys, "stderr", log)
        with training_line(lambda model, step: []) as line:
            for step in (1, 2):
                line.progress(
                    Progress(step=step, steps=step, loss=1, tokens_per_second=1, validation=None)
                )
        monkeypatch.undo()
