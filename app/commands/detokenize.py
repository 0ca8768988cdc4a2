"""`musicgen detokenize`: write tokens, given as text or JSON, as a MIDI file, or MusicXML by how its name ends."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output
from app.options import add_language, read_given

EXAMPLES = """\
examples:
  musicgen detokenize song.txt -o song.mid
  musicgen tokenize song.mid --json | musicgen detokenize - -o again.mid
"""
MOST_BYTES = 1 << 26  # the JSON of as many tokens as are read, and room
NO_SETTING = (
    "Instruments, loudness and tempo are not among these tokens, so usual ones are taken; "
    "the JSON of `musicgen tokenize --json` keeps them."
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="what `musicgen tokenize` printed; - is the standard input"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT.mid", required=True, help="the file to write"
    )
    add_language(parser, None, otherwise="the one that has these tokens")
    parser.add_argument("--force", action="store_true", help="replace OUT.mid if it exists")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the file and say what is in it."""
    from app.token_text import read_tokens
    from tokenization.formats import write_score
    from tokenization.midi.writing import write_midi
    from tokenization.whole_file import write_whole
    from tokenization.wording import counted

    target = Path(arguments.output)
    if target.is_file() and not arguments.force:
        raise ValueError(f"{target} exists; choose another name, or replace it with --force")
    data, name = read_given(arguments.file, MOST_BYTES)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{name} has more than {MOST_BYTES >> 20} MB; give a part of it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not text; give what `musicgen tokenize` prints") from None
    speaker, ids, setting = read_tokens(text, name, arguments.language)
    score = speaker.decode(ids, setting)
    if not len(score.notes):
        raise ValueError(f"the tokens of {name} make no note, so there is nothing to write")
    if target.suffix:
        write_score(target, score, new=not arguments.force)
    else:
        write_whole(target, write_midi(score), new=not arguments.force)
    if setting is None and speaker.name == "groove":
        output.remark([NO_SETTING])
    bars, notes = len(speaker.bars(ids)), len(score.notes)
    result = {"midi": str(target), "language": speaker.name, "notes": notes, "bars": bars}
    text = f"{target}: {counted(notes, 'note')} in {counted(bars, 'bar')}"
    output.write_either(arguments.json, result, text)
