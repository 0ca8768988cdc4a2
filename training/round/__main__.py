"""A round of training on a GPU machine without network (docs/gpu-round.md).

python -m training.round pack CONFIG build/round [--set KEY=VALUE …]
python3 build/round/run.py --seconds 480 --out OUT
python -m training.round unpack OUT runs/NAME
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from training.config import read_named
from training.round.pack import pack, unpack
from training.round.run import Round


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "run":
            return Round(given).run()
        if given.command == "pack":
            size = pack(
                read_named(given.config, given.changes),
                given.folder,
                int(given.part_mb * 1e6),
                given.weights,
            )
            print(f"{given.folder}: {size / 1e6:.1f} MB")
        else:
            for key, value in unpack(given.folder, given.run).items():
                print(f"{key}: {value}")
        return 0
    except (ValueError, OSError) as error:
        print(f"round: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.round", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    pack = commands.add_parser("pack", help="make the folder to copy to the GPU machine")
    pack.add_argument("config", help="a configuration, or the folder of a run to continue")
    pack.add_argument("folder", type=Path)
    pack.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    pack.add_argument("--part-mb", type=float, default=15.0, help="largest file of the weights")
    pack.add_argument(
        "--weights", choices=["bfloat16", "int8"], default="bfloat16", help="type of the weights"
    )
    run = commands.add_parser("run", help="train on the GPU machine")
    run.add_argument("folder", type=Path)
    run.add_argument("--out", type=Path, required=True, help="folder for the results")
    run.add_argument("--seconds", type=float, default=480.0, help="of training")
    run.add_argument("--within", type=float, help="seconds in all (default: 100 more)")
    run.add_argument(
        "--batch", type=int, help="sequences per step (default: the fastest that fits)"
    )
    run.add_argument("--most-batch", type=int, default=64, help="largest batch to try")
    run.add_argument("--device", default="auto")
    run.add_argument("--precision", default="bf16-mixed")
    run.add_argument("--compile", choices=["auto", "yes", "no"], default="auto")
    run.add_argument("--workers", type=int, help="processes that prepare batches")
    run.add_argument("--part-mb", type=float, default=15.0, help="largest file of the results")
    run.add_argument("--total-mb", type=float, default=60.0, help="all results together")
    run.add_argument("--files", type=int, default=8, help="largest number of files")
    unpack = commands.add_parser("unpack", help="turn the results into a run")
    unpack.add_argument("folder", type=Path)
    unpack.add_argument("run", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
