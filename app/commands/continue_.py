"""`musicgen continue` and `end`: continue pieces from files."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output
from app.commands.making_music import (
    Task,
    add_options,
    continuation_task,
    request_of,
    write_all,
)
from app.options import add_tracks, tracks_of

EXAMPLES = """\
examples:
  musicgen continue song.mid
  musicgen continue lied.mxl --score
  musicgen continue song.mid --prompt-bars 4 --bars 32 --variations 3 --audio -o output
  musicgen continue band.mid --temperature 0.6 --seed 7
  musicgen continue prompts/*.mid --bars 16 -o output
  musicgen end song.mid --bars 4
  musicgen continue song.mid --chords "C | G7 | Am F | C"
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prompts", metavar="PROMPT", nargs="+",
        help="the MIDI, MusicXML or ABC files to continue, in one batch",
    )  # fmt: skip
    parser.add_argument(
        "--prompt-bars", default="all", metavar="N|all", help="continue its first N bars"
    )
    add_tracks(parser)
    add_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the prompts with their continuations as NAME.prompt_cont_0.mid …, and these alone as NAME.cont_0.mid …"""
    from musicgen.pieces import read_piece
    from musicgen.playable import load

    bars, request = _bars(arguments.prompt_bars), request_of(arguments)
    model = load(arguments.model, arguments.device)
    tracks = tracks_of(arguments.tracks, model.language.name)
    tasks: list[Task] = []
    unread: list[str] = []
    several = len(arguments.prompts) > 1
    for given in arguments.prompts:
        path = Path(given)
        name = path.name or given  # `.` has an empty name
        try:
            prompt = read_piece(model.language, path, name=name, tracks=tracks).prompt(bars)
            tasks.append(continuation_task(request, model, prompt, path.stem))
        except (ValueError, OSError) as error:
            if not several:
                raise
            unread.append(f"{given}: {' '.join(str(error).split())}")
        else:
            about = f"{given}: " if several else ""
            output.remark(f"{about}{message}" for message in prompt.remarks)
    if unread:
        raise ValueError(
            f"{len(unread)} of {len(arguments.prompts)} files cannot be continued: {'; '.join(unread)}"
        )
    write_all(arguments, *tasks)


def _bars(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--prompt-bars is {text!r}; it must be a number of bars, or all")
    return int(text)
