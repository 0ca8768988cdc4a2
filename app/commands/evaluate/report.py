"""`musicgen evaluate report`: put all evaluations of models on one page."""

from __future__ import annotations

import argparse
import re
import shlex
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate import studies
from app.commands.evaluate.study_options import (
    add_split,
    add_study,
    command_line,
    run_experiments,
)
from app.options import default_folder, resumed_by

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from musicgen.playable import Playable

EXAMPLES = """\
DIR gets index.html, a page that needs no network, and all results in results.json. Measurements are
kept: an interrupted command resumes when it is run again with the same -o, and an additional model costs
only its own measurements.

examples:
  musicgen evaluate report ensemble --data data/pop909
  musicgen evaluate report ensemble runs/groove -o report --data data/pop909 data/groove
  musicgen evaluate report ensemble -o report --data data/quartets --listen 4
  musicgen evaluate report runs/groove --benchmarks runs/listops runs/pathfinder
"""
WHOLE_PIECES = ("continuation", "form", "infilling", "accompaniment", "takes")
SOUNDS = "sounds"  # the subfolder of the output folder with the takes to listen to


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR",
        help="folder to write to, and to resume from (default: report, or report-2, … if that exists)",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[], metavar="DEST",
        help="prepared data sets; each is used by the models of its language",
    )  # fmt: skip
    parser.add_argument(
        "--whole", type=int, default=8, metavar="N",
        help="pieces of each data set to continue, fill in and accompany (default: 8; 0 for none)",
    )  # fmt: skip
    parser.add_argument(
        "--listen", type=int, default=0, metavar="N",
        help="pieces of each data set to hear in every ability; 10 MB of sound per minute (default: none)",
    )  # fmt: skip
    parser.add_argument(
        "--benchmarks", type=Path, nargs="+", default=[], metavar="FOLDER",
        help="results of `musicgen benchmark … -o FOLDER`, to include their tables",
    )  # fmt: skip
    parser.add_argument(
        "--length", type=int, metavar="N",
        help="tokens to read of each piece (default: 4 times the trained length)",
    )  # fmt: skip
    parser.add_argument("--pieces", type=int, default=32, metavar="N", help="pieces to read")
    add_split(parser)
    add_study(parser)


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing, and write the page."""
    from evaluation.report import page
    from evaluation.study.experiments import model_fields, models_of
    from musicgen.common.machine import machine
    from tokenization.records import json_of
    from tokenization.whole_file import write_json, write_text

    for name in ("whole", "listen"):
        if (number := getattr(arguments, name)) < 0:
            raise ValueError(f"--{name} is {number}; it must be 0 or more")
    playables = models_of(arguments.models, arguments.device)
    benchmarks = [
        {"folder": str(folder), **json_of(folder / "benchmark.json")}
        for folder in arguments.benchmarks
    ]
    arguments.output = arguments.output or default_folder("report")
    experiments: dict[str, Experiment] = {}
    left_out: list[str] = []
    for kind, folder, models, options in _evaluations(playables, arguments):
        words = [*(model.given for model in models), *options, "--seed", str(arguments.seed)]
        name = kind if folder is None else f"{kind} on {folder}"
        try:
            experiment = _experiment(kind, models, words, arguments)
        except ValueError as error:
            if kind not in WHOLE_PIECES:
                raise
            left_out.append(f"{name} is left out: {error}")  # e.g. no long piece
            continue
        command = shlex.join(["musicgen", "evaluate", kind, *words])
        facts = {**experiment.facts, "kind": kind, "command": command}
        experiments[name] = replace(experiment, facts=facts)
    output.remark([resumed_by(arguments.output)])
    found, failures = run_experiments(experiments, arguments, "Measuring")
    output.remark([*left_out, *failures])
    results = {
        "command": command_line(),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "models": [
            {
                **model_fields(playable),
                "given": playable.given,
                "parameters": playable.parameters,
                "config": playable.config,
                "training": playable.training,
            }
            for playable in playables
        ],
        "experiments": [*found.values()],
        "benchmarks": benchmarks,
        "left_out": [*left_out, *failures],
    }
    takes = _taken_out(results["experiments"])
    write_json(arguments.output / "results.json", results)
    write_text(arguments.output / "index.html", page(results))
    if takes:
        _write_sounds(arguments.output, takes)
    output.write(str(arguments.output / "index.html"))


def _evaluations(
    playables: list[Playable], arguments: argparse.Namespace
) -> Iterator[tuple[str, Path | None, list[Playable], list[str]]]:
    """Yield the evaluations of a report: kind, data set, models and options."""
    from tokenization.prepared import Prepared

    for folder in arguments.data:
        language = Prepared.open(folder).language
        able = [playable for playable in playables if playable.language.name == language.name]
        if not able:
            raise ValueError(f"{folder} is in {language.name}, which no model uses")
        asked = ["--data", str(folder), "--split", arguments.split]
        length = [] if arguments.length is None else ["--length", str(arguments.length)]
        for kind in ("extrapolation", "ablation"):
            yield kind, folder, able, [*asked, "--pieces", str(arguments.pieces), *length]
        possible = {
            "form": language.name != "groove",  # whose pieces are too short for returns
            "infilling": "end" in language.abilities,
            "accompaniment": bool(language.parts),
        }
        for kind in WHOLE_PIECES:
            pieces = arguments.listen if kind == "takes" else arguments.whole
            if pieces and possible.get(kind, True):
                yield kind, folder, able, [*asked, "--pieces", str(pieces)]
    yield "positions", None, playables, ["-o", "positions"]


def _experiment(
    kind: str, playables: list[Playable], words: list[str], arguments: argparse.Namespace
) -> Experiment:
    """Return the experiment of this command line, on the report's device and in its folder."""
    parser = argparse.ArgumentParser()
    studies.add(parser, kind)
    asked = parser.parse_args(words)
    asked.evaluation, asked.device = kind, arguments.device
    asked.output = arguments.output / kind
    return studies.experiment_of(playables, asked)


def _taken_out(results: list[dict[str, Any]]) -> dict[str, bytes]:
    """Take the MIDI files out of the results, and name them there: file without suffix → its content."""
    files = {}
    for result in results:
        for model in result["models"] if result["kind"] == "takes" else ():
            for take in model["rows"]:
                about = (PurePath(result["data"]).name, model["model"], take["piece"])
                name = re.sub(r"[^\w.+-]+", "-", "-".join((*about, take["ability"])))
                take["file"] = f"{SOUNDS}/{len(files) + 1}-{name}"
                files[take["file"]] = b64decode(take.pop("midi"))
    return files


def _write_sounds(folder: Path, files: dict[str, bytes]) -> None:
    """Write the takes as MIDI and WAV files."""
    from app.audio import render_to
    from tokenization.whole_file import make_folder, write_bytes

    make_folder(folder / SOUNDS, "name another one")
    with output.progress_bar("audio: files") as show:
        for number, (file, midi) in enumerate(files.items(), 1):
            write_bytes(folder / f"{file}.mid", midi)
            render_to(folder / f"{file}.wav", midi)
            show(number, len(files))
