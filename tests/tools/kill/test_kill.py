"""What is killed ends with the same bytes when it is run again."""

import subprocess
import sys

import pytest

from tests.tools.house import ROOT


@pytest.mark.long
@pytest.mark.parametrize("name", ["train", "data"])
def test_what_is_killed_goes_on_bit_for_bit(name: str):
    """Run in a process of its own: it is copied, which one with threads should not be."""
    command = [sys.executable, "-m", "tests.tools.kill.run", "--times", "4", "--only", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{name}: killed ")
    assert not done.stdout.startswith(f"{name}: killed 0")
