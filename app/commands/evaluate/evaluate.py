"""`musicgen evaluate`: list the evaluations, and run one by name."""

from __future__ import annotations

import argparse
from importlib import import_module

# Evaluations that share a module; its `EXAMPLES` are a dictionary by name, its `add` also takes the name, and its `run`
# finds the name in `arguments.evaluation`.
SHARED: dict[str, str] = dict.fromkeys(
    (
        "continuation", "extrapolation", "ablation", "positions", "form", "infilling", "gaps", "tracks",
        "accompaniment", "plan", "realism", "originality",
    ),
    "studies",
)  # fmt: skip
# Name → summary. The module is that of SHARED, or has the name; it is built like that of a command.
EVALUATIONS = {
    "style": "compare the style of MIDI files with a reference",
    "continuation": "continue real pieces, and measure style, copying and variety",
    "extrapolation": "measure the loss by position, past the trained length",
    "ablation": "remove parts of a trained model to see what it relies on",
    "positions": "probe encodings of position, and draw templates and attention maps",
    "accompaniment": "hide parts of real pieces, and compare them with what models write in their place",
    "infilling": "remove bars from real pieces, and compare what models write instead",
    "gaps": "remove bars that come back from real pieces, and compare what models write instead",
    "tracks": "continue real pieces, and compare which of their parts play on or enter",
    "form": "continue real pieces, and compare repetition, harmony and endings",
    "realism": "train a classifier to tell written continuations from real ones",
    "listening": "count preferences in blind comparisons on the page",
    "plan": "request plans, and measure how closely the music follows them",
    "mirex": "check and measure continuations in the format of MIREX's task",
    "originality": "search the training pieces for passages that models write",
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
    for name, summary in EVALUATIONS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        kind = kinds.add_parser(name, help=summary, description=description)
        if name == called:
            module = import_module(f"app.commands.evaluate.{SHARED.get(name, name)}")
            module.add(kind, *[name] if name in SHARED else [])
            kind.epilog = module.EXAMPLES[name] if name in SHARED else module.EXAMPLES
            kind.set_defaults(evaluate=module.run, evaluation=name)


def run(arguments: argparse.Namespace) -> None:
    """Run the evaluation that the command line names."""
    arguments.evaluate(arguments)
