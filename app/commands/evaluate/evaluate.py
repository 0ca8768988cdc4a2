"""`musicgen evaluate`: the table of the evaluations, of which it runs the one that is named."""

from __future__ import annotations

import argparse
from importlib import import_module

# Name, which is that of its module here or stands in SHARED, and what it does. A module has what that of a command
# has, and imports what it computes with when it runs. In a shared one `EXAMPLES` are by name, `add` takes the name,
# too, and `run` finds it in `arguments.evaluation`.
SHARED: dict[str, str] = dict.fromkeys(
    (
        "extrapolation", "ablation", "positions", "form", "infilling", "accompaniment", "plan",
        "realism", "originality",
    ),
    "studies",
)  # fmt: skip
EVALUATIONS = {
    "style": "compare the style of MIDI files with a reference",
    "continuation": "continue the prompts of a folder, and score style and variety",
    "extrapolation": "measure the loss by position, past the trained length",
    "ablation": "take parts of a trained model away: what it relies on",
    "positions": "probe encodings of position; draw what they learned and where attention looks",
    "accompaniment": "hide a part of real pieces, and compare what models write in its place",
    "infilling": "take bars out of real pieces, and compare what models write in their place",
    "form": "continue real pieces, and compare what returns, how chords move, how it ends",
    "realism": "continue real pieces, and have a classifier tell written bars from real ones",
    "listening": "count what people preferred in blind comparisons on the page",
    "plan": "ask for plans, and compare what is written with what was asked",
    "mirex": "check and measure continuations in the form of MIREX's task",
    "originality": "continue real pieces, and look for what is written in the training pieces",
    "report": "put all evaluations of models on one page",
}
EXAMPLES = """\
examples:
  musicgen evaluate style song.mid song.cont_0.mid
  musicgen evaluate report ensemble -o report
"""


def add(parser: argparse.ArgumentParser, called: str = "") -> None:
    """Declare the evaluations, and the arguments of the one that is called."""
    kinds = parser.add_subparsers(metavar="EVALUATION", title="evaluations", required=True)
    for name, does in EVALUATIONS.items():
        kind = kinds.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.")
        if name == called:
            module = import_module(f"app.commands.evaluate.{SHARED.get(name, name)}")
            module.add(kind, *[name] if name in SHARED else [])
            kind.epilog = module.EXAMPLES[name] if name in SHARED else module.EXAMPLES
            kind.set_defaults(evaluate=module.run, evaluation=name)


def run(arguments: argparse.Namespace) -> None:
    """Run the evaluation that was called."""
    arguments.evaluate(arguments)
