"""Thousands of damaged files; and the fuzzer itself finds what it is there to find."""

import json
import os
import signal
from collections import Counter
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

from musicgen.common.workers import process
from tests.tools.fuzz.examine import LANGUAGES, examine
from tests.tools.fuzz.mutants import mutant, seed_files
from tests.tools.fuzz.run import (
    LOOK_SECONDS,
    MEMORY_BYTES,
    READ,
    STUCK_SECONDS,
    fuzz,
    listen,
    main,
)
from tests.tools.fuzz.tally import Tally
from tokenization.language import language


def test_damaged_files_are_read_or_refused():
    files, languages = seed_files(), [language(name) for name in LANGUAGES]
    found = Counter(examine(mutant(files, 1, number), languages)[:4] for number in range(150))
    assert {READ, "refu"} == found.keys()
    assert found[READ] > 15


@pytest.mark.long
def test_thousands_of_damaged_files_are_read_or_refused(tmp_path: Path, capsys):
    """In a process whose memory is limited; a minute each is an endless loop, on any machine."""
    limits = ["--mutants", "2000", "--limit", "60", "--seconds", "3600"]
    code = main([*limits, "--processes", "1", "--keep", str(tmp_path)])
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.startswith("2,000 mutants in ")
    assert " 0 failures" in said


def crash(_: bytes, __: object) -> str:
    os.kill(os.getpid(), signal.SIGSEGV)
    return "survived"


def hang(_: bytes, __: object) -> str:
    while True:
        pass


def hoard(_: bytes, __: object) -> str:
    return str(len(bytearray(2 * MEMORY_BYTES)))


def stumble(data: bytes, _: object) -> str:
    return str({}[data])


@pytest.mark.long
@pytest.mark.parametrize(
    ("examiner", "find"),
    [
        (crash, "died with exit code -11"),
        (hang, "more than 2.0 s in hang"),
        (hoard, "MemoryError in test_fuzz.py"),
        (stumble, "KeyError in test_fuzz.py"),
    ],
)
def test_what_must_not_happen_is_found(examiner, find: str, tmp_path: Path):
    tally = fuzz(seconds=600, mutants=2, seed=7, processes=2, keep=tmp_path, examiner=examiner)
    assert sorted(number for number, _ in tally.failures) == [0, 1]
    assert all(find in what for _, what in tally.failures)
    kept = [(tmp_path / f"7-{number}.mid").read_bytes() for number in (0, 1)]
    assert kept == [mutant(seed_files(), 7, number) for number in (0, 1)]


def name(data: bytes, _: object) -> str:
    return sha256(data).hexdigest()


@pytest.mark.long
def test_a_later_run_adds_to_the_counts_of_the_one_before(tmp_path: Path):
    file, asked = tmp_path / "counts.json", {"seconds": 600, "keep": tmp_path}
    for mutants, processes, total in ((3, 1, 3), (4, 2, 7)):
        fuzz(mutants=mutants, seed=7, processes=processes, counts=file, examiner=name, **asked)
        kept = json.loads(file.read_text())
        assert (sum(kept["outcomes"].values()), kept["next_number"]) == (total, total)
    examined = {sha256(mutant(seed_files(), 7, number)).hexdigest() for number in range(7)}
    assert kept["outcomes"].keys() == examined
    with pytest.raises(ValueError, match="another seed"):
        fuzz(mutants=1, seed=8, processes=1, counts=file, **asked)


class Pipe:
    """From a process of which nothing is heard for as many seconds as said, and then its end."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def poll(self, seconds: float = 0.0) -> bool:
        self.left -= seconds
        return self.left <= 0

    def recv(self) -> None:
        raise EOFError


@pytest.mark.parametrize(("share", "is_stuck"), [(0.01, False), (1.0, True), (0.0, True)])
def test_a_process_is_stuck_by_its_own_time_not_by_that_of_a_busy_machine(
    share: float, is_stuck: bool, monkeypatch: pytest.MonkeyPatch
):
    wall, processor = count(0.0, LOOK_SECONDS), count(0.0, share * LOOK_SECONDS)
    monkeypatch.setattr(process.time, "monotonic", lambda: next(wall))
    monkeypatch.setattr(process, "processor_seconds", lambda _: next(processor))
    assert listen(Pipe(10 * STUCK_SECONDS), Tally(), 1) == (None, is_stuck)
