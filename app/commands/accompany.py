"""`musicgen accompany`: write parts of a piece to its other parts, which stay note for note."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.commands.making_music import add_options, given_piece, request_of, write_completed
from app.options import add_tracks

if TYPE_CHECKING:
    from musicgen.pieces import Piece

EXAMPLES = """\
examples:
  musicgen accompany band.mid --write drums
  musicgen accompany band.mid --write bass drums --variations 3 --audio -o output
  musicgen accompany song.mid --write violin "nylon guitar"
  musicgen accompany band.mid --write drums --tracks 2 Piano
  musicgen harmonise melody.mid
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("piece", metavar="FILE", help="the piece: a MIDI, MusicXML or ABC file")
    parser.add_argument(
        "--write",
        nargs="+",
        metavar="PART",
        help="the parts to write: drums, chords, bass, guitar, any instrument; one that the piece has is replaced",
    )
    add_tracks(parser)
    add_options(parser, lengths=False)


def run(arguments: argparse.Namespace) -> None:
    """Write NAME.accompany_0.mid …, the given parts with those that were written."""
    from musicgen.completion import accompaniment
    from musicgen.playable import load

    if arguments.write is None:
        raise ValueError("no part is named: --write drums, say, or any instrument")
    request = request_of(arguments)
    model = load(arguments.model, arguments.device)
    piece = given_piece(arguments, model)
    work = accompaniment(model, piece, arguments.write or [_other_than(piece)], request)
    write_completed(arguments, work, "accompany", piece.bars)


def _other_than(piece: Piece) -> str:
    """Return the instrument that harmonises a piece: a piano, or a guitar where a piano plays already."""
    pianos = range(8)
    return (
        "nylon guitar" if any(track.program in pianos for track in piece.score.tracks) else "piano"
    )
