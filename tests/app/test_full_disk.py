"""On a full disk, a command ends with a sentence that names the file, and leaves no part of one."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tokenization.whole_file import beside, write_whole

ROOT = Path(__file__).parent.parent.parent
GENERATE = ["generate", "--model", "untrained:tiny", "--tokens", "60", "--seed", "1"]


def run(folder: Path, words: list[str], limit: int) -> subprocess.CompletedProcess[str]:
    """Run a command that can write files of so many bytes at most, which stands for a disk that is full."""
    return subprocess.run(
        [sys.executable, "-m", "app.cli", *words, "-o", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
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
    words = [sys.executable, "-c", "import sys; from app.audio import render; from app.web.examples import example; "
             "sys.stdout.write(str(len(render(example('trio-jazz')))))"]  # fmt: skip
    ended = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )  # fmt: skip
    assert int(ended.stdout or 0) > 100_000, ended.stderr


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


def test_a_link_stays_one_and_a_name_may_be_as_long_as_names_are(tmp_path: Path):
    real, link = tmp_path / ("x" * 255), tmp_path / "link"
    link.symlink_to(real)
    write_whole(link, b"1")
    assert link.is_symlink()
    assert real.read_bytes() == b"1"
