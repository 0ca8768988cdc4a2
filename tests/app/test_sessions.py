"""Sessions are few, and go when they are old; sounds do not fill the disk."""

import os
import time

import pytest

import app.session
from app.session import Sessions


@pytest.fixture
def sessions():
    made = Sessions()
    yield made
    made.close()


def test_the_longest_idle_go_when_there_are_too_many(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(app.session, "MOST_SESSIONS", 2)
    first, second = sessions.of("a"), sessions.of("b")
    assert sessions.of("a") is first
    sessions.of("c")
    assert not second.folder.exists()
    assert first.folder.exists()
    assert len(sessions) == 2


def test_the_idle_go(sessions: Sessions, monkeypatch):
    old = sessions.of("a")
    monkeypatch.setattr(app.session, "IDLE_SECONDS", 0.01)
    time.sleep(0.05)
    sessions.of("b")
    assert not old.folder.exists()
    assert old.stop.is_set()


def test_the_oldest_sounds_make_room(sessions: Sessions, monkeypatch):
    monkeypatch.setattr(app.session, "SOUND_BYTES", 250)
    sounds = [sessions.of("a").folder / f"{name}.wav" for name in "xyz"]
    for age, path in enumerate(sounds):
        path.write_bytes(b"0" * 100)
        os.utime(path, (age, age))
    sessions.make_room()
    assert [path.exists() for path in sounds] == [False, True, True]
