"""`musicgen evaluate infilling`: how good bars are that a model writes into a gap."""

from __future__ import annotations

import argparse
from dataclasses import replace

from app.commands.evaluate.study_options import add_whole_pieces, chosen, run_and_print
from musicgen.generation.sampling import MUSICAL

EXAMPLES = """\
Bars in the middle of real pieces are taken out and written again. Measured are the loss of the true bars in
nats a token, with what comes after the gap and without; how many notes are the true ones (f1); how like the
style of the gap is to that around it; and the leap of the top note over the seam, in semitones.

examples:
  musicgen evaluate infilling runs/mine --data data/pop909
  musicgen evaluate infilling runs/mine --data data/mine --split test --gap 8 --pieces 40 --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_whole_pieces(parser, 20)
    parser.add_argument(
        "--gap", type=int, default=4, metavar="N", help="bars taken out, 16 at most"
    )
    parser.add_argument(
        "--recall", type=float, default=MUSICAL.recall, metavar="R",
        help="how much counts what is recalled of the piece, 0 to 1",
    )  # fmt: skip
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Fill, measure, and print the tables."""
    from evaluation.study.form_and_infilling import infilling

    if arguments.gap > 16:
        raise ValueError(f"--gap is {arguments.gap}; 16 bars at most can be filled at once")
    models, choice = chosen(arguments)
    recall = replace(MUSICAL, recall=arguments.recall).recall  # or a sentence on what is wrong
    experiment, facts = infilling(models, choice, gap=arguments.gap, recall=recall)
    run_and_print("infilling", experiment, facts, arguments, "Filling")
