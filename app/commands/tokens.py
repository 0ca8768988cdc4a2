"""`musicgen tokenize` and `detokenize`: a piece as readable tokens, in lines or JSON, and back."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.options import add_language, add_tracks, tracks_of

if TYPE_CHECKING:
    import numpy as np

    from tokenization.groove.language import Band
    from tokenization.language import Language

EXAMPLES = """\
examples:
  musicgen tokenize song.mid
  musicgen tokenize song.mid --tracks Melody Piano
  musicgen tokenize band.mid --language groove --tracks bass=2 drums=Kit other=3,4
  musicgen tokenize song.mid --json > song.json
  musicgen detokenize song.json -o song.mid
  musicgen tokenize song.mid --json | musicgen detokenize - -o again.mid
"""
STANDARD_INPUT = "-"
MOST_BYTES = 1 << 26  # more than the JSON of the longest token sequence that is read
MOST_TOKENS = 1 << 21
MOST_BRACKETS = 10_000  # in JSON, which has only lists of plain values
NO_SETTING = (
    "These tokens do not contain instruments, loudness and tempo, so defaults are used; "
    "the JSON of `musicgen tokenize --json` keeps them."
)


def add(parser: argparse.ArgumentParser) -> None:
    if parser.get_default("command") == "tokenize":
        parser.add_argument(
            "file", metavar="FILE", help="a MIDI, MusicXML or ABC file; - is the standard input"
        )
        add_language(parser, "ensemble")
        add_tracks(parser)
    else:
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
    """Print the tokens, one line per bar, or write the file of tokens."""
    if arguments.command == "tokenize":
        _tokenize(arguments)
    else:
        _detokenize(arguments)


def read_input(file: str, most_bytes: int) -> tuple[bytes, str]:
    """Read a file or the standard input, up to one byte more than allowed; return its bytes and its name in errors."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(most_bytes + 1), "the standard input"
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {file}: check its name and folder")
    if not path.is_file():
        raise ValueError(f"{file} is a folder or a device, not a file")
    with path.open("rb") as content:
        return content.read(most_bytes + 1), file


def _tokenize(arguments: argparse.Namespace) -> None:
    from tokenization.formats import read_file
    from tokenization.language import language
    from tokenization.limits import GENEROUS
    from tokenization.wording import counted

    chosen = language(arguments.language)
    tracks = tracks_of(arguments.tracks, chosen.name)
    if arguments.file == STANDARD_INPUT:
        data, name = read_input(STANDARD_INPUT, GENEROUS.bytes)
        score = read_file(data, name=name)
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


def _detokenize(arguments: argparse.Namespace) -> None:
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
    language, ids, setting = _read_tokens(text, name, arguments.language)
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


def _read_tokens(
    text: str, name: str, language_name: str | None
) -> tuple[Language, np.ndarray, Band | None]:
    """Return the language, the checked tokens and the setting of text or JSON; errors mention its `name`."""
    from tokenization.language import language

    content = _content(text, name) if text.lstrip().startswith("{") else {}
    words = content["tokens"] if content else text.split(maxsplit=MOST_TOKENS)
    if len(words) > MOST_TOKENS:
        raise ValueError(f"{name} has more than {MOST_TOKENS:,} tokens; use a part of it")
    words = [str(word) for word in words]
    if not words:
        raise ValueError(f"{name} has no tokens; use the output of `musicgen tokenize`")
    chosen = language(language_name or str(content.get("language") or _language_of(words, name)))
    ids = _checked_ids(chosen, words, name)
    return chosen, ids, _setting_of(chosen, content.get("setting"), name)


def _content(text: str, name: str) -> dict[str, Any]:
    if text.count(",") > 4 * MOST_TOKENS or text.count("[") + text.count("{") > MOST_BRACKETS:
        raise ValueError(
            f"{name} looks like JSON, but not of `musicgen tokenize`: it has too many lists or values"
        )
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} looks like JSON, but is not valid: {error}") from None
    if not isinstance(content.get("tokens"), list):
        raise ValueError(f'{name} lacks the list "tokens" that `musicgen tokenize` writes')
    return content


def _language_of(words: Sequence[str], name: str) -> str:
    """Return the language that has most of the words as tokens."""
    from tokenization.language import LANGUAGES, language
    from tokenization.wording import listed

    known = {
        each: sum(word in language(each).vocabulary.ids for word in words) for each in LANGUAGES
    }
    best = max(known, key=lambda each: known[each])
    if not known[best]:
        raise ValueError(
            f"{name} has no tokens of the languages {listed([*LANGUAGES])}; "
            "use the output of `musicgen tokenize`"
        )
    return best


def _checked_ids(chosen: Language, words: Sequence[str], name: str) -> np.ndarray:
    import numpy as np

    known, ids = chosen.vocabulary.ids, []
    for index, word in enumerate(words):
        if word not in known:
            raise ValueError(
                f"token {index + 1} of {name} is {word[:40]!r}, which is not a token of the language {chosen.name}"
            )
        ids.append(known[word])
    fault = chosen.validate(np.array(ids, dtype=np.int64))
    if fault:
        raise ValueError(f"token {fault.position + 1} of {name} is wrong: {fault.reason}")
    return np.array(ids, dtype=np.uint16)


def _setting_of(chosen: Language, plain: Any, name: str) -> Band | None:
    """Build the setting that groove keeps outside its tokens from plain data."""
    from tokenization.groove.language import Band
    from tokenization.records import from_plain

    if plain is None or chosen.name != "groove":
        return None
    return from_plain(Band, plain, f"{name}: setting")
