"""`musicgen data make-groove`: a groove set that anybody can make, by MMA."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from app import output
from app.counts import check_counts
from app.progress import progress_bar

NAME = "make-groove"
DOES = "make a groove set with MMA, an accompaniment program, over chord charts"
EXAMPLES = """\
examples:
  musicgen data make-groove grooves --seed 7                          # over progressions made here
  musicgen data make-groove grooves --seed 7 --chords POP909.tar.xz   # over the chords of songs
  musicgen data groove grooves data/groove                            # then prepare it

The same seed gives the same bytes, from the same charts and the same MMA (Debian package: mma).
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("destination", metavar="DEST", type=Path, help="the folder to write")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all draws")
    parser.add_argument(
        "--chords", type=Path, metavar="SOURCE",
        help="POP909 or the McGill Billboard annotations, a folder or archive (default: progressions made here)",
    )  # fmt: skip
    parser.add_argument(
        "--styles", type=int, metavar="N", help="at most so many styles (default: all)"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Make the set and say what is in it."""
    from tokenization.wording import counted
    from training.data.archive import unpacked
    from training.making.groove_set import make_groove_set

    if arguments.seed < 0:
        raise ValueError(f"--seed is {arguments.seed}; it must be 0 or more")
    check_counts(arguments, "styles", "workers")
    with progress_bar("Making grooves") as progress:
        settings = {
            "seed": arguments.seed,
            "most": arguments.styles,
            "workers": arguments.workers,
            "progress": progress,
        }
        if arguments.chords is None:
            made = make_groove_set(arguments.destination, None, **settings)
        else:
            with unpacked(arguments.chords) as (folder, _):
                made = make_groove_set(arguments.destination, folder, **settings)
    if arguments.json:
        output.write_json({"folder": str(arguments.destination), **asdict(made)})
        return
    rows = [("split", "files"), *made.files.items()]
    output.write(f"{arguments.destination}: checksum {made.checksum}\n{output.table(rows)}")
    left_out = counted(made.left_out, "style")
    output.remark([f"Left out: {left_out}: no groove of bass, drums and another track, or a twin."])
