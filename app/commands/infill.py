"""`musicgen infill`: some bars of a piece are written anew, every note outside them stays."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from app import output
from app.commands.takes import add_options, do, fit, wish_of

EXAMPLES = """\
examples:
  musicgen infill song.mid --range 9-12
  musicgen infill song.mid --range 5-8 --variations 3 --audio -o output
  musicgen infill band.mid --range 3 --model my-groove --seed 7
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("piece", metavar="FILE.mid", help="the MIDI file of the piece")
    parser.add_argument(
        "--range", required=True, metavar="FIRST-LAST", help="the bars to write, as in 9-12"
    )
    parser.add_argument(
        "--tracks",
        nargs="+",
        metavar="TRACK",
        help="tracks to use, as `musicgen tokenize` takes them",
    )
    add_options(parser, lengths=False)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Write NAME.infill_0.mid …, the whole piece with these bars written anew."""
    from app.completion import Completion
    from app.models import load
    from app.service import longest_ticks, read_piece
    from app.track_choice import tracks_of

    (first, last), wish = _bars(arguments.range), wish_of(arguments)
    path = Path(arguments.piece)
    model = load(arguments.model, arguments.device)
    tracks = tracks_of(arguments.tracks, model.language.name)
    piece = read_piece(model.language, path, name=path.name, tracks=tracks)
    ids = piece.encoded.ids
    longest = longest_ticks(model, ids, piece.score)
    goal = model.language.infilling(ids, first - 1, last, longest_ticks=longest)
    output.remark(piece.remarks)
    name = f"{fit(path.stem)}.infill_"
    do(
        arguments,
        Completion(model, piece, goal, wish, {"written_bars": [first, last]}),
        round(len(ids) / piece.bars * (last - first + 1)),
        (name,),
        lambda take, number: {f"{name}{number}": take.whole},
    )


def _bars(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise ValueError(f"--range is {text!r}; it is the first and the last bar to write, as 9-12")
    return first, last
