"""`musicgen accompany`: write parts of a piece to its other parts, which stay note for note."""

from __future__ import annotations

import argparse

from app.commands.making_music import add_options, completing, given_piece, options_of, write_all
from app.options import add_tracks

EXAMPLES = """\
examples:
  musicgen accompany band.mid --write drums
  musicgen accompany band.mid --write bass drums --variations 3 --audio -o output
  musicgen accompany song.mid --write violin "nylon guitar"
  musicgen accompany band.mid --write drums --tracks 2 Piano
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("piece", metavar="FILE", help="the piece: a MIDI, MusicXML or ABC file")
    parser.add_argument(
        "--write",
        nargs="+",
        required=True,
        metavar="PART",
        help="the parts to write: drums, chords, bass, guitar, any instrument; one that the piece has is replaced",
    )
    add_tracks(parser)
    add_options(parser, lengths=False)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Write NAME.accompany_0.mid …, the given parts with those that were written."""
    from musicgen.completion import accompaniment
    from musicgen.loading import load

    options = options_of(arguments)
    model = load(arguments.model, arguments.device)
    piece = given_piece(arguments, model)
    work = accompaniment(model, piece, arguments.write, options)
    write_all(arguments, completing(piece, work, "accompany", expected=2 * len(piece.encoded.ids)))
