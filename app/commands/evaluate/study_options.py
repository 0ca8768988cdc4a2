"""What the evaluations of models have in common: their options, and doing their jobs."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate.default_data import data_of
from app.compute_options import add_device, add_workers, chosen_device, workers_of
from app.counts import check_counts
from app.progress import progress_bar

if TYPE_CHECKING:
    from evaluation.continuation.plan import Plan
    from evaluation.continuation.prompts import PromptedPiece
    from evaluation.study.experiments import Experiment, HeldOut
    from musicgen.playable import Playable
    from tokenization.language import Language

KEPT = ".results"  # the folder of what was measured, inside that of the output


def add_study(parser: argparse.ArgumentParser, results: str = "") -> None:
    """Declare what all take; with `results`, the folder that such files go to, and --json instead of it."""
    if results:
        parser.add_argument(
            "-o", "--output", type=Path, metavar="DIR",
            help=f"folder for {results}; interrupted, it goes on there",
        )  # fmt: skip
        output.add_json(parser)
    parser.add_argument(
        "models", metavar="MODEL", nargs="+",
        help="models of `musicgen models`, folders, or untrained:tiny[:groove]",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of all that is drawn")
    add_device(parser)
    add_workers(parser)


def add_choice(parser: argparse.ArgumentParser, pieces: int, split: str = "validation") -> None:
    """Declare how many pieces are taken, and from which part of the data."""
    parser.add_argument("--pieces", type=int, default=pieces, metavar="N", help="how many")
    parser.add_argument(
        "--split", choices=("train", "validation", "test"), default=split, help="part of the data"
    )


def add_pieces(parser: argparse.ArgumentParser) -> None:
    """Declare on which pieces models are tried."""
    parser.add_argument(
        "--length",
        type=int,
        metavar="N",
        help="tokens a piece (default: 4 times the trained length)",
    )
    add_choice(parser, 32)


def seed(text: str) -> int:
    """Read a seed as it is typed."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed, which is a whole number, 0 or more")
    return int(text)


def conducted(
    experiments: Mapping[str, Experiment], arguments: argparse.Namespace, doing: str
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the results of experiments, and sentences about what failed; results in the output folder are kept.

    A bar shows how far `doing` it has come.
    """
    from evaluation.study.experiments import conduct

    folder = getattr(arguments, "output", None)
    kept = None if folder is None else Path(folder) / KEPT
    workers = workers_of(arguments)
    with progress_bar(doing) as progress:
        return conduct(experiments, folder=kept, workers=workers, progress=progress)


def command_line() -> str:
    """Return the command that is running."""
    return shlex.join(["musicgen", *sys.argv[1:]])


def models_and_pieces(
    playables: list[Playable], data: Path, arguments: argparse.Namespace
) -> tuple[list[Playable], HeldOut, list[str]]:
    """Return the models that speak the language of the data, the pieces for them, and who is left out."""
    from evaluation.study.experiments import default_length, held_out, speaking
    from tokenization.set_description import read_meta

    check_counts(arguments, "length", "pieces")
    language = read_meta(data)["language"]["language"]
    able, left_out = speaking(playables, language, str(data))
    if not able:
        raise ValueError(
            f"{data} is in {language}, which none of the models speaks; give other data"
        )
    length = arguments.length or default_length(able)
    pieces = held_out(data, length, arguments.pieces, arguments.split, arguments.seed)
    return able, pieces, left_out


def read_by_models(
    kind: str, make: Callable[..., Experiment], arguments: argparse.Namespace, doing: str
) -> dict[str, Any]:
    """Return the result of an experiment in which the models read pieces, after remarks on what it does without."""
    from evaluation.study.models import models_of

    named = models_of(arguments.models)
    data = arguments.data or data_of(named)
    playables, pieces, left_out = models_and_pieces(named, data, arguments)
    output.remark(left_out)
    experiment = make(playables, pieces, seed=arguments.seed, device=chosen_device(arguments))
    found, failures = conducted({kind: experiment}, arguments, doing)
    output.remark(failures)
    return {"command": command_line(), **found[kind], "left_out": left_out + failures}


def prompts_of(
    arguments: argparse.Namespace, plan: Plan, language: Language
) -> tuple[list[PromptedPiece], list[str]]:
    """Return the prompts of the folder that is named, and sentences on the files that give none."""
    from evaluation.continuation.prompts import read_prompts

    with progress_bar("Reading prompts") as progress:
        return read_prompts(
            arguments.prompts,
            language,
            bars=plan.prompt_bars,
            tokens=plan.tokens,
            limit=arguments.limit,
            progress=progress,
        )
