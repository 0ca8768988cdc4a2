"""SECURITY.md names existing tests for each promise."""

import re
from pathlib import Path

from tests.tools.house import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TEST = re.compile(r"^ *(async )?def test_|^  (async )?\"[^\"]+\"\(|^if __name__ == ", re.MULTILINE)


def promises() -> list[str]:
    """Return the rows of all tables without headers."""
    lines = [line for line in TEXT.splitlines() if line.startswith("|")]
    return [line for line in lines if not re.match(r"\| ?(promise|---)", line)]


def script(name: str) -> Path:
    """Return the file that `python -m NAME` runs."""
    path = ROOT / name.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def named(text: str) -> list[Path]:
    """Return the test files that a text names."""
    files = [ROOT / "tests" / path for path in re.findall(r"`([\w/]+\.(?:py|js))`", text)]
    return files + [script(name) for name in re.findall(r"`?python -m (tests[\w.]+)", text)]


def test_each_promise_names_existing_tests():
    assert len(promises()) > 20
    for promise in promises():
        assert named(promise.strip("| ").rpartition(" | ")[2]), promise
    for file in named(TEXT):
        assert TEST.search(file.read_text(encoding="utf-8")), file
