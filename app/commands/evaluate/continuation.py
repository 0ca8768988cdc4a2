"""`musicgen evaluate continuation`: measure how well models keep the style of the prompts that they continue."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate.study_options import KEPT, add_study, run_experiment
from app.options import check_counts, chosen_device, claim, default_folder, from_options

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from musicgen.playable import Playable

EXAMPLES = """\
The prompts are the first bars of the files (for models of the groove language: bass, drums and the
busiest other track). Models continue them to a fixed length, and the style of the continuations is
compared with that of the prompt and of the whole piece. The folder of -o gets the continuations as
MIDI files, continuation.png and results.json. An interrupted command resumes when it is run again.

examples:
  musicgen evaluate continuation ensemble --prompts midi/test
  musicgen evaluate continuation runs/groove runs/mine --prompts midi/test --limit 20 -o compared
"""


def add(parser: argparse.ArgumentParser) -> None:
    from evaluation.continuation.prompts import Plan

    add_study(parser)
    parser.add_argument(
        "--prompts", type=Path, required=True, metavar="FOLDER", help="a folder of MIDI files"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR",
        help="folder to write to (default: continuation, or continuation-2, … if taken by another request)",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, metavar="N", help="use N prompts (default: all)")
    parser.add_argument(
        "--prompt-bars", type=int, default=Plan.prompt_bars, metavar="N", help="bars per prompt"
    )
    parser.add_argument(
        "--tokens", type=int, default=Plan.tokens, metavar="N",
        help="tokens of prompt and continuation together",
    )  # fmt: skip
    parser.add_argument(
        "--samples", type=int, default=Plan.samples, metavar="K", help="continuations per prompt"
    )
    parser.add_argument(
        "--temperature", type=float, default=Plan.temperature, metavar="T",
        help="temperature of sampling",
    )  # fmt: skip
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write missing continuations, measure all, write the results and print the tables."""
    from evaluation.study.experiments import models_of

    models = models_of(arguments.models, arguments.device)
    is_own = arguments.output is None
    if is_own:
        arguments.output = default_folder("continuation", arguments)
    experiment = experiment_of(models, arguments)
    if is_own:
        claim(arguments.output, arguments, KEPT)
    results = run_experiment("continuation", experiment, arguments, "Continuing")
    _write(arguments.output, results)
    figure = f"{arguments.output / 'continuation.png'} shows the quarters."
    output.write_result(arguments.json, results, "\n\n".join(tables(results)), figure)


def experiment_of(models: Sequence[Playable], arguments: argparse.Namespace) -> Experiment:
    """Return the experiment with the models of the first one's language."""
    from evaluation.continuation.experiment import continuation
    from evaluation.continuation.prompts import Plan

    plan, device = from_options(Plan, arguments), chosen_device(arguments)
    check_counts(arguments, "limit")
    with output.progress_bar("Reading prompts") as progress:
        return continuation(
            models, arguments.prompts, plan, folder=arguments.output, device=device,
            limit=arguments.limit, progress=progress,
        )  # fmt: skip


def _write(folder: Path, results: dict[str, Any]) -> None:
    from evaluation.continuation.results import continuation
    from evaluation.figures import png
    from tokenization.whole_file import write_bytes, write_json

    write_json(folder / "results.json", results)
    write_bytes(folder / "continuation.png", png(continuation(results)))


def tables(results: dict[str, Any]) -> list[str]:
    """Format the settings and the tables of results."""
    from evaluation.continuation.results import continuation_tables
    from tokenization.wording import counted

    plan = results["settings"]
    samples = counted(plan["samples"], "continuation")
    prompts, styles = counted(results["prompts"], "prompt"), counted(results["styles"], "style")
    settings = (
        f"{prompts} in {styles}, {samples} per prompt at temperature {plan['temperature']:g}, "
        f"up to {plan['tokens']} tokens.\n"
        "Means over styles with 95 % intervals; n if fewer styles have a value."
    )
    return [settings, *map(output.captioned, continuation_tables(results))]
