"""`musicgen evaluate realism`: how well 8 written bars are told from 8 real ones by their statistics."""

from __future__ import annotations

import argparse

from app.commands.evaluate.study_options import add_bars, add_whole_pieces, chosen, run_and_print

EXAMPLES = """\
Real pieces are continued from their first bars. What is written and the same bars of the piece are cut into windows
of 8 bars, and a classifier learns from some songs to tell written windows of the others from real ones, by about 25
statistics of each. AUC 1: they are always told apart; 0.5: they are indistinguishable. The table also has the AUC
without the statistics of loudness, that of two halves of the real songs (the control, about 0.5), and the statistics
that tell most.

examples:
  musicgen evaluate realism ensemble --data data/pop909
  musicgen evaluate realism runs/mine --data data/lieder --split validation --pieces 24 --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_whole_pieces(parser, 40, split="test")
    add_bars(parser, 24, "bars written, of which each 8 are a window")
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Continue, tell apart, and print the table."""
    from evaluation.study.realism import realism
    from evaluation.tables import realism_rows, realism_table

    models, choice = chosen(arguments)
    experiment, facts = realism(
        models, choice, prompt_bars=arguments.prompt_bars, bars=arguments.bars
    )
    tables = realism_table, realism_rows
    run_and_print("realism", experiment, facts, arguments, "Continuing", tables=tables)
