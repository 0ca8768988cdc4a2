"""`musicgen models`: list the models that are included, the user's styles, and others by their folders."""

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
ABILITIES = {"chords": "follow chords", "plan": "follow a plan"}  # where the name is not a verb


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="*", metavar="FOLDER", help="folders of further models or runs"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print one paragraph per model."""
    from musicgen.checkpoint import folder_of
    from musicgen.playable import UNTRAINED, described, readable

    if untrained := [name for name in arguments.folder if name.split(":")[0] == UNTRAINED]:
        raise ValueError(
            f"{untrained[0]} is not a folder: untrained models are made when they are used"
        )
    found, left_out = readable(described)
    rows = [*found.values()] + [
        described(Path(name).resolve().name, folder_of(name)) for name in arguments.folder
    ]
    output.remark(left_out)
    if arguments.json:
        output.write_json(rows)
        return
    if not rows:
        output.remark(["No model is included in this package; `musicgen train` makes one."])
        return
    output.write("\n\n".join(map(_about, rows)))


def _learned(style: dict[str, Any]) -> str:
    """Say from what a style was learned, and what that gained."""
    return (
        f"a style of {style['of']}, learned from {style['files']} files on {style['learned']}: on the "
        f"{style['held_out']} held out of them, loss {style['loss_after']:.3f}, before {style['loss_before']:.3f}"
    )


def _about(row: dict[str, Any]) -> str:
    """Describe a model in lines that fit a terminal."""
    from musicgen.playable import DEFAULT

    loss = row["validation_loss"]
    facts = (
        f"plays {row['plays']}",
        f"can {', '.join(ABILITIES.get(name) or name for name in row['can'])}",
        f"{row['parameters']:,} weights, {row['encoding']}, trained length {row['trained_length']:,}"
        + ("" if loss is None else f", loss {loss:.3f} nats per token"),
        f"training data: {row['data'] or 'not named in its card'}"
        if row["style"] is None
        else _learned(row["style"]),
    )
    lines = [
        fill(output.visible(fact), output.COLUMNS, initial_indent="  ", subsequent_indent="    ")
        for fact in facts
    ]
    default = " (the default)" if row["name"] == DEFAULT else ""
    return "\n".join([f"{output.visible(row['name'])}{default}", *lines])
