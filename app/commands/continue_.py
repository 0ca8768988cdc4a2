"""`musicgen continue`: a piece goes on."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output
from app.commands.making_music import add_options, make, options_of

EXAMPLES = """\
examples:
  musicgen continue song.mid
  musicgen continue lied.mxl --score
  musicgen continue song.mid --prompt-bars 4 --bars 32 --variations 3 --audio -o output
  musicgen continue band.mid --model groove --temperature 0.8 --seed 7
  musicgen continue song.mid --bars 8 --end
  musicgen continue song.mid --chords "C | G/B | Am F | C"
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "prompt", metavar="PROMPT", help="the MIDI, MusicXML or ABC file to go on with"
    )
    parser.add_argument(
        "--prompt-bars",
        default="all",
        metavar="N|all",
        help="go on from its first N bars (default: all)",
    )
    parser.add_argument(
        "--tracks",
        nargs="+",
        metavar="TRACK",
        help="tracks to use, as `musicgen tokenize` takes them",
    )
    add_options(parser)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Write NAME.cont_0.mid …, the continuations, and NAME.prompt_cont_0.mid …, with the prompt."""
    from app.track_choice import tracks_of
    from musicgen.loading import load
    from musicgen.pieces import read_piece

    bars, options = _bars(arguments.prompt_bars), options_of(arguments)
    path = Path(arguments.prompt)
    model = load(arguments.model, arguments.device)
    tracks = tracks_of(arguments.tracks, model.language.name)
    name = path.name or arguments.prompt  # of a folder, such as `.`
    prompt = read_piece(model.language, path, name=name, tracks=tracks).prompt(bars)
    output.remark(prompt.remarks)
    make(arguments, options, model, prompt, path.stem)


def _bars(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--prompt-bars is {text!r}; it is a number of bars, or all")
    return int(text)
