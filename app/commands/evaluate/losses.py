"""The evaluations in which models read held-out pieces: `musicgen evaluate extrapolation` and `ablation`.

The first gives the loss by position, within the trained length and past it; the second by how much the loss changes
without each part of a trained model.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app import output
from app.commands.evaluate.study_options import (
    add_choice,
    add_data,
    add_length,
    add_study,
    command_line,
    conducted,
    data_of,
    models_and_pieces,
    write_results,
)
from app.options import chosen_device

EXAMPLES = {
    "extrapolation": """\
A model reads held-out pieces and predicts each next token; given is the loss in nats a token: mean
± deviation over pieces, within the trained length, to 1.5 times it, and further. Growth is by how
much more a loss grows past the trained length than that of the models on average [95 % interval].
Later parts of pieces may be harder by themselves: --control predicts what lies past the trained
length once more, each token from the last ones alone, from half as many as the model was trained
with to all of them. Below 0, all that was before helps: length does no harm.

examples:
  musicgen evaluate extrapolation ensemble
  musicgen evaluate extrapolation ensemble --length 8192 --control
  musicgen evaluate extrapolation runs/ape runs/sine --data data/pop909 --length 3072 -o compared
""",
    "ablation": """\
Held-out pieces are read by the model as it is and without a part of it: with the gates of a stochastic
encoding open, which lets no position through; with all tokens at one position; with the frequencies
shuffled among features and heads; with other noise drawn; without what its metric heads find; with
heads that forget nothing. Given is by how much the loss changes, in nats a token, within the trained
length and past it, with the 95 % interval of the mean over pieces. The model has not learned to do
without the part: it is what the model relies on.

examples:
  musicgen evaluate ablation ensemble --data data/pop909
  musicgen evaluate ablation ensemble --layers --pieces 12
  musicgen evaluate ablation runs/none runs/sine --data data/groove --length 1024 --json
""",
}
# Of each evaluation: what its progress bar says, what is written with -o, and an option of its own.
EVALUATIONS = {
    "extrapolation": (
        "Reading pieces",
        "extrapolation.json, .csv, .svg and .png",
        ("control", "predict what lies past the trained length from the last tokens alone, too"),
    ),
    "ablation": (
        "Taking parts away",
        "ablation.json and .csv",
        ("layers", "take away one layer at a time instead of parts"),
    ),
}


def add(parser: argparse.ArgumentParser, name: str) -> None:
    _, results, (option, does) = EVALUATIONS[name]
    add_data(parser)
    add_length(parser)
    add_choice(parser, 32)
    parser.add_argument(f"--{option}", action="store_true", help=does)
    add_study(parser, results=results)


def run(arguments: argparse.Namespace) -> None:
    """Measure, write and print."""
    from evaluation import tables
    from evaluation.study.ablation import ablation
    from evaluation.study.experiments import models_of
    from evaluation.study.losses import extrapolation
    from tokenization.wording import counted

    name: str = arguments.evaluation
    doing, _, (option, _) = EVALUATIONS[name]
    named = models_of(arguments.models)
    data = arguments.data or data_of(named)
    models, pieces, left_out = models_and_pieces(named, data, arguments)
    output.remark(left_out)
    make: Any = {"extrapolation": extrapolation, "ablation": ablation}[name]
    how = {option: getattr(arguments, option), "seed": arguments.seed}
    experiment = make(models, pieces, device=chosen_device(arguments), **how)
    found, failures = conducted({name: experiment}, arguments, doing)
    output.remark(failures)
    result = {"command": command_line(), **found[name], "left_out": left_out + failures}
    if not result["models"]:
        raise ValueError("no model could be measured, or no model has a part to take away")
    tabled, rows = {
        "extrapolation": (tables.extrapolation_table, tables.extrapolation_rows),
        "ablation": (tables.ablation_table, tables.ablation_rows),
    }[name]
    if arguments.output is not None:
        write_results(arguments.output, name, result, rows(result))
    text = output.captioned(tabled(result))
    if name == "ablation":
        output.write_either(arguments.json, result["models"], text)
        return
    if arguments.output is not None:
        _write_curves(arguments.output, result)
    data = result["data"]
    pieces = f"{counted(data['pieces'], 'piece')} of {data['folder']}"
    whole = f"{pieces}, {data['whole']} of the whole length."
    output.write_either(arguments.json, result, text, whole)


def _write_curves(folder: Path, result: dict[str, Any]) -> None:
    from evaluation.figures import extrapolation
    from evaluation.plots import png, svg
    from evaluation.tables import position_rows
    from tokenization.whole_file import write_bytes, write_csv, write_text

    write_csv(folder / "extrapolation_by_position.csv", position_rows(result))
    drawn = extrapolation(result)
    write_bytes(folder / "extrapolation.png", png(drawn))
    write_text(folder / "extrapolation.svg", svg(drawn, "extrapolation"))
