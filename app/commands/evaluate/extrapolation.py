"""`musicgen evaluate extrapolation`: the loss by position, within the trained length and past it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate.default_data import add_data, data_of
from app.commands.evaluate.study_options import (
    add_choice,
    add_study,
    chosen_device,
    command_line,
    conducted,
)
from app.counts import check_counts
from app.progress import progress_bar

if TYPE_CHECKING:
    from evaluation.study.experiments import HeldOut
    from musicgen.playable import Playable

EXAMPLES = """\
A model reads held-out pieces and predicts each next token; given is the loss in nats a token: mean
± deviation over pieces, within the trained length, to 1.5 times it, and further. Growth is by how
much more a loss grows past the trained length than that of the models on average ± standard error.

examples:
  musicgen evaluate extrapolation pop-piano
  musicgen evaluate extrapolation runs/ape runs/sine --data data/pop909 --length 3072 -o compared
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    add_pieces(parser)
    add_study(parser, results="extrapolation.json, .csv, .svg and .png")
    parser.epilog = EXAMPLES


def add_pieces(parser: argparse.ArgumentParser) -> None:
    """Declare on which pieces models are tried."""
    parser.add_argument(
        "--length",
        type=int,
        metavar="N",
        help="tokens a piece (default: 4 times the trained length)",
    )
    add_choice(parser, 32)


def run(arguments: argparse.Namespace) -> None:
    """Measure, write and print."""
    from evaluation.study.losses import extrapolation
    from evaluation.study.models import models_of
    from evaluation.tables.losses import extrapolation_table
    from tokenization.wording import counted

    named = models_of(arguments.models)
    folder = arguments.data or data_of(named)
    playables, pieces, left_out = tried(named, folder, arguments)
    output.remark(left_out)
    experiment = extrapolation(
        playables, pieces, seed=arguments.seed, device=chosen_device(arguments.device)
    )
    with progress_bar("Reading pieces") as progress:
        found, failures = conducted({"extrapolation": experiment}, arguments, progress)
    output.remark(failures)
    result = found["extrapolation"]
    if not result["models"]:
        raise ValueError("no model could be measured; the sentences above say why")
    result = {"command": command_line(), **result, "left_out": left_out + failures}
    if arguments.output is not None:
        _write(arguments.output, result)
    if arguments.json:
        output.write_json(result)
    else:
        output.write(output.captioned(extrapolation_table(result)))
        data = result["data"]
        said = (
            f"{counted(data['pieces'], 'piece')} of {folder}, {data['whole']} of the whole length."
        )
        output.remark([said])


def tried(
    playables: list[Playable], data: Path, arguments: argparse.Namespace
) -> tuple[list[Playable], HeldOut, list[str]]:
    """Return the models that speak the language of the data, the pieces for them, and who is left out."""
    from evaluation.study.experiments import default_length, held_out, language_of_data, speaking

    check_counts(arguments, "length", "pieces")
    language = language_of_data(data)
    able, left_out = speaking(playables, language, str(data))
    if not able:
        raise ValueError(
            f"{data} is in {language}, which none of the models speaks; give other data"
        )
    length = arguments.length or default_length(able)
    pieces = held_out(data, length, arguments.pieces, arguments.split, arguments.seed)
    return able, pieces, left_out


def _write(folder: Path, result: dict[str, Any]) -> None:
    from evaluation.plots.figures import extrapolation
    from evaluation.plots.style import png, svg
    from evaluation.tables.losses import extrapolation_rows, position_rows
    from tokenization.whole_file import write_bytes, write_csv, write_json, write_text

    write_json(folder / "extrapolation.json", result)
    write_csv(folder / "extrapolation.csv", extrapolation_rows(result))
    write_csv(folder / "extrapolation_by_position.csv", position_rows(result))
    drawn = extrapolation(result)
    write_bytes(folder / "extrapolation.png", png(drawn))
    write_text(folder / "extrapolation.svg", svg(drawn, "extrapolation"))
