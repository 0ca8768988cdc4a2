"""Seeds of any size, learning rates, and child processes, which import nothing from the current folder."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from musicgen.common.learning import cosine_rate, generator_from
from musicgen.common.processes import SAFE_PATH, started_apart
from musicgen.performer import Performer
from tests.musicgen.toys import generator, toy_config

ROOT = Path(__file__).parents[3]
OURS = ("app", "evaluation", "midirenderer", "musicgen", "numpy", "tokenization", "training")
STARTS = {
    "workers": "from musicgen.common.workers import in_order; print(list(in_order(abs, [-7], workers=1)))",
    "bench": "from evaluation.bench import _in_child; _in_child('no such work')",
    "sound": "from pathlib import Path; from app.audio import render_to; from app.web.offered_models import example; "
    "render_to(Path('sound.wav'), example('trio-jazz'))",
}


def drawn(seed: int) -> list[float]:
    return torch.rand(4, generator=generator_from(seed)).tolist()


def test_large_seeds_differ_from_small_ones():
    for small in (0, 7, 2**32 - 1):
        assert drawn(small) == torch.rand(4, generator=generator(small)).tolist()
    for large in (2**32, 2**32 + 7, 2**63 - 1):
        assert drawn(large) == drawn(large)
        assert drawn(large) != drawn(large % 2**32)
    weights = [Performer(toy_config(), seed).embedding.weight for seed in (7, 2**32 + 7)]
    assert not torch.equal(*weights)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        # Half a cosine, and constant after its end.
        ((10, 110), {10: 2.0, 35: 0.2 + 1.8 * (1 + 2**-0.5) / 2, 60: 1.1, 110: 0.2, 500: 0.2}),
        ((0, 110), {0: 2.0}),
        ((10, 10), {10: 2.0}),
    ],
)
def test_the_learning_rate_is_half_a_cosine(schedule: tuple[int, int], rates: dict[int, float]):
    warmup, total = schedule
    for step, wanted in rates.items():
        found = cosine_rate(step, peak=2.0, floor=0.2, warmup=warmup, total=total)
        assert found == pytest.approx(wanted)


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
