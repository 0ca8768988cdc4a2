"""Kill a training run at random moments, resume it each time, and compare it with one that was left alone.

    python -m tests.tools.kill.run --times 20

Every other kill comes at a moment of the clock, the rest at one of the file operations, where there is most to break.
After each kill, all that is on the disk must be whole; at the end, every file must be that of the undisturbed run.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from musicgen.storage import checkpoint
from tests.tools.options import options
from tests.training.makers import Heard, outcome, prepared_set, toy_config, toy_run
from training import run_folder
from training.loop import TABLES
from training.validation import read_table

ROOT = Path(__file__).parents[3]
STEPS = 240
SAVE_EVERY = 3
OPERATIONS_A_SAVE = 30  # about so many times a save opens, renames or deletes
OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}


def changes(steps: int) -> dict[str, Any]:
    """Return a run that saves nearly as often as it learns."""
    validated = {"every": 12, "samples": 0}
    saved = {"save_every": SAVE_EVERY, "log_every": 2}
    return {"optimiser": {"steps": steps}, "validation": validated, **saved}


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_operation(number: int, folder: Path) -> None:
    """Kill this process right before one of its next operations on the files below a folder."""
    left, below = number, str(folder)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in OPERATIONS and below in str(arguments[0]):
            left -= 1
            if left <= 0:
                die()

    sys.addaudithook(hook)


def die_after(seconds: float) -> None:
    """Kill this process in a while."""

    def wait() -> None:
        time.sleep(seconds)
        die()

    threading.Thread(target=wait, daemon=True).start()


def train(folder: Path, steps: int, *, seconds: float = 0.0, operation: int = 0) -> None:
    """Train, or go on, and die when it is time."""
    run = toy_run(toy_config(folder, folder.parent / "data", **changes(steps)))
    run.resume()
    if seconds:
        die_after(seconds)
    if operation:
        die_at_operation(operation, folder)
    run.fit(Heard())


def check_whole(folder: Path, steps: int) -> int:
    """Load everything that a killed run left; return the step it goes on from."""
    run = folder / "run"
    found = [0]
    for saved in (run / run_folder.CHECKPOINTS).glob("[0-9]*"):
        fresh = toy_run(toy_config(folder, folder.parent / "data", **changes(steps)))
        found.append(run_folder.restore(saved, fresh.model, fresh.raw_optimiser).step)
        assert found[-1] == int(saved.name)
    if (run / "model" / "config.json").exists():
        checkpoint.load(run / "model")
    for name in TABLES:
        if (run / f"{name}.csv").exists():
            read_table(run / f"{name}.csv")
    return max(found)


def kill_and_resume(folder: Path, deaths: list[list[str]], steps: int = STEPS) -> list[int]:
    """Return the steps from which the killed run went on; raises AssertionError if anything was lost."""
    prepared_set(folder / "data", "remi")
    killed, reached = folder / "killed", [0]
    for death in deaths:
        child = [sys.executable, "-m", "tests.tools.kill.run", "--child", str(killed)]
        words = [*child, "--steps", str(steps), *death]
        ended = subprocess.run(words, cwd=ROOT, check=False).returncode
        assert ended in (0, -signal.SIGKILL), f"it ended by itself with {ended}"
        reached.append(check_whole(killed, steps))
        assert reached[-1] >= reached[-2], "what was saved is lost"
    train(killed, steps)
    train(folder / "whole", steps)
    left, alone = outcome(killed / "run"), outcome(folder / "whole" / "run")
    assert left.keys() == alone.keys(), left.keys() ^ alone.keys()
    assert not [name for name in alone if left[name] != alone[name]]
    return reached[1:]


def random_deaths(times: int, longest_seconds: float, seed: int) -> list[list[str]]:
    """Return options of the child: when to die."""
    chance = random.Random(seed)
    share = STEPS // SAVE_EVERY * OPERATIONS_A_SAVE // max(1, times)
    deaths = []
    for number in range(times):
        by_clock = ["--seconds", str(chance.uniform(0, longest_seconds))]
        by_operation = ["--operation", str(chance.randint(1, 2 * share))]
        deaths.append(by_operation if number % 2 else by_clock)
    return deaths


def main() -> int:
    """Kill and compare."""
    child = {
        "child": "",
        "steps": STEPS,
        "seconds": 0.0,
        "operation": 0,
    }  # what a run that is killed is given
    given = options(__doc__, times=20, longest_seconds=1.0, seed=0, **child)
    if given.child:
        train(Path(given.child), given.steps, seconds=given.seconds, operation=given.operation)
        return 0
    deaths = random_deaths(given.times, given.longest_seconds, given.seed)
    with tempfile.TemporaryDirectory() as folder:
        reached = kill_and_resume(Path(folder), deaths)
    print(f"Killed {len(deaths)} times, went on from steps {reached}: all files equal, none torn.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
