"""Sessions are few, and go when they are old; sounds do not fill the disk."""

import os
import shutil
import time

import pytest

import app.web.server.sessions
from app.web.server.names import Refused
from app.web.server.sessions import Sessions, Visitors


@pytest.fixture
def sessions():
    made = Sessions()
    yield made
    made.close()


def test_the_longest_idle_go_when_there_are_too_many(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(app.web.server.sessions, "MOST_SESSIONS", 2)
    monkeypatch.setattr(app.web.server.sessions, "NEW_SECONDS", 0)
    first, second = sessions.admit("a", ""), sessions.admit("b", "")
    assert sessions.admit("a", "") is first
    sessions.admit("c", "")
    assert not second.folder.exists()
    assert first.folder.exists()
    assert len(sessions) == 2


def test_the_idle_go(sessions: Sessions, monkeypatch):
    old = sessions.admit("a", "")
    monkeypatch.setattr(app.web.server.sessions, "IDLE_SECONDS", 0.01)
    time.sleep(0.05)
    sessions.admit("b", "")
    assert not old.folder.exists()


def test_the_oldest_sounds_make_room(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(app.web.server.sessions, "SOUND_BYTES", 250)
    sounds = [sessions.admit("a", "").folder / f"{name}.wav" for name in "xyz"]
    for age, path in enumerate(sounds):
        path.write_bytes(b"0" * 100)
        os.utime(path, (age, age))
    sessions.make_room()
    assert [path.exists() for path in sounds] == [False, True, True]


def test_who_is_there_stays_whoever_comes(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(app.web.server.sessions, "MOST_SESSIONS", 3)
    monkeypatch.setattr(app.web.server.sessions, "NEW_SECONDS", 0)
    monkeypatch.setattr(app.web.server.sessions, "IDLE_SECONDS", 0)
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


def test_a_page_that_closes_late_does_not_count_for_the_next_of_its_name(
    sessions: Sessions, monkeypatch
):
    monkeypatch.setattr(app.web.server.sessions, "IDLE_SECONDS", 0)
    visitors = Visitors(sessions)
    with visitors.stays("page", ""):
        sessions.leave("page")
        again = sessions.admit("page", "")
    assert again.pages == 0
    time.sleep(0.01)
    sessions.admit("other", "")
    assert not again.folder.exists()  # it is idle


def test_one_client_pushes_out_none_but_its_own(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(app.web.server.sessions, "MOST_OF_ONE", 5)
    monkeypatch.setattr(app.web.server.sessions, "NEW_SECONDS", 0)
    other = sessions.admit("other", "10.0.0.2")
    for number in range(50):
        sessions.admit(f"stranger {number}", "10.0.0.1")
    assert len(sessions) == 6
    assert sessions.admit("other", "10.0.0.2") is other


def test_an_answer_to_a_program_makes_no_session(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(app.web.server.sessions, "MOST_ANSWERS", 4)
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
