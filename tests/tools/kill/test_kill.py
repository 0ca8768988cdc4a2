"""What is killed ends with the same bytes when it is run again."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.kill.run import ROOT, kill_and_resume

pytestmark = pytest.mark.long


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path):
    [step] = kill_and_resume(tmp_path, [["--operation", "130"]], steps=20)
    assert 3 <= step <= 18


def test_preparing_that_is_killed_ends_with_the_same_bytes():
    """Run in a process of its own: it is copied, which one with threads should not be."""
    command = [sys.executable, "-m", "tests.tools.kill.commands", "--times", "4", "--only", "data"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("data: killed ")
    assert not done.stdout.startswith("data: killed 0")
