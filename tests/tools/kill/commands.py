"""Kill commands at random moments, run each again until it is done, and compare with one that was left alone.

    python -m tests.tools.kill.commands --times 25

Preparing data, evaluating and continuing, each so often, as `run.py` does with training.
"""

import shutil
import sys
from pathlib import Path

from tests.tools.kill.run import OUT, Command, main
from tests.training.data.sources import on_disk as disk

SEEDS = Path(__file__).parents[2] / "seeds"


def songs(folder: Path) -> None:
    """Write what is prepared."""
    disk.midi_folder(folder / "songs", 6)


def song(folder: Path) -> None:
    """Write what is continued."""
    shutil.copy(SEEDS / "pop909_001.mid", folder / "song.mid")


def grooves(folder: Path) -> None:
    """Write what is evaluated."""
    (folder / "grooves").mkdir()
    for name in ("a", "b"):
        shutil.copy(SEEDS / "groove.mid", folder / "grooves" / f"{name}.mid")


COMMANDS = {
    "data": Command(
        words=("data", "midi", "songs", OUT, "--workers", "1", "--force"),
        material=songs, operations=40, seconds=3.0,
    ),
    "evaluate": Command(
        words=(
            "evaluate", "continuation", "untrained:tiny:groove", "--prompts", "grooves", "--tokens", "340",
            "--samples", "2", "--workers", "1", "--device", "cpu", "-o", OUT,
        ),
        material=grooves, operations=90, seconds=5.0,
    ),
    "continue": Command(
        words=(
            "continue", "song.mid", "--model", "untrained:tiny", "--bars", "2", "--variations", "2",
            "--score", "--seed", "7", "-o", OUT,
        ),
        material=song, operations=40, seconds=4.0, goes_on=False,
    ),
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(COMMANDS, __doc__, times=25))
