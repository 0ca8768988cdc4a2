"""On a full disk, a command ends with a sentence that names the file, and leaves no part of one."""

import os
import resource
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from app.options import claim
from app.training_line import training_line
from musicgen.loading import load
from musicgen.storage.checkpoint import Card, save
from tokenization.whole_file import beside, write_whole
from training.loop import Progress

ROOT = Path(__file__).parent.parent.parent
GENERATE = ["generate", "--model", "untrained:tiny", "--tokens", "60", "--seed", "1"]


def run(folder: Path, words: list[str], limit: int) -> subprocess.CompletedProcess[str]:
    """Run a command that can write files of so many bytes at most, which stands for a disk that is full."""
    return subprocess.run(
        [sys.executable, "-m", "app.cli", *words, "-o", str(folder)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )


def whole(path: Path) -> bool:
    """Say whether a sound is as long as its head says."""
    data = path.read_bytes()
    return data[:4] == b"RIFF" and int.from_bytes(data[4:8], "little") == len(data) - 8


@pytest.mark.parametrize("limit", [0, 100, 20_000, 196_608])
def test_a_result_is_whole_or_not_there(limit: int, tmp_path: Path):
    folder = tmp_path / "out"
    ended = run(folder, [*GENERATE, "--audio"], limit)
    assert ended.returncode == 2
    assert ended.stderr.strip().splitlines()[-1].startswith(f"musicgen: {folder}")
    assert "Traceback" not in ended.stderr
    left = [*folder.iterdir()]
    assert not [path for path in left if path.suffix == ".wav" or path.name.startswith(".")]
    assert all(path.stat().st_size for path in left)


def test_unbuffered_streams_make_whole_sounds(tmp_path: Path):
    assert run(tmp_path, [*GENERATE, "--audio"], resource.RLIM_INFINITY).returncode == 0
    (sound,) = tmp_path.glob("*.wav")
    assert whole(sound)


def test_sound_is_made_where_memory_is_limited(tmp_path: Path):
    path = tmp_path / "a.wav"
    words = [sys.executable, "-c", "import sys; from pathlib import Path; from app.audio import render_to; "
             "from app.web.offered_models import example; render_to(Path(sys.argv[1]), example('trio-jazz'))",
             str(path)]  # fmt: skip
    ended = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )  # fmt: skip
    assert path.exists(), ended.stderr
    assert path.stat().st_size > 100_000


@pytest.mark.parametrize(
    "fails", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError()]
)
def test_what_goes_wrong_leaves_the_file_as_it_was(fails: BaseException, tmp_path: Path):
    path = tmp_path / "a.json"
    write_whole(path, b"before")

    def fill(part: Path) -> None:
        part.write_bytes(b"half")
        raise fails

    with pytest.raises(type(fails)) as raised, beside(path) as part:
        fill(part)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
    assert path.read_bytes() == b"before"
    if isinstance(fails, OSError):
        assert raised.value.filename == str(path)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_model_that_the_disk_does_not_take_is_named(tmp_path: Path, monkeypatch):
    model = load("untrained:tiny")
    card = Card(name="x", language=model.language.spec(), trained_length=64)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as raised:
        save(tmp_path, model.performer, card)
    assert raised.value.filename == str(tmp_path / "model.safetensors.new")
    assert not [*tmp_path.iterdir()]


def test_what_a_folder_takes_over_from_another_is_whole(tmp_path: Path, monkeypatch):
    asked = [Namespace(models=["a"]), Namespace(models=["b"]), Namespace(models=["c"])]
    first, second, third = (tmp_path / name for name in ("report", "report-2", "report-3"))
    claim(first, asked[0])
    (first / "kept" / "deep").mkdir(parents=True)
    for name in ("deep/one.json", ".two.part", "three.json"):
        (first / "kept" / name).write_text(name * 1000)
    claim(second, asked[1], "kept")
    taken = {path.relative_to(second).as_posix() for path in second.rglob("*") if path.is_file()}
    assert taken == {".asked.json", "kept/deep/one.json", "kept/three.json"}
    assert (second / "kept" / "three.json").read_text() == "three.json" * 1000
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as raised:
        claim(third, asked[2], "kept")
    assert raised.value.filename == str(third / ".asked.json")
    assert not [path for path in third.rglob("*") if path.is_file()]


def test_a_link_stays_one_and_a_name_may_be_as_long_as_names_are(tmp_path: Path):
    real, link = tmp_path / ("x" * 255), tmp_path / "link"
    link.symlink_to(real)
    write_whole(link, b"1")
    assert link.is_symlink()
    assert real.read_bytes() == b"1"


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
