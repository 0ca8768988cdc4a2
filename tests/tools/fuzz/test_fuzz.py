"""The fuzzer on thousands of damaged files, and its detection of failures."""

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.tools.fuzz.examine import LANGUAGES, examine
from tests.tools.fuzz.mutants import FORMATS, format_of, mutant, seed_files
from tests.tools.fuzz.run import HANG_SECONDS, READ, fuzz, main
from tokenization.language import language


def test_damaged_files_are_read_or_refused():
    files, languages = seed_files(), [language(name) for name in LANGUAGES]
    found = Counter()
    for number in range(200):
        suffix = format_of(number)
        found[suffix, examine(mutant(files, 1, number), suffix, languages)[:4]] += 1
    assert {(suffix, what) for suffix in FORMATS for what in (READ, "refu")} == found.keys()
    assert all(found[suffix, READ] > 5 for suffix in FORMATS)


@pytest.mark.long
def test_thousands_of_damaged_files_are_read_or_refused(tmp_path: Path, capsys):
    """Memory is limited; a minute for one file is an endless loop on any machine."""
    limits = ["--mutants", "2000", "--limit", "60", "--seconds", "3600"]
    code = main([*limits, "--processes", "1", "--seed", "0", "--keep", str(tmp_path)])
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.startswith("2,000 mutants: ")
    assert " 0 failures" in said


def slow(*_: object) -> str:
    until = time.process_time() + HANG_SECONDS
    while time.process_time() < until:
        pass
    return READ


def hoard(*_: object) -> str:
    return str(len(bytearray(2 << 30)))


def stumble(data: bytes, *_: object) -> str:
    return str({}[data])


@pytest.mark.long
@pytest.mark.parametrize(
    ("examiner", "find"),
    [(slow, "it took 2."), (hoard, "it takes more memory than"), (stumble, "KeyError")],
)
def test_failures_are_detected(examiner, find: str, tmp_path: Path):
    tally = fuzz(seconds=600, mutants=2, seed=7, processes=2, keep=tmp_path, examiner=examiner)
    assert sorted(number for number, _ in tally.failures) == [0, 1]
    assert all(find in what for _, what in tally.failures)
    kept = [(tmp_path / f"7-{number}{format_of(number)}").read_bytes() for number in (0, 1)]
    assert kept == [mutant(seed_files(), 7, number) for number in (0, 1)]
