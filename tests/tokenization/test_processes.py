"""Child processes, which import nothing from the current folder."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tokenization.processes import SAFE_PATH, started_apart

ROOT = Path(__file__).parents[2]
OURS = ("app", "evaluation", "midirenderer", "musicgen", "numpy", "tokenization", "training")
STARTS = {
    "workers": "from tokenization.workers import in_order; print(list(in_order(abs, [-7], workers=1)))",
    "bench": "from evaluation.bench import _in_child; _in_child('no such work')",
    "sound": "from pathlib import Path; from app.audio import render_to; from app.web.offered_models import example; "
    "render_to(Path('sound.wav'), example('trio-jazz'))",
}


@pytest.mark.parametrize(
    "what", [name if name == "workers" else pytest.param(name, marks=pytest.mark.long) for name in STARTS]
)  # fmt: skip
def test_no_module_of_the_current_folder_is_executed(what: str, tmp_path: Path):
    script, folder, trap = tmp_path / "own" / "enter.py", tmp_path / "stranger", tmp_path / "it"
    script.parent.mkdir()
    folder.mkdir()
    # The parent has this test's path, without the folder: the test is about the processes that it starts.
    enter = f"import sys; sys.path = {[str(ROOT), *filter(None, sys.path)]!r}"
    script.write_text(f"if __name__ == '__main__':\n    {enter}\n    {STARTS[what]}\n")
    for name in {*OURS, *sys.stdlib_module_names}:
        (folder / f"{name}.py").write_text(f"open({str(trap)!r}, 'a').write('{name} ')\n")
    words = [sys.executable, str(script)]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert not trap.exists(), trap.read_text()
    if what == "workers":
        assert ended.stdout == "[7]\n", ended.stderr


def test_starts_in_many_threads_restore_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(SAFE_PATH, raising=False)

    def start() -> None:
        for _ in range(20):
            with started_apart():
                assert os.environ[SAFE_PATH] == "1"
                time.sleep(0.001)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert SAFE_PATH not in os.environ
