"""A command is killed, and ends with the same bytes when it is run again."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_preparing_that_is_killed_ends_with_the_same_bytes():
    """Run in a process of its own: it is copied, which one with threads should not be."""
    command = [sys.executable, "-m", "tests.tools.kill.commands", "--times", "4", "--only", "data"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("data: killed ")
    assert not done.stdout.startswith("data: killed 0")
