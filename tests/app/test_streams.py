"""Standard streams that take nothing, or are none: the work is done, and what cannot be said ends in no traceback."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app import output

ROOT = Path(__file__).parent.parent.parent
FULL = Path("/dev/full")
SONG = ROOT / "tests" / "seeds" / "groove.mid"
LOST = "musicgen: the standard output: No space left on device\n"

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is full")


def run(
    *words: object,
    unbuffered: str = "",
    stdout: Any = subprocess.PIPE,
    stderr: Any = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app.cli", *map(str, words)],
        cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [("tokenize", SONG, "--json"), ("tokenize", SONG)])
def test_a_full_standard_output_is_named(words: tuple[object, ...], unbuffered: str):
    with FULL.open("w") as full:
        ended = run(*words, unbuffered=unbuffered, stdout=full)
    assert (ended.returncode, ended.stderr) == (2, LOST)


def test_so_it_is_by_help_and_with_a_full_standard_error():
    with FULL.open("w") as full:
        ended = run("tokenize", "--help", stdout=full)
        both = run("tokenize", "--help", stdout=full, stderr=full)
    assert (ended.returncode, ended.stderr) == (2, LOST)
    assert both.returncode == 2


def test_a_result_stands_where_no_remark_can_be_made():
    with FULL.open("w") as full:
        ended = run("tokenize", SONG, stderr=full)
    assert ended.returncode == 0
    assert ended.stdout.startswith("begin\nbar ")


@pytest.mark.parametrize("words", [("--help",), ("tokenize", SONG)])
def test_nobody_who_reads_on_is_no_error(words: tuple[object, ...]):
    reader, writer = os.pipe()
    os.close(reader)
    ended = run(*words, stdout=writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")


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
        assert "composing" in os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert sys.stdout.getvalue() == "a.mid\n"  # type: ignore[attr-defined]


def test_json_is_json_where_a_stream_has_not_all_letters(monkeypatch: pytest.MonkeyPatch):
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stream)
    output.write_json({"midi": "Prélude 𝄞.mid"})
    assert json.loads(content.getvalue()) == {"midi": "Prélude 𝄞.mid"}
