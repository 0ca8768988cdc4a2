"""`musicgen rewrite`: rewrite some bars of a piece and keep every note outside them."""

from __future__ import annotations

import argparse
import re

from app.commands.making_music import add_options, given_piece, request_of, write_completed
from app.options import add_tracks

EXAMPLES = """\
examples:
  musicgen rewrite song.mid --range 9-12
  musicgen rewrite song.mid --range 5-8 --variations 3 --audio -o output
  musicgen rewrite band.mid --range 3 --seed 7
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("piece", metavar="FILE", help="the piece: a MIDI, MusicXML or ABC file")
    parser.add_argument(
        "--range", required=True, metavar="FIRST-LAST", help="the bars to rewrite, such as 9-12"
    )
    add_tracks(parser)
    add_options(parser, lengths=False)


def run(arguments: argparse.Namespace) -> None:
    """Write NAME.infill_0.mid …, the whole piece with these bars rewritten."""
    from musicgen.continuation import infilling
    from musicgen.playable import load

    (first, last), request = _bars(arguments.range), request_of(arguments)
    model = load(arguments.model, arguments.device)
    piece = given_piece(arguments, model)
    work = infilling(model, piece, (first, last), request)
    # These bars may be silent: a take is written if the whole piece has notes.
    write_completed(arguments, work, "infill", last - first + 1, counts="score")


def _bars(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise ValueError(f"--range is {text!r}; it must be a first and a last bar, such as 9-12")
    return first, last
