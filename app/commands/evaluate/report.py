"""`musicgen evaluate report`: every evaluation of some models on one page."""

from __future__ import annotations

import argparse
import platform
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
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
    prompts_of,
)
from app.options import check_counts, chosen_device, claim, from_options, own_folder

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from musicgen.playable import Playable

    # Its kind, the data set that it is on, the experiment, and the command for it alone.
    Made = tuple[str, str | Path | None, Experiment, str]

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
BY_DATA = ("extrapolation", "ablation")
WHOLE_PIECES = ("form", "infilling", "accompaniment")
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
    for make in (_by_data, _positions, _whole_pieces, _continuation):
        for found in make(playables, arguments):
            if isinstance(found, str):
                left_out.append(found)
                continue
            kind, folder, experiment, command = found
            facts = {**experiment.facts, "kind": kind, "command": command}
            name = kind if folder is None else f"{kind} on {folder}"
            experiments[name] = replace(experiment, facts=facts)
    if is_own:
        claim(arguments.output, arguments, KEPT)
    found, failures = conducted(experiments, arguments, "Measuring")
    sentences = [*left_out, *failures]
    output.remark(sentences)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for result in found.values():
        by_kind.setdefault(result["kind"], []).append(result)
    (continuation,) = by_kind.get("continuation", [{}])
    continuation.pop("measured", None)
    results = {
        "command": command_line(),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": _machine(),
        "models": [facts_of(playable) for playable in playables],
        **{kind: by_kind.get(kind, []) for kind in BY_DATA},
        "positions": found["positions"],
        "whole_pieces": [result for result in found.values() if result["kind"] in WHOLE_PIECES],
        "continuation": continuation if continuation.get("models") else None,
        "benchmarks": benchmarks,
        "missing": MISSING,
        "left_out": sentences,
    }
    _write(arguments.output, results)
    output.write(str(arguments.output / "index.html"))


def _by_data(playables: list[Playable], arguments: argparse.Namespace) -> Iterator[Made | str]:
    """Yield what is measured of the loss on each data set."""
    from evaluation.study.ablation import ablation
    from evaluation.study.losses import extrapolation
    from evaluation.study.piece_jobs import Choice
    from tokenization.prepared import read_meta

    check_counts(arguments, "length", "pieces")
    for folder in arguments.data:
        language = read_meta(folder)["language"]["language"]
        if all(playable.language.name != language for playable in playables):
            yield f"{folder} is left out: it is in {language}, which none of the models uses"
            continue
        choice = from_options(Choice, arguments, data=str(folder), device=chosen_device(arguments))
        able = [playable for playable in playables if playable.language.name == language]
        for make in (extrapolation, ablation):
            experiment = make(playables, choice, length=arguments.length)
            length, others = (experiment.facts[name] for name in ("length", "left_out"))
            if len(arguments.data) == 1 and make is extrapolation:
                yield from others
            size = ["--length", str(length), "--pieces", str(arguments.pieces)]
            asked = ["--data", str(folder), "--split", arguments.split, *size]
            command = _alone(make.__name__, able, asked, arguments)
            yield make.__name__, folder, experiment, command


def _positions(playables: list[Playable], arguments: argparse.Namespace) -> Iterator[Made]:
    from evaluation.study.experiments import positions

    options = {"seed": arguments.seed, "device": chosen_device(arguments)}
    command = _alone("positions", playables, ["-o", "positions"], arguments)
    yield "positions", None, positions(playables, tokens=None, drawn=True, **options), command


def _whole_pieces(playables: list[Playable], arguments: argparse.Namespace) -> Iterator[Made | str]:
    """Yield what models of the data's language write to whole pieces, as far as they can."""
    from evaluation.study.accompaniment import ROLES, accompaniment
    from evaluation.study.form_and_infilling import form, infilling
    from evaluation.study.piece_jobs import Choice

    options = {"pieces": arguments.whole, "split": arguments.split}
    common = {**options, "seed": arguments.seed, "device": chosen_device(arguments)}
    for folder in map(str, arguments.data if arguments.whole else []):
        choice = Choice(data=folder, **common)
        language = choice.prepared.language
        able = [model for model in playables if model.language.name == language.name]
        possible = {
            # Songs are long enough to return.
            "form": (language.name != "groove", partial(form, prompt_bars=8, bars=56)),
            "infilling": (language.can_end(), partial(infilling, gap=4)),
            "accompaniment": (language.parts, partial(accompaniment, hide=ROLES, bars=8)),
        }
        asked = ["--data", folder, "--pieces", str(arguments.whole), "--split", arguments.split]
        for kind, (is_possible, make) in possible.items() if able else ():
            if is_possible:
                try:
                    yield kind, folder, make(able, choice), _alone(kind, able, asked, arguments)
                except ValueError as error:  # no piece has so many bars
                    yield f"{kind} on {folder} is left out: {error}"


def _benchmarks(folders: list[Path]) -> list[dict[str, Any]]:
    """Return what finished benchmarks left, each with what its task is."""
    from evaluation.benchmarks.run import read_summary
    from evaluation.benchmarks.tasks import TASKS

    found = [{"folder": str(folder), **read_summary(folder)} for folder in folders]
    return [{**one, "what": TASKS[one["task"]].about} for one in found]


def _continuation(playables: list[Playable], arguments: argparse.Namespace) -> Iterator[Made | str]:
    """Yield the groove experiment of the SPE paper, if there are prompts, and what is left out.

    Those are continued by the models that speak groove, else by those of the first one's language.
    """
    from evaluation.continuation.experiment import continuation
    from evaluation.continuation.prompts import Plan
    from evaluation.study.experiments import speaking

    if arguments.prompts is None:
        return
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
    yield from left_out + refused
    yield "continuation", None, made, command


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
