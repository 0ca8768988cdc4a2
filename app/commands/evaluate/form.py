"""`musicgen evaluate form`: what returns, how chords move and how it ends, compared with real pieces."""

from __future__ import annotations

import argparse

from app.commands.evaluate.study_options import add_bars, add_whole_pieces, chosen, run_and_print

EXAMPLES = """\
Real pieces are continued from their first bars. Measured of the bars written, and of the same bars of the
piece: how many have most of an earlier bar (returns) or all of one (repeats), how like phrases of 8 bars are
to earlier ones, how many bars go round in circles, how much phrases differ in height (contrast) and in notes
(swell), notes and chord changes a bar, bass notes on bar lines. Of a model that can end a piece, how many of
the signs of an end its last bar shows, compared with the real last bar and a bar in the middle.

examples:
  musicgen evaluate form runs/mine --data data/pop909
  musicgen evaluate form groove --data data/groove --prompt-bars 4 --bars 28 --pieces 40 --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_whole_pieces(parser, 20)
    add_bars(parser, 56)
    parser.add_argument(
        "--piece-bars", type=int, metavar="N",
        help="bars after the prompt that pieces have at least, to write more than they have (default: as are written)",
    )  # fmt: skip
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Continue, measure, and print the tables."""
    from evaluation.study.form_and_infilling import form

    models, choice = chosen(arguments)
    prompt_bars, bars = arguments.prompt_bars, arguments.bars
    experiment, facts = form(
        models, choice, prompt_bars=prompt_bars, bars=bars, piece_bars=arguments.piece_bars
    )
    run_and_print("form", experiment, facts, arguments, "Continuing")
