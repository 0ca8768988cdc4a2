"""`musicgen evaluate`: the table of the evaluations, of which it runs the one that is named."""

from __future__ import annotations

import argparse
from importlib import import_module

# Name → module and what it does. A module has `add(parser)` and `run(arguments)`, as a command has,
# and imports what it computes with when it runs.
EVALUATIONS: dict[str, tuple[str, str]] = {
    "style": ("app.commands.evaluate.style", "compare the style of MIDI files with a reference"),
    "continuation": (
        "app.commands.evaluate.continuation",
        "continue the prompts of a folder, and score style and variety",
    ),
    "extrapolation": (
        "app.commands.evaluate.extrapolation",
        "measure the loss by position, past the trained length",
    ),
    "ablation": (
        "app.commands.evaluate.ablation",
        "take parts of a trained model away: what it relies on",
    ),
    "positions": (
        "app.commands.evaluate.positions",
        "probe encodings of position; draw what they learned and where attention looks",
    ),
    "accompaniment": (
        "app.commands.evaluate.accompaniment",
        "hide a part of real pieces, and compare what models write in its place",
    ),
    "infilling": (
        "app.commands.evaluate.infilling",
        "take bars out of real pieces, and compare what models write in their place",
    ),
    "form": (
        "app.commands.evaluate.form",
        "continue real pieces, and compare what returns, how chords move, how it ends",
    ),
    "report": (
        "app.commands.evaluate.report",
        "put all evaluations of models on one page",
    ),
}
EXAMPLES = """\
examples:
  musicgen evaluate style song.mid song.cont_0.mid
  musicgen evaluate report groove -o report
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the evaluations and their arguments."""
    parser.epilog = EXAMPLES
    kinds = parser.add_subparsers(metavar="EVALUATION", title="evaluations", required=True)
    for name, (module_name, does) in EVALUATIONS.items():
        kind = kinds.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.")
        module = import_module(module_name)
        module.add(kind)
        kind.set_defaults(evaluate=module.run)


def run(arguments: argparse.Namespace) -> None:
    """Run the evaluation that was called."""
    arguments.evaluate(arguments)
