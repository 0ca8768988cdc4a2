"""A round is packed, run and unpacked, and goes on here; whatever happens there, the last weights come back."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from musicgen import checkpoint
from tests.training.makers import toy_file
from training import optimiser, run_folder
from training.config import read
from training.loop import Run
from training.round.__main__ import main
from training.run_folder import TAIL_FROM

HOLD = {"schedule": "hold", "method": "muon", "steps": 1000}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Put back what a round does to signals."""
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


@pytest.fixture
def packed(pianos: Path, tmp_path: Path) -> Path:
    """Return a packed round of a toy."""
    changes = {"optimiser": HOLD, "validation": {"every": 1000}, "model": {"layers": 2}}
    file = toy_file(tmp_path, pianos, **changes)
    assert main(["pack", str(file), str(tmp_path / "round")]) == 0
    return tmp_path / "round"


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[Run, Any], None]]:
    """Let each step take a second; return what is done before one."""
    ticks, plain, before = [0.0], Run._learn, []

    def learn(self: Run, part, sums):
        for do in before:
            do(self, part)
        ticks[0] += 1
        return plain(self, part, sums)

    monkeypatch.setattr(Run, "_learn", learn)
    monkeypatch.setattr(optimiser, "time", SimpleNamespace(monotonic=lambda: ticks[0]))
    return before


def run(packed: Path, seconds: float = 10, *more: str) -> tuple[int, Path]:
    """Run a round of so many steps; return its status, and what came back."""
    out = packed.with_name("out")
    given = ["--seconds", str(seconds), "--out", str(out), "--device", "cpu", *more]
    return main(["run", str(packed), *given]), out


@pytest.mark.parametrize("weights", [pytest.param("bfloat16", marks=pytest.mark.long), "int8"])
def test_round_goes_on_here_and_there(packed: Path, weights: str, capsys):
    assert not (packed / "code" / "musicgen" / "pretrained").exists()
    status, out = run(packed)
    assert status == 0
    said = capsys.readouterr().out
    assert "tokens/s; the run begins" in said
    assert "finished: " in said
    content = json.loads((out / "round.json").read_text())
    assert content["batch"] == 4
    home = packed.with_name("home")
    assert main(["unpack", str(out), str(home)]) == 0
    held = run_folder.newest(home)
    card = checkpoint.load(home / "model")[1].training
    assert (card[TAIL_FROM], int(held.name), card["steps"]) == (8, 8, 10)
    state = run_folder.read_state(held)
    assert (state.began, state.batches) == (state.step, state.step)
    assert main(["unpack", str(out), str(home)]) == 2  # once is enough
    assert "stands at step" in capsys.readouterr().err

    assert main(["pack", str(home), str(packed), "--weights", weights]) == 0
    assert run(packed, 10, "--batch", "8")[0] == 0
    assert main(["unpack", str(out), str(home)]) == 0
    later = run_folder.newest(home)
    state = run_folder.read_state(later)
    assert (state.step, state.batches, state.began) == (16, 8 + 2 * 8, 16)
    assert read(home / "config.yaml").data.batch == 4


def test_full_card_halves_the_batch_and_goes_on(packed: Path, steps, capsys):
    seen = []

    def fill(self: Run, part):
        batch = len(part.tokens)
        seen.append((batch, part.step))
        if batch == 8 or (batch == 4 and part.step == 15 and "work/run" in str(self.folder)):
            raise torch.OutOfMemoryError("full")

    steps.append(fill)
    status, out = run(packed, 30, "--batch", "8")
    assert status == 0
    said = capsys.readouterr().out
    assert "batch 8 does not fit" in said
    assert "the card is full at batch 4; 2 from here on" in said
    assert (2, 15) in seen  # no step is lost
    content = json.loads((out / "round.json").read_text())
    assert (content["batch"], content["ending"]) == (2, "finished")


def test_what_fails_leaves_the_last_weights(packed: Path, steps):
    def pull(self: Run, part):
        if part.step == 20 and "work/run" in str(self.folder):
            raise RuntimeError("a cable was pulled")

    steps.append(pull)
    status, out = run(packed, 40)
    assert status == 1
    home = packed.with_name("home")
    assert main(["unpack", str(out), str(home)]) == 0
    held = run_folder.newest(home)
    assert int(held.name) == 20
