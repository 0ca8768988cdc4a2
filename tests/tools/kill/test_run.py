from pathlib import Path

from tests.tools.kill.run import kill_and_resume


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path):
    [step] = kill_and_resume(tmp_path, [["--operation", "130"]], steps=20)
    assert 3 <= step <= 18
