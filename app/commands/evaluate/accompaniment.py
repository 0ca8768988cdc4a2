"""`musicgen evaluate accompaniment`: how like the real part is one that a model writes to the others."""

from __future__ import annotations

import argparse

from app.commands.evaluate.study_options import add_whole_pieces, chosen, run_and_print

EXAMPLES = """\
Of each held-out piece the busiest bass, drums and other part are hidden, one at a time, and written to the
other parts. The style of the new part is compared with the hidden part's, and for reference with that of the
piece's next bars, of another piece of the style, and of another style: mean ± deviation over styles, and the
number of styles in which the written part is nearer than another piece's.

examples:
  musicgen evaluate accompaniment runs/mine --data data/groove
  musicgen evaluate accompaniment runs/mine --data data/groove --hide drums --bars 16 --pieces 40 --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from evaluation.accompaniment import ROLES

    add_whole_pieces(parser, 20, split="test")
    parser.add_argument(
        "--hide", nargs="+", choices=ROLES, default=list(ROLES), metavar="PART",
        help=f"the parts to hide, one at a time: {', '.join(ROLES)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--bars", type=int, default=8, metavar="N", help="of a piece")
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Write the parts, compare, and print the tables."""
    from evaluation.study.accompaniment import accompaniment

    models, choice = chosen(arguments)
    experiment, facts = accompaniment(models, choice, hide=arguments.hide, bars=arguments.bars)
    run_and_print("accompaniment", experiment, facts, arguments, "Accompanying")
