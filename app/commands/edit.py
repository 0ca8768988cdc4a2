"""`musicgen edit`: change a file, MIDI or MusicXML, and keep everything else in it."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output

if TYPE_CHECKING:
    from tokenization.changes import Change
    from tokenization.score import Score

EXAMPLES = """\
examples:
  musicgen edit song.mid --transpose 2
  musicgen edit song.mid --transpose -12 --parts Bass --bars 9-12 -o lower.mid
  musicgen edit song.mid --velocity 80% --parts Drums
  musicgen edit song.mid --tempo 96 --bars 17-
  musicgen edit song.mid --speed 1.1 --key "G minor"
  musicgen edit song.mid --metre 3/4
  musicgen edit song.mid --instrument violin --parts Lead
  musicgen edit band.mid --only Bass Drums --cut 9-16 -o excerpt.mid
  musicgen edit band.mid --drop Strings
  musicgen edit band.mid --name "Lead Vocal" --parts 0
  musicgen edit song.mid --changes changes.json
"""
CHANGES = "a list of changes as JSON (tokenization/changes.py), in ticks and tracks of the file"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", type=Path, help="MIDI or MusicXML")
    parser.add_argument("-o", "--output", type=Path, help="(default: FILE_edited)")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    where = parser.add_argument_group("what is edited (by default, the whole piece)")
    where.add_argument(
        "--parts", nargs="+", metavar="PART", help="tracks, for example Bass, drums or 0"
    )
    where.add_argument("--bars", metavar="A-B", help="bars, from 1; 9- for all from bar 9 on")
    how = parser.add_argument_group("edits, in this order")
    how.add_argument("--transpose", type=int, metavar="N", help="semitones, but not of drums")
    how.add_argument(
        "--velocity", metavar="V", help="add to velocities (5, -5) or scale them (80%%)"
    )
    how.add_argument(
        "--delete", action="store_true", help="delete the notes of these bars or parts"
    )
    how.add_argument("--tempo", type=float, metavar="BPM", help="quarter notes per minute")
    how.add_argument("--speed", type=float, metavar="X", help="scale the tempo")
    how.add_argument("--key", help='key signature, such as "E♭" or "G minor"')
    how.add_argument("--metre", metavar="N/D", help="time signature")
    how.add_argument("--instrument", help="of General MIDI, by name or number from 0")
    how.add_argument("--volume", type=int, metavar="V", help="0 … 127")
    how.add_argument("--name", help="name of the parts")
    how.add_argument("--changes", type=Path, metavar="JSON", help=CHANGES)
    how.add_argument("--cut", metavar="A-B", help="keep only these bars")
    how.add_argument("--order", nargs="+", metavar="PART", help="these parts first")
    how.add_argument("--drop", nargs="+", metavar="PART", help="delete tracks")
    how.add_argument("--only", nargs="+", metavar="PART", help="delete all other tracks")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Change a file."""
    from tokenization.edit import NotKept
    from tokenization.formats import changed, read_file
    from tokenization.limits import GENEROUS, read_source
    from tokenization.whole_file import write_whole

    source: Path = arguments.file
    target: Path = arguments.output or source.with_stem(f"{source.stem}_edited")
    name, data = read_source(source, GENEROUS, None)
    score = read_file(data, name=name, suffix=source.suffix)
    made = changes_of(arguments, score)
    if not made:
        raise ValueError("there is nothing to edit: give an edit such as --transpose 2")
    try:
        data = changed(data, made, suffix=source.suffix)
    except NotKept as error:
        raise ValueError(f"{source} cannot hold these edits: {error}") from None
    write_whole(target, data, new=not arguments.force)
    output.write_result(arguments.json, {"file": str(target), "changes": len(made)}, str(target))


def changes_of(arguments: argparse.Namespace, score: Score) -> list[Change]:
    """Return the changes of a score that the options ask for."""
    from tokenization import changes

    start, stop = ticks_of(arguments.bars, score)
    span: dict[str, Any] = {"start": start, "stop": stop}
    parts = None if arguments.parts is None else tracks_of(arguments.parts, score)
    each = range(len(score.tracks)) if parts is None else parts
    found: list[Change] = []
    if arguments.transpose is not None:
        found.append(changes.Transpose(semitones=arguments.transpose, tracks=parts, **span))
    if arguments.velocity is not None:
        found.append(replace(velocity_of(arguments.velocity), tracks=parts, **span))
    if arguments.delete:
        found.append(changes.Delete(tracks=parts, **span))
    if arguments.tempo is not None:
        found.append(changes.Tempo(bpm=arguments.tempo, **span))
    if arguments.speed is not None:
        found.append(changes.Tempo(times=arguments.speed, **span))
    if arguments.key is not None:
        fifths, minor = key_of(arguments.key)
        found.append(changes.Key(fifths=fifths, minor=minor, **span))
    if arguments.metre is not None:
        beats, unit = metre_of(arguments.metre)
        found.append(changes.Metre(beats=beats, unit=unit, **span))
    for track in each:
        if arguments.instrument is not None:
            program = program_of(arguments.instrument)
            found.append(changes.Program(track=track, program=program))
        if arguments.volume is not None:
            found.append(changes.Volume(track=track, volume=arguments.volume))
        if arguments.name is not None:
            found.append(changes.Name(track=track, name=arguments.name))
    if arguments.changes is not None:
        plain = json.loads(arguments.changes.read_text(encoding="utf-8"))
        found += changes.changes_from(plain)
    if arguments.cut is not None:
        start, stop = ticks_of(arguments.cut, score)
        found += [changes.Cut(start=stop)] if stop is not None else []
        found += [changes.Cut(start=0, stop=start)] if start else []
    return [*found, *_of_tracks(arguments, score)]


def _of_tracks(arguments: argparse.Namespace, score: Score) -> Iterable[Change]:
    """Return the changes that renumber the tracks; they come last, and later ones use the new numbers."""
    from tokenization import changes

    left = [*range(len(score.tracks))]
    if arguments.order is not None:
        first = tracks_of(arguments.order, score)
        left = [*first, *(track for track in left if track not in first)]
        yield changes.Order(tracks=tuple(left))
    gone: set[int] = set()
    if arguments.drop is not None:
        gone |= {*tracks_of(arguments.drop, score)}
    if arguments.only is not None:
        gone |= {*left} - {*tracks_of(arguments.only, score)}
    if gone:
        yield changes.Drop(tracks=tuple(left.index(track) for track in sorted(gone)))


def ticks_of(bars: str | None, score: Score) -> tuple[int, int | None]:
    """Return the ticks of bars such as 9-12, 9 or 9-; raises ValueError if the piece lacks them."""
    from tokenization.analysis.metres import bar_count, bar_lines

    if bars is None:
        return 0, None
    found = re.fullmatch(r"(\d{1,6})(?:(-)(\d{1,6})?)?", bars.strip())
    if not found:
        raise ValueError(f"bars are {bars!r}; give such as 9-12, 9 or 9-")
    first, last = int(found[1]), int(found[3] or (0 if found[2] else found[1]))
    count = bar_count(score)
    if not 1 <= first <= (last or count) <= count:
        raise ValueError(f"bars {bars} are not within the {count} bars of the piece")
    lines = bar_lines(score, count).tolist()
    is_end = last in (0, count)
    return int(lines[first - 1]), None if is_end else int(lines[last])


def tracks_of(names: Sequence[str], score: Score) -> tuple[int, ...]:
    """Return the tracks with some names, numbers or instruments; raises ValueError if one is missing."""
    from tokenization.ensemble.naming import parts_named

    found = parts_named(score.tracks, names)
    if any(not isinstance(part, int) for part in found):
        known = ", ".join(f"{n} ({track.name})" for n, track in enumerate(score.tracks))
        raise ValueError(f"the piece has no part {' '.join(names)}; it has {known}")
    return tuple(part for part in found if isinstance(part, int))


def velocity_of(text: str) -> Any:
    """Return the change of velocities for such as 5, -5 or 80%."""
    from tokenization.changes import Velocity

    if found := re.fullmatch(r"(\d{1,3}(?:\.\d+)?)%", text.strip()):
        return Velocity(times=float(found[1]) / 100)
    if re.fullmatch(r"[+-]?\d{1,3}", text.strip()):
        return Velocity(plus=int(text))
    raise ValueError(f"velocity is {text!r}; give such as 5, -5 or 80%")


def key_of(text: str) -> tuple[int, bool]:
    """Return the sharps (or, negative, flats) of a key such as Eb or G minor, and whether it is minor."""
    found = re.fullmatch(r"([A-Ga-g])([#♯b♭]?)\s*(m|minor|min|major|maj|)", text.strip())
    if not found:
        raise ValueError(f'key is {text!r}; give such as "Eb" or "G minor"')
    is_minor = found[3] in ("m", "minor", "min")
    fifths = "FCGDAEB".index(found[1].upper()) - 1
    fifths += 7 * ((found[2] in "#♯") - (found[2] in "b♭")) if found[2] else 0
    return fifths - 3 * is_minor, is_minor


def metre_of(text: str) -> tuple[int, int]:
    """Return the numbers of a time signature."""
    found = re.fullmatch(r"(\d{1,2})/(\d{1,2})", text.strip())
    if not found:
        raise ValueError(f"metre is {text!r}; give such as 3/4")
    return int(found[1]), int(found[2])


def program_of(text: str) -> int:
    """Return a program of General MIDI by its number from 0 or its name."""
    from tokenization.ensemble.naming import parts_named
    from tokenization.score import Track

    if text.isdecimal():
        return int(text)
    (part,) = parts_named((), [text])
    if not isinstance(part, Track) or part.is_drum:
        raise ValueError(f"{text} is no instrument; give one of General MIDI, such as violin")
    return part.program
