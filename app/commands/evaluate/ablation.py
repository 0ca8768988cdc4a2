"""`musicgen evaluate ablation`: by how much the loss changes without each part of a trained model."""

from __future__ import annotations

import argparse
from functools import partial

from app import output
from app.commands.evaluate.study_options import (
    add_data,
    add_pieces,
    add_study,
    read_by_models,
    write_results,
)

EXAMPLES = """\
Held-out pieces are read by the model as it is and without a part of it: with the gates of a stochastic
encoding open, which lets no position through; with all tokens at one position; with the frequencies
shuffled among features and heads; with other noise drawn; without what its metric heads find; with
heads that forget nothing. Given is by how much the loss changes, in nats a token, within the trained
length and past it, with the 95 % interval of the mean over pieces. The model has not learned to do
without the part: it is what the model relies on.

examples:
  musicgen evaluate ablation groove --data data/groove
  musicgen evaluate ablation ensemble --layers --pieces 12
  musicgen evaluate ablation runs/none runs/sine --data data/groove --length 1024 --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    add_pieces(parser)
    parser.add_argument(
        "--layers", action="store_true", help="take away one layer at a time instead of parts"
    )
    add_study(parser, results="ablation.json and .csv")
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Measure, write and print."""
    from evaluation.study.ablation import ablation
    from evaluation.tables import ablation_rows, ablation_table

    make = partial(ablation, layers=arguments.layers)
    result = read_by_models("ablation", make, arguments, "Taking parts away")
    if not result["models"]:
        raise ValueError("no model has a part to take away, or none could be measured")
    if arguments.output is not None:
        write_results(arguments.output, "ablation", result, ablation_rows(result))
    if arguments.json:
        output.write_json(result["models"])
    else:
        output.write(output.captioned(ablation_table(result)))
