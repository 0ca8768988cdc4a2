"""`musicgen models`: the models that come along, and others by their folders."""

from __future__ import annotations

import argparse
from pathlib import Path
from textwrap import fill
from typing import Any

from app import output

EXAMPLES = """\
examples:
  musicgen models
  musicgen models runs/my-run --json
"""
SAID = {"chords": "keep to chords", "plan": "follow a plan"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="*", metavar="FOLDER", help="further models: folders, or runs"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print a paragraph a model."""
    from musicgen.playable import UNTRAINED, described, folder_of, models

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
    output.write("\n\n".join(map(_about, rows)))


def _about(row: dict[str, Any]) -> str:
    """Return what a model plays, can do and has learned from, in lines that fit a terminal."""
    from musicgen.playable import DEFAULT

    loss = row["validation_loss"]
    facts = (
        f"plays {row['plays']}",
        f"can {', '.join(SAID.get(name) or name for name in row['can'])}",
        f"{row['parameters']:,} weights, {row['encoding']}, trained on {row['trained_length']:,} tokens"
        + ("" if loss is None else f", loss {loss:.3f} nats a token"),
        f"learned from {row['data'] or 'data that its card does not name'}",
    )
    lines = [
        fill(output.visible(fact), output.COLUMNS, initial_indent="  ", subsequent_indent="    ")
        for fact in facts
    ]
    default = " (the default)" if row["name"] == DEFAULT else ""
    return "\n".join([f"{output.visible(row['name'])}{default}", *lines])
