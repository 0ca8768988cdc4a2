"""Thousands of damaged files; and the fuzzer itself finds what it is there to find."""

from collections import Counter
from pathlib import Path

import pytest

from tests.tools.fuzz.examine import LANGUAGES, examine
from tests.tools.fuzz.mutants import FORMATS, format_of, mutant, seed_files
from tests.tools.fuzz.run import READ, arguments, fuzz, main
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
    """In a process whose memory is limited; a minute each is an endless loop, on any machine."""
    limits = ["--mutants", "2000", "--limit", "60", "--seconds", "3600"]
    code = main([*limits, "--processes", "1", "--keep", str(tmp_path)])
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.startswith("2,000 mutants in ")
    assert " 0 failures" in said


def hang(*_: object) -> str:
    while True:
        pass


def stumble(*_: object) -> str:
    raise ValueError("of a library that got nonsense")


@pytest.mark.long
@pytest.mark.parametrize(
    ("examiner", "find"), [(hang, "more than 2.0 s in hang"), (stumble, "got nonsense")]
)
def test_what_must_not_happen_is_found_and_kept(examiner, find: str, tmp_path: Path):
    """In two runs, of which the second goes on after the first."""
    counts = tmp_path / "counts.json"
    words = ["--mutants", "1", "--seed", "7", "--processes", "1", "--keep", str(tmp_path)]
    for number in range(2):
        found = fuzz(arguments([*words, "--counts", str(counts)]), examiner)
        kept = (tmp_path / f"7-{number}{format_of(number)}").read_bytes()
        assert kept == mutant(seed_files(), 7, number)
    assert [(number, find in what) for number, what in found["failures"]] == [(0, True), (1, True)]
