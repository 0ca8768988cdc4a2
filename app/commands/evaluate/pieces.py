"""What the evaluations of whole pieces have in common: their options, and the tables that they print."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate.default_data import add_data, data_of
from app.commands.evaluate.study_options import add_choice, add_study, command_line, conducted
from app.compute_options import chosen_device

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from evaluation.study.piece_jobs import Choice
    from musicgen.playable import Playable


def add_pieces(
    parser: argparse.ArgumentParser, pieces: int, *, split: str = "validation", of: str = ""
) -> None:
    """Declare which pieces are taken."""
    add_study(parser, results="the results as JSON and CSV")
    add_data(parser, of)
    add_choice(parser, pieces, split)


def chosen(arguments: argparse.Namespace) -> tuple[list[Playable], Choice]:
    """Return the models that are measured, with which pieces and how."""
    from evaluation.study.models import models_of
    from evaluation.study.piece_jobs import Choice

    models = models_of(arguments.models)
    return models, Choice(
        data=str(arguments.data or data_of(models)),
        pieces=arguments.pieces,
        split=arguments.split,
        seed=arguments.seed,
        device=chosen_device(arguments),
    )


def run_and_print(
    name: str,
    experiment: Experiment,
    facts: Mapping[str, Any],
    arguments: argparse.Namespace,
    doing: str,
) -> None:
    """Do the work and print a row a model and measure."""
    from evaluation.tables.whole_pieces import whole_pieces_table
    from tokenization.wording import counted

    results, failures = conducted({name: experiment}, arguments, doing)
    found = results[name]
    output.remark([*facts["left_out"], *failures])
    if not found["models"]:
        raise ValueError("no model could be measured" + "".join(f"; {why}" for why in failures))
    if not any(model["table"] for model in found["models"]):  # as where no part is to be hidden
        raise ValueError(
            f"in none of the {facts['pieces']} pieces of {facts['data']} is there anything to measure: "
            "a part that is hidden has another one beside it"
        )
    result = {"command": command_line(), **facts, **found, "failures": failures}
    if arguments.output is not None:
        _write(arguments.output, name, result)
    if arguments.json:
        output.write_json(result)
        return
    output.write(output.captioned(whole_pieces_table(name, found)))
    output.remark([f"{counted(facts['pieces'], 'piece')} of {facts['data']}."])


def _write(folder: Path, name: str, result: dict[str, Any]) -> None:
    from evaluation.tables.whole_pieces import whole_pieces_rows
    from tokenization.whole_file import write_csv, write_json

    write_json(folder / f"{name}.json", result)
    write_csv(folder / f"{name}.csv", whole_pieces_rows(name, result))
