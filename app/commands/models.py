"""`musicgen models`: the models that come along, and others by their folders."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output

EXAMPLES = """\
examples:
  musicgen models
  musicgen models runs/my-run --json
"""
COLUMNS = (
    "name", "data", "language", "encoding", "parameters", "trained_length", "validation_loss",
)  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "folder", nargs="*", metavar="FOLDER", help="further models: folders, or runs"
    )
    output.add_json(parser)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Print a row a model."""
    from musicgen.loading import UNTRAINED, described, models
    from musicgen.storage.library import folder_of

    if made := [name for name in arguments.folder if name.split(":")[0] == UNTRAINED]:
        raise ValueError(f"{made[0]} is not a folder: untrained models are made when they are used")
    rows = models() + [
        described(Path(name).resolve().name, folder_of(name)) for name in arguments.folder
    ]
    if arguments.json:
        output.write_json(rows)
        return
    if not rows:
        output.remark(["no model came with this package; `musicgen train` makes one"])
        return
    heads = [column.replace("_", " ") for column in COLUMNS]
    cells = [["–" if row[c] is None else _shown(row[c]) for c in COLUMNS] for row in rows]
    output.write(output.table([heads, *cells]))


def _shown(value: object) -> object:
    return f"{value:.3f}" if isinstance(value, float) else value
