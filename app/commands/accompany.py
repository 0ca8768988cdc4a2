"""`musicgen accompany`: parts of a piece are written to its other parts, which stay note for note."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output
from app.commands.making_music import Making, add_options, do, fit, options_of

EXAMPLES = """\
examples:
  musicgen accompany band.mid --write drums
  musicgen accompany band.mid --write bass drums --variations 3 --audio -o output
  musicgen accompany band.mid --write drums --tracks bass=2 other=Piano
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("piece", metavar="FILE.mid", help="the MIDI file of the piece")
    parser.add_argument(
        "--write",
        nargs="+",
        required=True,
        metavar="PART",
        help="the parts to write: one or two of bass, drums and other",
    )
    parser.add_argument(
        "--tracks",
        nargs="+",
        metavar="TRACK",
        help="tracks to use, as `musicgen tokenize` takes them",
    )
    add_options(parser, model="groove-2", lengths=False)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Write NAME.accompany_0.mid …, the given parts with those that were written."""
    from app.track_choice import tracks_of
    from musicgen.completion import accompaniment
    from musicgen.loading import load
    from musicgen.pieces import read_piece

    options, path = options_of(arguments), Path(arguments.piece)
    model = load(arguments.model, arguments.device)
    tracks = tracks_of(arguments.tracks, model.language.name)
    piece = read_piece(model.language, path, name=path.name, tracks=tracks)
    work = accompaniment(model, piece, arguments.write, options)
    output.remark(piece.remarks)
    name = f"{fit(path.stem)}.accompany_"
    making = Making(
        name=path.name,
        work=work,
        expected=2 * len(piece.encoded.ids),
        kinds=(name,),
        scores=lambda take, number: {f"{name}{number}": take.score},
    )
    do(arguments, making)
