"""`musicgen detokenize`: write tokens, given as text or JSON, as a MIDI or MusicXML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output
from app.options import add_language, read_input

EXAMPLES = """\
examples:
  musicgen detokenize song.txt -o song.mid
  musicgen tokenize song.mid --json | musicgen detokenize - -o again.mid
"""
MOST_BYTES = 1 << 26  # more than the JSON of the longest token sequence that is read
NO_SETTING = (
    "These tokens do not contain instruments, loudness and tempo, so defaults are used; "
    "the JSON of `musicgen tokenize --json` keeps them."
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="output of `musicgen tokenize`; - is the standard input"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT.mid", required=True,
        help="the file to write, in the format of its suffix: MIDI or MusicXML",
    )  # fmt: skip
    add_language(parser, None, otherwise="detected from the tokens")
    parser.add_argument("--force", action="store_true", help="replace OUT.mid if it exists")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the file, and print how many notes and bars it has."""
    from app.token_text import read_tokens
    from tokenization.formats import write_score
    from tokenization.midi.writing import write_midi
    from tokenization.whole_file import write_whole
    from tokenization.wording import counted

    target = Path(arguments.output)
    if target.is_file() and not arguments.force:
        raise ValueError(f"{target} exists; choose another name, or replace it with --force")
    data, name = read_input(arguments.file, MOST_BYTES)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{name} has more than {MOST_BYTES >> 20} MB; use a part of it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not text; use the output of `musicgen tokenize`") from None
    language, ids, setting = read_tokens(text, name, arguments.language)
    score = language.decode(ids, setting)
    if not len(score.notes):
        raise ValueError(f"the tokens of {name} contain no notes, so there is nothing to write")
    if target.suffix:
        write_score(target, score, new=not arguments.force)
    else:
        write_whole(target, write_midi(score), new=not arguments.force)
    if setting is None and language.name == "groove":
        output.remark([NO_SETTING])
    bars, notes = len(language.bars(ids)), len(score.notes)
    result = {"midi": str(target), "language": language.name, "notes": notes, "bars": bars}
    text = f"{target}: {counted(notes, 'note')} in {counted(bars, 'bar')}"
    output.write_result(arguments.json, result, text)
