"""A server's folder goes with it, or at the next start; a folder in use, or of anybody else, stays."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from app.web.server.folder import LOCK, PREFIX, ServerFolder, delete_left_behind


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary folders that no other test shares."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def killed(place: Path) -> Path:
    """Return the folder of a process that was killed while it held it."""
    program = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from app.web.server.folder import ServerFolder\n"
        "kept = ServerFolder(); (kept.path / 'visitor').mkdir()\n"
        "(kept.path / 'visitor' / 'a.wav').write_bytes(b'RIFF')\n"
        "print(kept.path, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(place)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
    ) as child:  # fmt: skip
        assert child.stdout
        folder = Path(child.stdout.readline().decode().strip())
        delete_left_behind()  # it lives, and keeps it
        child.send_signal(signal.SIGKILL)
    assert (folder / "visitor" / "a.wav").exists()
    return folder


def test_what_a_killed_server_leaves_goes_at_the_next_start(place: Path):
    mine, dead = ServerFolder(), killed(place)
    delete_left_behind()
    assert not dead.exists()
    assert mine.path.exists()
    mine.close()
    assert os.listdir(place) == []


def test_a_cut_short_clean_up_is_gone_on_with(place: Path, monkeypatch: pytest.MonkeyPatch):
    dead = killed(place)
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            delete_left_behind()
    assert (dead / LOCK).exists()
    delete_left_behind()
    assert not dead.exists()


def test_folders_of_others_stay(place: Path):
    own = place / f"{PREFIX}mine"  # made by a person, who never locked it
    other = place / "elsewhere"
    for folder in (own, other):
        folder.mkdir()
    (other / LOCK).touch()
    (place / f"{PREFIX}link").symlink_to(other)
    (own / "song.mid").touch()
    linked = place / f"{PREFIX}lock"
    linked.mkdir()
    (linked / LOCK).symlink_to(own / "song.mid")
    delete_left_behind()
    assert (own / "song.mid").exists()
    assert (other / LOCK).exists()
    assert linked.exists()
