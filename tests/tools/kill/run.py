"""Kill a training run at random moments, run it again until it is done, and compare it with one that was left alone.

    python -m tests.tools.kill.run --times 20

Every other kill comes at a moment of the clock, the rest right before one of the file operations, where there is most
to break. After each kill, all that is on the disk must be whole; at the end, every file must be that of the undisturbed
run. (What was being written lies next to them under a hidden name, .….part.) `commands.py` kills other commands.
"""

import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli import main as musicgen
from musicgen import checkpoint
from tests.tools.options import options
from tests.training.makers import outcome, prepared_set, toy_config, toy_file, toy_run
from training import run_folder
from training.curves import read_table
from training.log import TABLES

OUT = "out"
OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that writes into `out`, and where it goes on when it is run again."""

    words: tuple[str, ...]
    material: Callable[[Path], None]  # puts what it reads into a folder
    operations: int  # it dies at one of so many times that it opens, renames or deletes
    seconds: float  # or within so long
    goes_on: bool = True  # else what is there stays, and a second run would number its files on

    def contents(self, folder: Path) -> dict[str, Any]:
        """Return the files of a folder, by path, without what was being written, and how long it took."""
        files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part")
        return {
            str(path.relative_to(folder)): re.sub(rb'"seconds": [\d.]+', b"", path.read_bytes())
            for path in files
        }

    def check_whole(self, place: Path, whole: dict[str, Any]) -> int:
        """Compare the files that are there with those of the undisturbed command; return how far it has come."""
        left = self.contents(place / OUT)
        torn = [path for path, held in left.items() if path in whole and held != whole[path]]
        assert not torn, f"torn: {torn}"
        return 0


class Training(Command):
    """A run that saves nearly as often as it learns; its files grow."""

    def contents(self, folder: Path) -> dict[str, Any]:
        files = outcome(folder)
        return {name: held for name, held in files.items() if not name.endswith(".part")}

    def check_whole(self, place: Path, whole: dict[str, Any]) -> int:
        """Load everything that a killed run left; return the step it goes on from."""
        run, found = place / OUT, [0]
        for saved in (run / run_folder.CHECKPOINTS).glob("[0-9]*"):
            fresh = toy_run(toy_config(place, place / "data", **CHANGES))
            found.append(run_folder.restore(saved, fresh.model, fresh.raw_optimiser).step)
            assert found[-1] == int(saved.name)
        if (run / "model" / "config.json").exists():
            checkpoint.load(run / "model")
        for name in TABLES:
            if (run / f"{name}.csv").exists():
                read_table(run / f"{name}.csv")
        return max(found)


CHANGES: dict[str, Any] = {
    "run": OUT, "optimiser": {"steps": 60}, "validation": {"every": 12, "samples": 0}, "save_every": 3, "log_every": 2,
}  # fmt: skip


def toy_training(folder: Path) -> None:
    """Write the configuration and the data of a run."""
    toy_file(folder, prepared_set(folder / "data", "remi"), **CHANGES)


TRAINING = Training(
    words=("train", "toy.yaml", "--resume"), material=toy_training, operations=300, seconds=3.0
)


def die_at_operation(number: int) -> None:
    """Kill this process right before one of its next operations on the files of its result."""
    left = number

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in OPERATIONS and OUT in str(arguments[0]):
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def run(command: Command, folder: Path, *, seconds: float = 0.0, operation: int = 0) -> int:
    """Run a command in a copy of this process that dies when it is time; return its exit code, of a signal minus it."""
    sys.stdout.flush()
    child = os.fork()  # to start an interpreter for each would take longer than what is tried
    if not child:
        code = 70
        try:
            os.chdir(folder)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(f"{folder}.errors", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), 2)
            sys.argv = ["musicgen", *command.words]
            if seconds:
                threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
            if operation:
                die_at_operation(operation)
            code = musicgen([*command.words])
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill(command: Command, folder: Path, times: int, chance: random.Random) -> list[int]:
    """Return how the killed runs ended; raises AssertionError where something is torn or lost."""
    alone, place, endings, reached = folder / "alone", folder / "killed", [], 0
    for one in (alone, place):
        one.mkdir()
        command.material(one)
    assert run(command, alone) == 0, f"it fails undisturbed: {Path(f'{alone}.errors').read_text()}"
    whole = command.contents(alone / OUT)
    for number in range(times):
        if number % 2:
            moment = {"operation": chance.randint(1, command.operations)}
        else:
            moment = {"seconds": chance.uniform(0.01, command.seconds)}
        endings.append(run(command, place, **moment))
        assert endings[-1] in (0, -signal.SIGKILL), f"it ended by itself with {endings[-1]}"
        before, reached = reached, command.check_whole(place, whole)
        assert reached >= before, f"killed at {moment}, it has lost what was saved"
        if not command.goes_on or endings[-1] == 0:
            finish(command, place, whole)
            reached = 0
    finish(command, place, whole)
    return endings


def finish(command: Command, place: Path, whole: dict[str, Any]) -> None:
    """Run a command to its end, and compare what it leaves; the next starts from scratch."""
    if not command.goes_on:
        shutil.rmtree(place / OUT, ignore_errors=True)
    there = {path.name for path in place.iterdir()} | {OUT}
    assert run(command, place) == 0, f"it does not go on: {Path(f'{place}.errors').read_text()}"
    left = command.contents(place / OUT)
    assert left.keys() == whole.keys(), left.keys() ^ whole.keys()
    differ = [path for path in whole if left[path] != whole[path]]
    assert not differ, f"{differ} are others than of the undisturbed command"
    assert {path.name for path in place.iterdir()} == there
    shutil.rmtree(place / OUT)


def main(commands: Mapping[str, Command], doc: str | None, times: int) -> int:
    """Kill and compare."""
    given = options(doc, times=times, only=[*commands], seed=0)
    os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads is not to be copied
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            chance = random.Random(f"{given.seed} {name}")
            endings = kill(commands[name], Path(folder), given.times, chance)
        killed = endings.count(-signal.SIGKILL)
        done = len(endings) - killed
        print(f"{name}: killed {killed} times, done before in {done}; all files equal, none torn.")
    return 0


if __name__ == "__main__":
    sys.exit(main({"train": TRAINING}, __doc__, times=20))
