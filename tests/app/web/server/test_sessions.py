"""Sessions are few, and go when they are old; sounds do not fill the disk; folders of killed servers go."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from app.web.server import sessions as module
from app.web.server.names import Refused
from app.web.server.process import LOCK, PREFIX, ServerFolder, delete_left_behind
from app.web.server.sessions import Sessions, Visitors


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "NEW_SECONDS", 0)
    made = Sessions()
    yield made
    made.close()


def test_the_longest_idle_go_when_there_are_too_many(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(module, "MOST_SESSIONS", 2)
    first, second = sessions.admit("a", ""), sessions.admit("b", "")
    assert sessions.admit("a", "") is first
    sessions.admit("c", "")
    assert not second.folder.exists()
    assert first.folder.exists()
    assert len(sessions) == 2
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    time.sleep(0.05)
    sessions.admit("b", "")
    assert not first.folder.exists()
    assert len(sessions) == 1


def test_the_oldest_sounds_and_scores_make_room(sessions: Sessions, monkeypatch):
    folder = sessions.admit("a", "").folder
    sounds = [folder / name for name in ("x.wav", "y.musicxml", "z.wav")]
    for age, path in enumerate(sounds):
        path.write_bytes(b"0" * 100)
        os.utime(path, (age, age))
    for most, left in ((300, 3), (299, 2), (200, 2), (0, 1)):  # the newest is being given out
        monkeypatch.setattr(module, "SOUND_BYTES", most)
        sessions.make_room()
        assert [path.exists() for path in sounds] == [False] * (3 - left) + [True] * left


def test_who_is_there_stays_whoever_comes(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(module, "MOST_SESSIONS", 3)
    monkeypatch.setattr(module, "IDLE_SECONDS", 0)
    shown = sessions.admit("page", "")
    sessions.came(shown)
    for number in range(20):
        sessions.admit(f"stranger {number}", "10.0.0.1")
    assert sessions.admit("page", "") is shown
    for name in ("two", "three"):
        sessions.came(sessions.admit(name, "10.0.0.2"))
    with pytest.raises(Refused, match="as many are here as there is room for"):
        sessions.admit("four", "10.0.0.3")
    sessions.went(shown)
    sessions.admit("four", "10.0.0.3")
    assert not shown.folder.exists()


def test_a_page_that_has_just_been_opened_is_nobody_idle(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(module, "NEW_SECONDS", 30)
    monkeypatch.setattr(module, "MOST_SESSIONS", 1)
    sessions.admit("page", "")
    with pytest.raises(Refused):
        sessions.admit("other", "")


def test_a_page_that_closes_late_does_not_count_for_the_next_of_its_name(sessions, monkeypatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0)
    with Visitors(sessions).stays("page", ""):
        sessions.leave("page")
        again = sessions.admit("page", "")
    assert again.pages == 0
    time.sleep(0.01)
    sessions.admit("other", "")
    assert not again.folder.exists()  # it is idle


def test_one_client_pushes_out_none_but_its_own(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_ONE", 5)
    other = sessions.admit("other", "10.0.0.2")
    for number in range(50):
        sessions.admit(f"stranger {number}", "10.0.0.1")
    assert len(sessions) == 6
    assert sessions.admit("other", "10.0.0.2") is other


def test_an_answer_to_a_program_makes_no_session(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(module, "MOST_ANSWERS", 4)
    folders = [sessions.folder_for_answer(f"call {number}") for number in range(10)]
    assert len(sessions) == 0
    assert sum(folder.exists() for folder in folders) == 4
    own = sessions.admit("program", "")
    assert sessions.folder_for_answer("program").parent == own.folder


def test_a_folder_that_the_system_swept_away_is_made_anew(sessions: Sessions):
    for name in ("page", "nobody"):
        sessions.admit("page", "")
        shutil.rmtree(sessions.folder)
        assert sessions.folder_for_answer(name).is_dir()
        shutil.rmtree(sessions.folder)
        assert sessions.admit(f"after {name}", "").folder.is_dir()
        assert sessions.folder.stat().st_mode & 0o077 == 0


def test_a_reader_is_gone_when_nobody_has_read_for_a_while(sessions: Sessions, monkeypatch):
    visitors, begun = Visitors(sessions), time.monotonic()
    assert not visitors.is_gone("page", begun)  # it has only just asked
    monkeypatch.setattr(module, "GONE_SECONDS", 0)
    with visitors.reads("page"), visitors.reads("page"):
        assert visitors.is_read("page")
        assert not visitors.is_gone("page", begun)
    assert not visitors.is_read("page")
    assert visitors.is_gone("page", begun)
    monkeypatch.setattr(module, "GONE_SECONDS", 20)
    assert not visitors.is_gone("page", begun - 100)  # somebody has read since
    visitors.forget_readers([])
    assert visitors.is_gone("page", begun - 100)


# The folders of servers.


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary folders that no other test shares."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def killed(place: Path) -> Path:
    """Return the folder of a process that was killed while it held it."""
    program = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from app.web.server.process import ServerFolder\n"
        "kept = ServerFolder(); (kept.path / 'visitor').mkdir()\n"
        "(kept.path / 'visitor' / 'a.wav').write_bytes(b'RIFF')\n"
        "print(kept.path, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        folder = Path(child.stdout.readline().decode().strip())
        delete_left_behind()  # it lives, and keeps it
        child.send_signal(signal.SIGKILL)
    assert (folder / "visitor" / "a.wav").exists()
    return folder


def test_what_a_killed_server_leaves_goes_at_the_next_start(place: Path, monkeypatch):
    mine, dead = ServerFolder(), killed(place)
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            delete_left_behind()
    assert (dead / LOCK).exists()  # cut short, it is gone on with
    delete_left_behind()
    assert not dead.exists()
    assert mine.path.exists()
    mine.close()
    assert os.listdir(place) == []


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
