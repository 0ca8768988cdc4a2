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
FULL = Path("/dev/full")
GENERATE = ("generate", "--model", "untrained:tiny", "--tokens", "40", "-o")
LOST = "musicgen: the standard output: No space left on device\n"

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is full")


def run(
    *words: str | Path, unbuffered: str = "", **streams: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app.cli", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "OMP_NUM_THREADS": "1"},
        text=True,
        check=False,
        **{"stdin": subprocess.DEVNULL, **streams},  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words", [("models",), ("models", "--json"), ("tokenize", ROOT / "tests/seeds/groove.mid")]
)
def test_a_full_standard_output_is_named(words: tuple[str, ...], unbuffered: str):
    with FULL.open("w") as full:
        ended = run(*words, unbuffered=unbuffered, stdout=full, stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (2, LOST)


def test_help_too(tmp_path: Path):
    with FULL.open("w") as full:
        ended = run("generate", "--help", stdout=full, stderr=subprocess.PIPE)
        both = run("generate", "--help", stdout=full, stderr=full)
    assert (ended.returncode, ended.stderr) == (2, LOST)
    assert both.returncode == 2


def test_a_result_stands_where_no_remark_can_be_made(tmp_path: Path):
    with FULL.open("w") as full:
        ended = run(*GENERATE, tmp_path, stdout=subprocess.PIPE, stderr=full)
    assert ended.returncode == 0
    assert ended.stdout == f"{tmp_path / 'untrained-tiny.cont_0.mid'}\n"


def test_nobody_who_reads_on_is_no_error(tmp_path: Path):
    reader, writer = os.pipe()
    os.close(reader)
    ended = run(*GENERATE, tmp_path, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_beside_a_progress_bar_results_go_where_they_are_sent(tmp_path: Path):
    """As in `musicgen generate > list.txt`, typed in a terminal."""
    ours, terminal = os.openpty()
    ended = run(*GENERATE, tmp_path, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    os.close(ours)
    assert ended.stdout == f"{tmp_path / 'untrained-tiny.cont_0.mid'}\n"


def test_json_is_json_where_a_stream_has_not_all_letters(monkeypatch: pytest.MonkeyPatch):
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stream)
    output.write_json({"midi": "Prélude 𝄞.mid"})
    assert json.loads(content.getvalue()) == {"midi": "Prélude 𝄞.mid"}
