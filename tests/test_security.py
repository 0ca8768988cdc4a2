"""SECURITY.md: each promise names its tests, and they are there."""

import re
from pathlib import Path

from tests.tools.house import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TEST = re.compile(r"^ *(async )?def test_|^  (async )?\"[^\"]+\"\(|^if __name__ == ", re.MULTILINE)


def promises() -> list[str]:
    """Return the rows of all tables, without their heads."""
    lines = [line for line in TEXT.splitlines() if line.startswith("|")]
    return [line for line in lines if not re.match(r"\| ?(promise|---)", line)]


def script(name: str) -> Path:
    """Return the file that `python -m` runs."""
    path = ROOT / name.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def test_each_promise_names_tests_and_they_are_there():
    assert len(promises()) > 20
    for promise in promises():
        column = promise.strip("| ").rpartition(" | ")[2]
        files = [ROOT / "tests" / path for path in re.findall(r"`([\w/]+\.(?:py|js))`", column)]
        files += [script(name) for name in re.findall(r"`python -m (tests[\w.]+)", column)]
        assert files, promise
        for file in files:
            assert TEST.search(file.read_text(encoding="utf-8")), file


def test_what_the_prose_names_is_there():
    for path in re.findall(r"`([\w/]+\.(?:py|js))`", TEXT):
        assert (ROOT / "tests" / path).is_file(), path
    for name in re.findall(r"`?python -m (tests[\w.]+)", TEXT):
        assert script(name).is_file(), name
