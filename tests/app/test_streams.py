"""Full, closed and broken standard streams cause no traceback."""

import io
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from app import output

ROOT = Path(__file__).parent.parent.parent
SONG = "tests/seeds/groove.mid"
LOST = "musicgen: the standard output: No space left on device\n"


def run(line: str, unbuffered: str = "") -> tuple[int, str, str]:
    """Run a command in a shell; return its exit code, output and errors."""
    words = f"set -o pipefail; {sys.executable} -m app.cli {line}"
    around = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        ["bash", "-c", words], cwd=ROOT, env=around, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_named(unbuffered: str):
    for words in ("--json", "", *([] if unbuffered else ["--help"])):
        assert run(f"tokenize {SONG} {words} >/dev/full", unbuffered) == (2, "", LOST)
    assert run(f"tokenize {SONG} >/dev/full 2>/dev/full", unbuffered)[0] == 2
    code, said, _ = run(f"tokenize {SONG} 2>/dev/full", unbuffered)
    assert (code, said.startswith("begin "), "\nbar " in said) == (
        0,
        True,
        True,
    )  # a result does not need its remarks


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("tokenize - <&-", 2),
        (f"tokenize {SONG} >&-", 0),
        ("tokenize - 2>&-", 2),
        ("detokenize - -o nowhere/a.mid <&- >&- 2>&-", 2),
    ],
)
def test_closed_streams_are_like_empty_ones(line: str, code: int):
    ended, said, remarks = run(line)
    assert ended == code
    assert "Traceback" not in said + remarks
    if "2>" in line:
        assert "musicgen:" not in said  # messages are not mixed with the results


@pytest.mark.parametrize("words", ["--help", f"tokenize {SONG}"])
def test_a_broken_pipe_is_silent(words: str):
    assert run(f"{words} | true") == (141, "", "")


def test_results_are_redirected_while_a_progress_bar_is_shown(monkeypatch: pytest.MonkeyPatch):
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
        while b"composing" not in drawn:  # a terminal returns what it has so far
            drawn += os.read(ours, 1 << 16)
    os.close(ours)
    assert sys.stdout.getvalue() == "a.mid\n"  # type: ignore[attr-defined]


def test_progress_without_a_terminal_is_told_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    now = 0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with output.progress_bar("Measuring") as show:
        for now in range(1000):
            show(now, 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["Measuring: 15 of 1,000", "Measuring: 17 of 1,000"]
    told = [int(line.split()[1].replace(",", "")) for line in lines]
    assert all(b - a <= max(2, 0.1 * b) + 1 for a, b in pairwise(told))
    assert told[-1] > 930
    assert len(told) < 60


def test_json_stays_valid_if_the_stream_cannot_encode_it(monkeypatch: pytest.MonkeyPatch):
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stream)
    output.write_json({"midi": "Prélude 𝄞.mid"})
    assert json.loads(content.getvalue()) == {"midi": "Prélude 𝄞.mid"}
