"""`musicgen evaluate extrapolation`: the loss by position, within the trained length and past it."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from app import output
from app.commands.evaluate.study_options import (
    add_data,
    add_pieces,
    add_study,
    read_by_models,
    write_results,
)

EXAMPLES = """\
A model reads held-out pieces and predicts each next token; given is the loss in nats a token: mean
± deviation over pieces, within the trained length, to 1.5 times it, and further. Growth is by how
much more a loss grows past the trained length than that of the models on average ± standard error.
Later parts of pieces may be harder by themselves: --control predicts what lies past the trained
length once more, each token from the last ones alone, from half as many as the model was trained
with to all of them. Below 0, all that was before helps: length does no harm.

examples:
  musicgen evaluate extrapolation pop-piano
  musicgen evaluate extrapolation ensemble --length 8192 --control
  musicgen evaluate extrapolation runs/ape runs/sine --data data/pop909 --length 3072 -o compared
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    add_pieces(parser)
    parser.add_argument(
        "--control", action="store_true",
        help="predict what lies past the trained length from the last tokens alone, too",
    )  # fmt: skip
    add_study(parser, results="extrapolation.json, .csv, .svg and .png")
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Measure, write and print."""
    from evaluation.study.losses import extrapolation
    from evaluation.tables import extrapolation_table
    from tokenization.wording import counted

    make = partial(extrapolation, control=arguments.control)
    result = read_by_models("extrapolation", make, arguments, "Reading pieces")
    if not result["models"]:
        raise ValueError("no model could be measured; the sentences above say why")
    if arguments.output is not None:
        _write(arguments.output, result)
    if arguments.json:
        output.write_json(result)
    else:
        output.write(output.captioned(extrapolation_table(result)))
        data = result["data"]
        pieces = f"{counted(data['pieces'], 'piece')} of {data['folder']}"
        output.remark([f"{pieces}, {data['whole']} of the whole length."])


def _write(folder: Path, result: dict[str, Any]) -> None:
    from evaluation.plots.figures import extrapolation
    from evaluation.plots.style import png, svg
    from evaluation.tables import extrapolation_rows, position_rows
    from tokenization.whole_file import write_bytes, write_csv, write_text

    write_results(folder, "extrapolation", result, extrapolation_rows(result))
    write_csv(folder / "extrapolation_by_position.csv", position_rows(result))
    drawn = extrapolation(result)
    write_bytes(folder / "extrapolation.png", png(drawn))
    write_text(folder / "extrapolation.svg", svg(drawn, "extrapolation"))
