"""`musicgen evaluate report`: every evaluation of some models on one page."""

from __future__ import annotations

import argparse
import platform
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate.study_options import (
    KEPT,
    add_choice,
    add_length,
    add_study,
    command_line,
    conducted,
    data_by_language,
    models_and_pieces,
    prompts_of,
)
from app.options import chosen_device, claim, own_folder

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from musicgen.playable import Playable

EXAMPLES = """\
DIR gets index.html, one page that needs no network, the numbers as CSV files, and all of them in
results.json. What was measured is kept: an interrupted command goes on, and one more model costs
only what is new.

examples:
  musicgen evaluate report ensemble
  musicgen evaluate report ensemble runs/groove -o report --data data/pop909 data/groove --prompts midi/test
  musicgen evaluate report runs/groove --benchmarks runs/listops runs/pathfinder
  musicgen evaluate report runs/* -o report --data data/groove --scheduler tcp://HOST:8786
"""
MISSING = {
    "extrapolation": "Not measured: this takes a prepared data set (--data).",
    "continuation": "Not measured: this takes a folder of MIDI files (--prompts).",
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR",
        help="folder to write to (default: report, or report-2, … if that is another's)",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[], metavar="DEST",
        help="prepared data sets, one a language, for the loss by position (default: those in ./data "
        "that the models learned from)",
    )  # fmt: skip
    parser.add_argument(
        "--prompts", type=Path, metavar="DIR", help="MIDI files to continue, for the style"
    )
    parser.add_argument("--limit", type=int, default=24, metavar="N", help="prompts")
    parser.add_argument(
        "--whole", type=int, default=8, metavar="N",
        help="pieces of each data set that are continued over many bars, filled in and accompanied, as far as "
        "models can (default: 8; 0 for none)",
    )  # fmt: skip
    parser.add_argument(
        "--benchmarks", type=Path, nargs="+", default=[], metavar="DIR",
        help="folders that `musicgen benchmark … -o DIR` has filled: their tables, with the papers' figures",
    )  # fmt: skip
    add_length(parser)
    add_choice(parser, 32)
    add_study(parser)


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing, and write the page."""
    from evaluation.study.experiments import facts_of, models_of

    if arguments.limit < 1 or arguments.whole < 0:
        raise ValueError(
            f"--limit is {arguments.limit} and --whole {arguments.whole}; they are 1, and 0, or more"
        )
    playables = models_of(arguments.models, arguments.device)
    arguments.data = arguments.data or data_by_language(playables)
    benchmarks = _benchmarks(arguments.benchmarks)
    is_own = arguments.output is None
    if is_own:
        arguments.output = own_folder("report", arguments)
    experiments: dict[str, Experiment] = {}
    left_out: list[str] = []
    for make in (_experiments, _whole_pieces, _continuation):
        made, others = make(playables, arguments)
        experiments |= made
        left_out += others
    if is_own:
        claim(arguments.output, arguments, KEPT)
    found, failures = conducted(experiments, arguments, "Measuring")
    continuation = found.get("continuation", {})
    continuation.pop("measured", None)
    sentences = [*left_out, *failures]
    output.remark(sentences)
    results = {
        "command": command_line(),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": _machine(),
        "models": [facts_of(playable) for playable in playables],
        "extrapolation": [r for name, r in found.items() if name.startswith("extrapolation")],
        "realisations": [r for name, r in found.items() if name.startswith("realisations")],
        "ablation": [r for name, r in found.items() if name.startswith("ablation")],
        "positions": found["positions"],
        "whole_pieces": [r for r in found.values() if "kind" in r],
        "continuation": continuation if continuation.get("models") else None,
        "benchmarks": benchmarks,
        "missing": MISSING,
        "left_out": sentences,
    }
    _write(arguments.output, results)
    output.write(str(arguments.output / "index.html"))


def _experiments(
    playables: list[Playable], arguments: argparse.Namespace
) -> tuple[dict[str, Experiment], list[str]]:
    """Return the experiments by name, with a command for each alone, and who is left out of them."""
    from evaluation.study.ablation import ablation
    from evaluation.study.experiments import positions
    from evaluation.study.losses import extrapolation, realisations
    from tokenization.prepared import read_meta

    options = {"seed": arguments.seed, "device": chosen_device(arguments)}
    experiments: dict[str, Experiment] = {}
    left_out: list[str] = []
    for folder in arguments.data:
        language = read_meta(folder)["language"]["language"]
        if all(playable.language.name != language for playable in playables):
            left_out.append(
                f"{folder} is left out: it is in {language}, which none of the models uses"
            )
            continue
        able, pieces, others = models_and_pieces(playables, folder, arguments)
        left_out += [] if len(arguments.data) > 1 else others
        size = ["--length", str(pieces.length), "--pieces", str(arguments.pieces)]
        asked = ["--data", str(folder), "--split", arguments.split, *size]
        for kind, make, command in (
            ("extrapolation", extrapolation, _alone("extrapolation", able, asked, arguments)),
            ("realisations", realisations, command_line()),
            ("ablation", ablation, _alone("ablation", able, asked, arguments)),
        ):
            made = make(able, pieces, **options)
            experiments[f"{kind} on {folder}"] = replace(made, beside={"command": command})
    command = _alone("positions", playables, ["-o", "positions"], arguments)
    probed = positions(playables, tokens=None, drawn=True, **options)
    experiments["positions"] = replace(probed, beside={"command": command})
    return experiments, left_out


def _whole_pieces(
    playables: list[Playable], arguments: argparse.Namespace
) -> tuple[dict[str, Experiment], list[str]]:
    """Return the experiments with whole pieces by name, and what is left out."""
    from evaluation.study.accompaniment import whole_pieces
    from evaluation.study.piece_jobs import Choice

    experiments: dict[str, Experiment] = {}
    left_out: list[str] = []
    options = {"pieces": arguments.whole, "split": arguments.split}
    common = {**options, "seed": arguments.seed, "device": chosen_device(arguments)}
    for folder in map(str, arguments.data if arguments.whole else []):
        for found in whole_pieces(playables, Choice(data=folder, **common)):
            if isinstance(found, str):
                left_out.append(found)
                continue
            kind, models, experiment, known = found
            asked = ["--data", folder, "--pieces", str(arguments.whole)]
            command = _alone(kind, models, [*asked, "--split", arguments.split], arguments)
            beside = {"kind": kind, "command": command, **known}
            experiments[f"{kind} on {folder}"] = replace(experiment, beside=beside)
    return experiments, left_out


def _benchmarks(folders: list[Path]) -> list[dict[str, Any]]:
    """Return what finished benchmarks left, each with what its task is."""
    from evaluation.benchmarks.run import read_summary
    from evaluation.benchmarks.tasks import TASKS

    found = [{"folder": str(folder), **read_summary(folder)} for folder in folders]
    return [{**one, "what": TASKS[one["task"]].about} for one in found]


def _continuation(
    playables: list[Playable], arguments: argparse.Namespace
) -> tuple[dict[str, Experiment], list[str]]:
    """Return the groove experiment of the SPE paper, if there are prompts, and what is left out.

    Those are continued by the models that speak groove, else by those of the first one's language.
    """
    from evaluation.continuation.experiment import continuation
    from evaluation.continuation.prompts import Plan
    from evaluation.study.experiments import speaking

    if arguments.prompts is None:
        return {}, []
    languages = [playable.language.name for playable in playables]
    speak = "groove" if "groove" in languages else languages[0]
    able, left_out = speaking(playables, speak, "continuation")
    plan = Plan(seed=arguments.seed)
    prompts, refused = prompts_of(arguments, plan, able[0].language)
    made = continuation(
        able,
        prompts,
        plan,
        source=arguments.prompts,
        folder=arguments.output / "continuation",
        device=chosen_device(arguments),
    )
    options = ["--prompts", str(arguments.prompts), "--limit", str(arguments.limit)]
    command = _alone("continuation", able, options, arguments)
    return {"continuation": replace(made, beside={"command": command})}, left_out + refused


def _alone(
    kind: str, models: list[Playable], options: list[str], arguments: argparse.Namespace
) -> str:
    """Return the command for an evaluation of some models alone."""
    words = [*(model.given for model in models), *options, "--seed", str(arguments.seed)]
    return shlex.join(["musicgen", "evaluate", kind, *words])


def _machine() -> dict[str, str]:
    import torch

    from musicgen.common.processes import processors

    return {
        "processors": str(processors()),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _write(folder: Path, results: dict[str, Any]) -> None:
    from evaluation.report import csv_files, page
    from tokenization.whole_file import write_csv, write_json, write_text

    write_json(folder / "results.json", results)
    for name, rows in csv_files(results).items():
        write_csv(folder / f"{name}.csv", rows)
    with output.progress_bar("Drawing: sections") as progress:
        write_text(folder / "index.html", page(results, progress))
