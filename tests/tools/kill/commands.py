"""Kill commands at random moments, run each again until it is done, and compare with one that was left alone.

    python -m tests.tools.kill.commands --times 25

Preparing data, evaluating and continuing, each so often: half of the kills come at a moment of the clock, the rest
right before one of the file operations, where there is most to break. After each kill, every file with the name of a
result must be whole; at the end, every file must be that of the undisturbed command. (What was being written lies
beside them under a hidden name, .….part.) Training has `run.py`.
"""

import os
import random
import re
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.cli import main as musicgen
from tests.tools.kill.run import die_after, die_at_operation
from tests.tools.options import options
from tests.training.data.sources import on_disk as disk

SEEDS = Path(__file__).parents[2] / "seeds"
OUT = "out"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that writes into `out`, and where it goes on when it is run again."""

    words: tuple[str, ...]
    operations: int  # about so many times it opens, renames or deletes
    seconds: float  # about so long it takes
    goes_on: bool = True  # else what is there stays, and a second run would number its files on


COMMANDS = {
    "data": Command(words=("data", "midi", "songs", OUT, "--workers", "1", "--force"), operations=40, seconds=3.0),
    "evaluate": Command(
        words=(
            "evaluate", "continuation", "untrained:tiny:groove", "--prompts", "grooves", "--tokens", "340",
            "--samples", "2", "--workers", "1", "--device", "cpu", "-o", OUT,
        ),
        operations=90, seconds=5.0,
    ),
    "continue": Command(
        words=(
            "continue", "song.mid", "--model", "untrained:tiny", "--bars", "2", "--variations", "2",
            "--score", "--seed", "7", "-o", OUT,
        ),
        operations=40, seconds=4.0, goes_on=False,
    ),
}  # fmt: skip


def material(folder: Path) -> None:
    """Put what the commands read into a folder."""
    folder.mkdir()
    disk.midi_folder(folder / "songs", 6)
    shutil.copy(SEEDS / "pop909_001.mid", folder / "song.mid")
    (folder / "grooves").mkdir()
    for name in ("a", "b"):
        shutil.copy(SEEDS / "groove.mid", folder / "grooves" / f"{name}.mid")


def run(command: Command, folder: Path, *, seconds: float = 0.0, operation: int = 0) -> int:
    """Run a command in a copy of this process that dies when it is time; return its exit code, of a signal minus it."""
    sys.stdout.flush()
    child = os.fork()  # to start an interpreter for each would take longer than what is tried
    if not child:
        code = 70
        try:
            os.chdir(folder)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(os.open(f"{folder}.errors", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), 2)
            sys.argv = ["musicgen", *command.words]
            if seconds:
                die_after(seconds)
            if operation:
                die_at_operation(operation, Path(OUT))
            code = musicgen([*command.words])
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, by path, without what was being written, and how long it took."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part")
    return {
        str(path.relative_to(folder)): re.sub(rb'"seconds": [\d.]+', b"", path.read_bytes())
        for path in files
    }


def kill(name: str, folder: Path, times: int, chance: random.Random) -> list[int]:
    """Return how the killed runs ended; raises AssertionError where something is torn or lost."""
    command, endings = COMMANDS[name], []
    material(folder / f"{name}-alone")
    assert run(command, folder / f"{name}-alone") == 0, f"{name} fails undisturbed"
    whole = contents(folder / f"{name}-alone" / OUT)
    place = folder / name
    material(place)
    for number in range(times):
        if number % 2:
            moment = {"operation": chance.randint(1, command.operations)}
        else:
            moment = {"seconds": chance.uniform(0.01, command.seconds)}
        endings.append(run(command, place, **moment))
        assert endings[-1] in (0, -signal.SIGKILL), f"{name} ended by itself with {endings[-1]}"
        left = contents(place / OUT) if (place / OUT).exists() else {}
        torn = [path for path, held in left.items() if path in whole and held != whole[path]]
        assert not torn, f"{name}, killed at {moment}, leaves {torn}"
        if not command.goes_on or endings[-1] == 0:
            check(name, command, place, whole)
    check(name, command, place, whole)
    return endings


def check(name: str, command: Command, place: Path, whole: dict[str, bytes]) -> None:
    """Run a command to its end, and compare what it leaves; the next begins anew."""
    if not command.goes_on:
        shutil.rmtree(place / OUT, ignore_errors=True)
    assert run(command, place) == 0, f"{name} does not go on: {Path(f'{place}.errors').read_text()}"
    left = contents(place / OUT)
    assert left.keys() == whole.keys(), f"{name}: {left.keys() ^ whole.keys()}"
    differ = [path for path in whole if left[path] != whole[path]]
    assert not differ, f"{name}: {differ} are others than of the undisturbed command"
    assert {path.name for path in place.iterdir()} == {"songs", "song.mid", "grooves", OUT}
    shutil.rmtree(place / OUT)


def main() -> int:
    """Kill and compare."""
    given = options(__doc__, times=25, only=[*COMMANDS], seed=0)
    os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads is not to be copied
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            chance = random.Random(f"{given.seed} {name}")
            endings = kill(name, Path(folder), given.times, chance)
        killed = endings.count(-signal.SIGKILL)
        print(
            f"{name}: killed {killed} times, done before in {len(endings) - killed}; all files equal, none torn.",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
