"""Failures in reading a file give one sentence and do not affect other visitors."""

import os
import threading
import time
from pathlib import Path

import pytest

from app.web.composing import readers as module
from app.web.composing.readers import MOST_READERS, SPARED, Readers
from tokenization.limits import MusicFileError
from tokenization.workers import Bounds

SOMEBODY = "somebody"


def spins() -> None:
    while True:
        pass


def hoards() -> bytes:
    return bytes(2 << 30)


def dies() -> None:
    os._exit(7)


def refuses() -> None:
    raise ValueError("“a.abc” holds no notes")


def stumbles() -> None:
    raise KeyError("note")


def holds(begun: Path, until: Path) -> int:
    """Write the process id to a file, and run until another file exists."""
    begun.write_text(str(os.getpid()))
    while not until.exists():
        time.sleep(0.01)
    return os.getpid()


@pytest.fixture(scope="module")
def readers() -> Readers:
    return Readers()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (spins, "cannot be read: it takes longer than 0.5 seconds; use an excerpt"),
        (hoards, "cannot be read: it takes more memory than is available; use an excerpt"),
        (dies, r"cannot be read: it ended the process twice \(exit code 7\)"),
        (refuses, "holds no notes$"),
    ],
)
def test_unreadable_files_give_one_sentence(function, said: str, monkeypatch):
    monkeypatch.setattr(module, "BOUNDS", Bounds(seconds=0.5, memory_bytes=1 << 30))
    readers = Readers()
    with pytest.raises(MusicFileError, match=f"^“a.abc” {said}"):
        readers.ask(SOMEBODY, "“a.abc”", function)
    assert readers.ask(SOMEBODY, "“a.abc”", abs, -1) == 1


def test_a_fault_of_the_server_is_not_blamed_on_the_file(readers: Readers):
    with pytest.raises(RuntimeError, match="KeyError"):
        readers.ask(SOMEBODY, "“a.abc”", stumbles)


def test_one_visitor_cannot_occupy_all_readers(readers: Readers, tmp_path: Path):
    until, most = tmp_path / "until", MOST_READERS - SPARED
    found: list[int] = []

    def wait_for(place: int) -> None:
        found.append(readers.ask(SOMEBODY, "", holds, tmp_path / str(place), until))

    slow = [threading.Thread(target=wait_for, args=(place,)) for place in range(most + 1)]
    for thread in slow:
        thread.start()
    while len(list(tmp_path.iterdir())) < most:
        time.sleep(0.01)
    assert readers.ask("another", "", abs, -1) == 1
    assert len(list(tmp_path.iterdir())) == most
    until.touch()
    for thread in slow:
        thread.join()
    assert len(found) == most + 1


def test_whoever_has_sound_rendered_reads_afterwards(readers: Readers):
    with readers.place(SOMEBODY):
        reading = threading.Thread(target=readers.ask, args=(SOMEBODY, "", abs, -1))
        reading.start()
        assert readers.ask("another", "", abs, -1) == 1
        assert reading.is_alive()
    reading.join()
