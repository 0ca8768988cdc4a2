"""`musicgen continue` and `end`: continue pieces from files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from app import output
from app.commands.making_music import (
    Failure,
    Task,
    add_options,
    continuation_task,
    request_of,
    write_all,
)
from app.options import add_tracks, tracks_of

if TYPE_CHECKING:
    from musicgen.generation.request import Request
    from musicgen.playable import Playable

EXAMPLES = """\
examples:
  musicgen continue song.mid
  musicgen continue lied.mxl --score
  musicgen continue song.mid --prompt-bars 4 --bars 32 --variations 3 --audio -o output
  musicgen continue band.mid --temperature 0.6 --seed 7
  musicgen continue prompts/*.mid --bars 16 -o output
  musicgen end song.mid --bars 4
  musicgen continue song.mid --chords "C | G7 | Am F | C"
  musicgen continue prompt.json --mirex --variations 8 -o samples
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prompts", metavar="PROMPT", nargs="+",
        help="the MIDI, MusicXML or ABC files to continue, in one batch",
    )  # fmt: skip
    parser.add_argument(
        "--prompt-bars", default="all", metavar="N|all", help="continue its first N bars"
    )
    parser.add_argument(
        "--mirex", action="store_true",
        help="read PROMPT as the JSON of MIREX's task, and write bars 5 to 16 in that form to -o: a name.json, "
        "or a folder for sample_01.json …",
    )  # fmt: skip
    add_tracks(parser)
    add_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the prompts with their continuations as NAME.prompt_cont_0.mid …, and these alone as NAME.cont_0.mid …"""
    from musicgen.pieces import read_piece
    from musicgen.playable import load

    bars, request = _bars(arguments.prompt_bars), request_of(arguments)
    model = load(arguments.model, arguments.device)
    if arguments.mirex:
        return _continue_mirex(arguments, request, model)
    tracks = tracks_of(arguments.tracks, model.language.name)
    tasks: list[Task] = []
    failed: list[Failure] = []  # a list, since a file can be given twice
    several = len(arguments.prompts) > 1
    for given in arguments.prompts:
        path = Path(given)
        name = path.name or given  # `.` has an empty name
        try:
            prompt = read_piece(model.language, path, name=name, tracks=tracks).prompt(bars)
            tasks.append(continuation_task(request, model, prompt, given, path.stem))
        except (ValueError, OSError) as error:
            if not several:
                raise
            failed.append((given, error))
        else:
            about = f"{given}: " if several else ""
            output.remark(f"{about}{message}" for message in prompt.remarks)
    write_all(arguments, *tasks, failed=failed)


def _continue_mirex(arguments: argparse.Namespace, request: Request, model: Playable) -> None:
    """Continue one prompt of MIREX's task, and write each take as its JSON."""
    from evaluation.mirex import GENERATION, PROMPT, continued, numbered, read, write

    if len(arguments.prompts) > 1:
        raise ValueError(f"--mirex takes one prompt, not {len(arguments.prompts)}")
    if request.tokens or arguments.prompt_bars != "all":
        raise ValueError("--mirex continues 5 bars by 12; leave out --tokens and --prompt-bars")
    prompt, place = read(Path(arguments.prompts[0]), PROMPT), arguments.output
    to_file = place.suffix == ".json"
    if to_file and (place.exists() or request.variations > 1):
        why = "already exists" if place.exists() else "has room for one continuation"
        raise ValueError(f"{place} {why}; give -o a folder")
    takes = continued(model, [prompt], request, output.progress_bar)[0]
    paths = [place] if to_file else numbered(place, "sample", len(takes))
    for path, notes in zip(paths, takes, strict=True):
        write(path, GENERATION, notes)
        output.write(str(path))


def _bars(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--prompt-bars is {text!r}; it must be a number of bars, or all")
    return int(text)
