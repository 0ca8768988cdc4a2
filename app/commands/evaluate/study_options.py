"""Shared by the evaluations of models: options, finding the training data, and running the experiments."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.options import add_device, add_workers, workers_of

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment


KEPT = ".results"  # the subfolder of the output folder with all measurements


def add_study(parser: argparse.ArgumentParser, results: str = "", models: str = "+") -> None:
    """Declare the shared options; with `results`, a description of the files, also -o and --json.

    `models`: how many are named, as argparse writes it.
    """
    if results:
        parser.add_argument(
            "-o", "--output", type=Path, metavar="DIR",
            help=f"folder for {results}; an interrupted command resumes from it",
        )  # fmt: skip
        output.add_json(parser)
    parser.add_argument(
        "models", metavar="MODEL", nargs=models,
        help="names that `musicgen models` lists, folders, or untrained:tiny[:groove]",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed")
    add_device(parser)
    add_workers(parser)


def add_split(parser: argparse.ArgumentParser, split: str = "validation") -> None:
    """Declare --split."""
    parser.add_argument(
        "--split", choices=("train", "validation", "test"), default=split,
        help="part of the data to use",
    )  # fmt: skip


def seed(text: str) -> int:
    """Parse a seed."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def run_experiments(
    experiments: Mapping[str, Experiment], arguments: argparse.Namespace, doing: str
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Run experiments with a progress bar titled `doing`; return their results, and remarks on what failed.

    The output folder keeps the results, and those that it already has are not computed again.
    """
    from evaluation.study.experiments import conduct

    folder = getattr(arguments, "output", None)
    kept = None if folder is None else Path(folder) / KEPT
    with workers_of(arguments) as workers, output.progress_bar(doing) as progress:
        return conduct(experiments, folder=kept, workers=workers, progress=progress)


def run_experiment(
    name: str, experiment: Experiment, arguments: argparse.Namespace, doing: str
) -> dict[str, Any]:
    """Run one experiment and print remarks on what is left out; return the result with its command."""
    left_out = [*experiment.facts.get("left_out", ())]
    output.remark(left_out)
    found, failures = run_experiments({name: experiment}, arguments, doing)
    result = {"command": command_line(), **found[name], "left_out": left_out + failures}
    if not result["models"]:
        why = "; ".join(failures) or "no model has a part to remove"
        raise ValueError(f"no model could be measured: {why}")
    output.remark(failures)
    return result


def command_line() -> str:
    """Return the command line of this process."""
    return shlex.join(["musicgen", *sys.argv[1:]])
