"""`musicgen evaluate plan`: how well a plan that is asked for is followed."""

from __future__ import annotations

import argparse

from app.commands.evaluate.study_options import add_whole_pieces, chosen, run_and_print
from app.options import check_counts

EXAMPLES = """\
Real pieces are continued from their first bars, once freely and once for each thing that can be asked of bars:
density, register, loudness (another value for each four bars) and a form, A A B A. Measured is how what was asked
agrees with what was written, and for comparison with what was written freely.

examples:
  musicgen evaluate plan ensemble --data data/pop909
  musicgen evaluate plan runs/mine --data data/lieder --pieces 10 --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_whole_pieces(parser, 20, split="test")
    parser.add_argument("--prompt-bars", type=int, default=8, metavar="N", help="bars given")
    parser.add_argument("--bars", type=int, default=16, metavar="N", help="written")
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Ask, measure, and print the table."""
    from evaluation.study.form_and_infilling import plan

    check_counts(arguments, "prompt-bars", "bars", "pieces")
    models, choice = chosen(arguments)
    experiment, facts = plan(models, choice, prompt_bars=arguments.prompt_bars, bars=arguments.bars)
    run_and_print("plan", experiment, facts, arguments, "Continuing")
