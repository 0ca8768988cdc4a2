"""Standard streams that take nothing, or are none: the work is done, and what cannot be said ends in no traceback."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import output

ROOT = Path(__file__).parent.parent.parent
SONG = "tests/seeds/groove.mid"
LOST = "musicgen: the standard output: No space left on device\n"


def run(line: str, unbuffered: str = "") -> tuple[int, str, str]:
    """Return the exit code of a command as a shell runs it, its output and its errors."""
    words = f"set -o pipefail; {sys.executable} -m app.cli {line}"
    around = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        ["bash", "-c", words], cwd=ROOT, env=around, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_named(unbuffered: str):
    for words in ("--json", "", *([] if unbuffered else ["--help"])):
        assert run(f"tokenize {SONG} {words} >/dev/full", unbuffered) == (2, "", LOST)
    assert run(f"tokenize {SONG} >/dev/full 2>/dev/full", unbuffered)[0] == 2
    code, said, _ = run(f"tokenize {SONG} 2>/dev/full", unbuffered)
    assert (code, said.startswith("begin\nbar ")) == (0, True)  # a result stands without remarks


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("tokenize - <&-", 2),
        (f"tokenize {SONG} >&-", 0),
        ("tokenize - 2>&-", 2),
        ("detokenize - -o nowhere/a.mid <&- >&- 2>&-", 2),
    ],
)
def test_streams_that_are_closed_are_empty(line: str, code: int):
    ended, said, remarks = run(line)
    assert ended == code
    assert "Traceback" not in said + remarks
    if "2>" in line:
        assert "musicgen:" not in said  # messages do not wander among the results


@pytest.mark.parametrize("words", ["--help", f"tokenize {SONG}"])
def test_nobody_who_reads_on_is_no_error(words: str):
    assert run(f"{words} | true") == (141, "", "")


def test_beside_a_progress_bar_results_go_where_they_are_sent(monkeypatch: pytest.MonkeyPatch):
    """As in `musicgen generate > list.txt`, typed in a terminal."""
    ours, terminal = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    with open(terminal, "w") as shown:
        monkeypatch.setattr("sys.stderr", shown)
        with output.progress_bar("composing") as show:
            show(1, 2)
            output.write("a.mid")
        drawn = b""
        while b"composing" not in drawn:  # a terminal gives what it has so far
            drawn += os.read(ours, 1 << 16)
    os.close(ours)
    assert sys.stdout.getvalue() == "a.mid\n"  # type: ignore[attr-defined]


def test_json_is_json_where_a_stream_has_not_all_letters(monkeypatch: pytest.MonkeyPatch):
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stream)
    output.write_json({"midi": "Prélude 𝄞.mid"})
    assert json.loads(content.getvalue()) == {"midi": "Prélude 𝄞.mid"}
