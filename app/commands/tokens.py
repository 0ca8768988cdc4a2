"""`musicgen tokenize`: a piece as readable tokens, in lines or JSON."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from app import output
from app.options import add_language, add_tracks, tracks_of

EXAMPLES = """\
examples:
  musicgen tokenize song.mid
  musicgen tokenize song.mid --tracks Melody Piano
  musicgen tokenize band.mid --language groove --tracks bass=2 drums=Kit other=3,4
  musicgen tokenize song.mid --json > song.json
"""
STANDARD_INPUT = "-"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="a MIDI, MusicXML or ABC file; - is the standard input"
    )
    add_language(parser, "remi")
    add_tracks(parser)
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the tokens, one line per bar."""
    from tokenization.formats import read_file
    from tokenization.language import language
    from tokenization.midi.limits import GENEROUS
    from tokenization.wording import counted

    chosen = language(arguments.language)
    tracks = tracks_of(arguments.tracks, chosen.name)
    if arguments.file == STANDARD_INPUT:
        data = sys.stdin.buffer.read(GENEROUS.bytes + 1)  # a longer one is refused
        score = read_file(data, name="the standard input")
    else:
        score = read_file(arguments.file)
    arranged = chosen.arrange(score, tracks)
    encoded = chosen.encode(arranged)
    remarks = list(dict.fromkeys((*score.remarks, *arranged.remarks)))
    if arguments.json:
        output.write_json(
            {
                "language": chosen.name,
                "tokens": [chosen.vocabulary.names[i] for i in encoded.ids],
                "ids": encoded.ids.tolist(),
                "bars": encoded.bars.tolist(),
                "notes": encoded.notes,
                "losses": encoded.losses,
                "remarks": remarks,
                "setting": None if encoded.setting is None else asdict(encoded.setting),
            }
        )
        return
    output.write(chosen.text(encoded.ids))
    output.remark(remarks)
    lost = [f"{count:,} {reason}" for reason, count in encoded.losses.items()]
    losses = f"; lost: {', '.join(lost)}" if lost else ""
    output.remark([f"{counted(encoded.notes, 'note')}{losses}"])
