"""`musicgen evaluate originality`: how much of what is written stands in the music that a model learned from."""

from __future__ import annotations

import argparse

from app import output
from app.commands.evaluate.study_options import add_bars, add_whole_pieces, chosen, run_and_print

EXAMPLES = """\
Real pieces are continued from their first bars. For each two bars that are written, and for the same bars of the
piece itself, the two bars of the training pieces are found that share most notes with them, in any key. The real
pieces are held out of the training: they say how alike songs are by chance. The closest cases are named.

examples:
  musicgen evaluate originality ensemble --data data/pop909
  musicgen evaluate originality runs/mine --data data/lieder --split validation --pieces 12 --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_whole_pieces(parser, 20, split="test")
    add_bars(parser, 24)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Continue, look for what is written, and print the table and the closest cases."""
    from evaluation.study.originality import closest_cases, originality

    models, choice = chosen(arguments)
    experiment, facts = originality(
        models, choice, prompt_bars=arguments.prompt_bars, bars=arguments.bars
    )
    found = run_and_print("originality", experiment, facts, arguments, "Continuing")
    if arguments.json:
        return
    for model in found["models"]:
        output.write(f"\nclosest passages of {model['model']}")
        cases = [
            [f"{case['likeness']:.2f}", case["piece"], case["bar"] + 1, case["of"], case["at"] + 1]
            for case in closest_cases(model["rows"])
        ]
        output.write(output.table([["alike", "piece", "bar", "training piece", "bar"], *cases]))
