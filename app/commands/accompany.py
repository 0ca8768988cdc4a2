"""`musicgen accompany` and `harmonise`: write new parts for a piece, whose other parts stay note for note."""

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
        "--write", nargs="+", metavar="PART",
        help="the parts to write: drums, chords, bass, guitar or any other instrument; existing ones are replaced",
    )  # fmt: skip
    add_tracks(parser)
    add_options(parser, lengths=False)


def run(arguments: argparse.Namespace) -> None:
    """Write NAME.accompany_0.mid …, the whole piece with the new parts."""
    from musicgen.continuation import accompaniment
    from musicgen.playable import load

    if arguments.write is None:
        raise ValueError("no part is named; use --write drums, for example, or any instrument")
    request = request_of(arguments)
    model = load(arguments.model, arguments.device)
    piece = given_piece(arguments, model)
    work = accompaniment(model, piece, arguments.write or [_harmonising_part(piece)], request)
    write_completed(arguments, work, "accompany", piece.bars)


def _harmonising_part(piece: Piece) -> str:
    """Return a piano, or a guitar if the piece already has a piano."""
    pianos = range(8)  # MIDI programs
    return (
        "nylon guitar" if any(track.program in pianos for track in piece.score.tracks) else "piano"
    )
