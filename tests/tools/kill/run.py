"""Kill commands at random moments, rerun each until it finishes, and compare with an undisturbed run.

    python -m tests.tools.kill.run --times 20 [--only train data evaluate continue]

Half of the kills happen at a random time, the others just before a file operation, where most can break. After each
kill every file must be complete, and in the end equal to that of the undisturbed run. (A file that was being written
has a hidden name, .….part.)
"""

import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli import main as musicgen
from musicgen import weights
from tests.tools.options import options
from tests.training.data.sources import on_disk as disk
from tests.training.makers import outcome, prepared_set, toy_config, toy_file, toy_run
from training import run_folder
from training.comparison import read_table
from training.log import TABLES

OUT = "out"
SEEDS = Path(__file__).parents[2] / "seeds"
OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}


def contents(folder: Path) -> dict[str, Any]:
    """Return the finished files of a folder by path, without the seconds recorded in them."""
    return {
        name: re.sub(rb'"seconds": [\d.]+', b"", held) if isinstance(held, bytes) else held
        for name, held in outcome(folder).items()
        if not name.endswith(".part")
    }


def check_files(place: Path, whole: dict[str, Any]) -> int:
    """Check that the files of a killed command equal those of the undisturbed run; return its progress, 0."""
    left = contents(place / OUT)
    damaged = [path for path, held in left.items() if path in whole and held != whole[path]]
    assert not damaged, f"damaged: {damaged}"
    return 0


def check_run(place: Path, _: dict[str, Any]) -> int:
    """Load everything that a killed training left, whose files grow; return the step from which it resumes."""
    run, found = place / OUT, [0]
    for saved in (run / run_folder.CHECKPOINTS).glob("[0-9]*"):
        fresh = toy_run(toy_config(place, place / "data", **CHANGES))
        found.append(run_folder.restore(saved, fresh.model, fresh.optimiser).step)
        assert found[-1] == int(saved.name)
    if (run / "model" / "config.json").exists():
        weights.load(run / "model")
    for name in TABLES:
        if (run / f"{name}.csv").exists():
            read_table(run / f"{name}.csv")
    return max(found)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that writes into `out`."""

    words: tuple[str, ...]
    material: Callable[[Path], object]  # writes its input into a folder
    operations: int  # it is killed before one of its first file operations
    seconds: float  # or within this time
    resumes: bool = True  # otherwise a second run would write new files
    check: Callable[[Path, dict[str, Any]], int] = check_files


CHANGES: dict[str, Any] = {
    "run": OUT, "optimiser": {"steps": 60}, "validation": {"every": 12}, "save_every": 3, "log_every": 2,
}  # fmt: skip


COMMANDS = {
    "train": Command(
        words=("train", "toy.yaml", "--resume"), operations=300, seconds=3.0, check=check_run,
        material=lambda folder: toy_file(folder, prepared_set(folder / "data", "remi"), **CHANGES),
    ),
    "data": Command(
        words=("data", "midi", "songs", OUT, "--workers", "1", "--force"), operations=40, seconds=3.0,
        material=lambda folder: disk.midi_folder(folder / "songs", 6),
    ),
    "evaluate": Command(
        words=(
            "evaluate", "continuation", "untrained:tiny:groove", "--data", "data", "--prompt-bars", "2",
            "--tokens", "340", "--samples", "2", "--workers", "1", "--device", "cpu", "-o", OUT,
        ),
        material=lambda folder: prepared_set(folder / "data", "groove", tested=2),
        operations=90, seconds=5.0,
    ),
    "continue": Command(
        words=(
            "continue", "song.mid", "--model", "untrained:tiny", "--bars", "2", "--variations", "2",
            "--score", "--seed", "7", "-o", OUT,
        ),
        material=lambda folder: shutil.copy(SEEDS / "pop909_001.mid", folder / "song.mid"),
        operations=40, seconds=4.0, resumes=False,
    ),
}  # fmt: skip


def die_at_operation(number: int) -> None:
    """Kill this process just before one of its next file operations in `out`."""
    left = number

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in OPERATIONS and OUT in str(arguments[0]):
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def run(command: Command, folder: Path, *, seconds: float = 0.0, operation: int = 0) -> int:
    """Run a command in a fork that is killed as requested; return the exit code, negative for a signal."""
    sys.stdout.flush()
    child = os.fork()  # much faster than a new interpreter
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
    """Return the exit codes of the killed runs; raises AssertionError if a file is damaged or progress lost."""
    alone, place, endings, reached = folder / "alone", folder / "killed", [], 0
    for one in (alone, place):
        one.mkdir()
        command.material(one)
    assert run(command, alone) == 0, f"it fails alone: {Path(f'{alone}.errors').read_text()}"
    whole = contents(alone / OUT)
    for number in range(times):
        if number % 2:
            moment = {"operation": chance.randint(1, command.operations)}
        else:
            moment = {"seconds": chance.uniform(0.01, command.seconds)}
        endings.append(run(command, place, **moment))
        assert endings[-1] in (0, -signal.SIGKILL), f"it ended with {endings[-1]}"
        before, reached = reached, command.check(place, whole)
        assert reached >= before, f"progress was lost by the kill at {moment}"
        if not command.resumes or endings[-1] == 0:
            finish(command, place, whole)
            reached = 0
    finish(command, place, whole)
    return endings


def finish(command: Command, place: Path, whole: dict[str, Any]) -> None:
    """Run a command to its end, compare its files, and delete them."""
    if not command.resumes:
        shutil.rmtree(place / OUT, ignore_errors=True)
    there = {path.name for path in place.iterdir()} | {OUT}
    assert run(command, place) == 0, f"it does not resume: {Path(f'{place}.errors').read_text()}"
    left = contents(place / OUT)
    assert left.keys() == whole.keys(), left.keys() ^ whole.keys()
    differ = [path for path in whole if left[path] != whole[path]]
    assert not differ, f"{differ} differ from the undisturbed run"
    assert {path.name for path in place.iterdir()} == {n for n in there if n != f".{OUT}.part"}
    shutil.rmtree(place / OUT)


def main() -> int:
    """Kill, rerun and compare each command."""
    given = options(__doc__, times=20, only=[*COMMANDS], seed=0)
    os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads cannot be forked safely
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            chance = random.Random(f"{given.seed} {name}")
            endings = kill(COMMANDS[name], Path(folder), given.times, chance)
        killed = endings.count(-signal.SIGKILL)
        done = len(endings) - killed
        print(f"{name}: killed {killed} times, finished first {done} times; all files are equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
