"""`musicgen evaluate mirex`: check continuations for MIREX's task, and compare them with real pieces."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output
from app.commands.evaluate.study_options import add_split, command_line, seed
from app.options import add_device, check_counts

EXAMPLES = """\
In MIREX's task Symbolic Music Generation (2025), systems continue a pickup bar and four bars of piano music, given as
JSON, by twelve bars, and listeners rate them. FOLDER has a subfolder per prompt: prompt.json, real.json if the real
continuation is known, and the continuations by any system NAME as NAME_01.json, NAME_02.json, and so on. Every file is
checked against the rules of the task, and each system is compared with the real pieces.

--data adds prompts with real continuations from pieces in 4/4, up to --pieces prompts. --models adds one continuation
per prompt and model where it is missing. Existing files are kept.

examples:
  musicgen evaluate mirex prompts --data data/pop909 --models ensemble runs/mine
  musicgen evaluate mirex prompts --json
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="FOLDER", type=Path, help="folder of prompts and continuations"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DEST", help="a prepared data set, for more prompts"
    )
    parser.add_argument("--pieces", type=int, default=20, metavar="N", help="prompts to have")
    add_split(parser, "test")
    parser.add_argument(
        "--models", nargs="+", metavar="MODEL", default=[], help="models that continue the prompts"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed")
    add_device(parser)
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write missing prompts and continuations, measure all, and print the table."""
    from evaluation.mirex import TAKEN_BARS, measured, mirex_table, prompts_in, write_prompts

    check_counts(arguments, "pieces")
    folder = arguments.folder
    if arguments.data is not None:
        write_prompts(arguments.data, arguments.split, arguments.pieces, arguments.seed, folder)
    if not prompts_in(folder):
        if (data := arguments.data) is None:
            raise ValueError(f"{folder} has no prompts (NAME/prompt.json); --data adds some")
        split = arguments.split
        raise ValueError(f"{data} has no piece of {TAKEN_BARS} bars of 4/4 in its {split} split")
    for name in arguments.models:
        _continue_all(name, arguments)
    result = {"command": command_line(), **measured(folder)}
    if not result["table"]:
        raise ValueError(f"{folder} has no continuations yet; --models adds some")
    output.write_result(arguments.json, result, output.captioned(mirex_table(result["table"])))


def _continue_all(name: str, arguments: argparse.Namespace) -> None:
    """Continue each prompt that has no continuation by this model yet."""
    from evaluation.mirex import GENERATION, PROMPT, continued, prompts_in, read, write
    from musicgen.generation.request import Request
    from musicgen.playable import load

    model = load(name, arguments.device)
    label = model.name.replace(":", "-")
    paths = [place / f"{label}_01.json" for place in prompts_in(arguments.folder)]
    paths = [path for path in paths if not path.exists()]
    prompts = [read(path.parent / f"{PROMPT}.json", PROMPT) for path in paths]
    if not prompts:
        return
    request = Request(seed=arguments.seed)
    for path, notes in zip(
        paths, continued(model, prompts, request, output.progress_bar), strict=True
    ):
        write(path, GENERATION, notes)
