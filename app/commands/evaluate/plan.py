"""`musicgen evaluate plan`: how well a plan that is asked for is followed."""

from __future__ import annotations

import argparse

from app.commands.evaluate.study_options import add_bars, add_whole_pieces, chosen, run_and_print

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
    add_bars(parser, 16)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Ask, measure, and print the table."""
    from evaluation.study.form_and_infilling import plan

    models, choice = chosen(arguments)
    experiment, facts = plan(models, choice, prompt_bars=arguments.prompt_bars, bars=arguments.bars)
    run_and_print("plan", experiment, facts, arguments, "Continuing")
