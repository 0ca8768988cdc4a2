"""What the commands that make music have in common: their options, and writing what they made."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from app import output
from app.options import add_device, check_counts, from_options, tracks_of
from tokenization.whole_file import make_folder
from tokenization.wording import counted

if TYPE_CHECKING:
    from musicgen.completion import Completion
    from musicgen.continuation import MusicGeneration, Take
    from musicgen.generation.request import Request
    from musicgen.pieces import Piece, Prompt
    from musicgen.playable import Playable
    from tokenization.score import Score


MOST_DIGITS = 6  # of a number: past a longer one names would grow too long


def write_take(
    folder: Path, take: Take, stems: Mapping[str, str], number: int, *, with_score: bool
) -> tuple[int, list[Path]]:
    """Write the scores of one take, and how it was made; return its number and the MIDI files.

    A number that another command has taken meanwhile is left to it: the first file is the claim.
    """
    from tokenization.formats import write_score
    from tokenization.whole_file import write_text

    def write(path: Path, score: Score, *, new: bool = False) -> None:
        # The whole piece goes into the file that it continues; else a remark says why not.
        edit = take.edit if score is take.score else None
        remark = write_score(path, score, take.provenance, new=new, edit=edit)
        output.remark([remark] if remark else [])

    scores = [getattr(take, part) for part in stems.values()]
    while True:
        paths = [folder / f"{stem}{number}.mid" for stem in stems]
        try:
            write(paths[0], scores[0], new=True)
            break
        except FileExistsError:
            number += 1
    # A score that was given is given back as one.
    is_score = take.edit is not None and take.edit.kind == "musicxml"
    for path, score in zip(paths, scores, strict=True):
        if path != paths[0]:
            write(path, score)
        if with_score or (is_score and score is take.score):
            write(path.with_suffix(".musicxml"), score)
    facts = {**take.provenance, "tokens": take.tokens, "files": [path.name for path in paths]}
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    write_text(paths[0].with_suffix(".json"), text)
    return number, paths


def first_free(folder: Path, kinds: Iterable[str]) -> int:
    """Return the number that follows those of all files that are there and begin so.

    To some systems `Song` and `song` are one name, or the two ways in which Unicode spells é.
    """
    beginnings, taken = [_alike(kind) for kind in kinds], [-1]
    for path in folder.iterdir():
        stem = _alike(path.stem)
        for beginning in beginnings:
            number = stem.removeprefix(beginning)
            if number != stem and number.isdecimal() and len(number) <= MOST_DIGITS:
                taken.append(int(number))
    return max(taken) + 1


def _alike(name: str) -> str:
    name = os.fsencode(name).decode("utf-8", "surrogateescape")  # whatever the locale knows
    return normalize("NFC", normalize("NFC", name).casefold())


LONGEST_NAME_BYTES = 200  # of the 255 that a file's can have; `.prompt_cont_12.musicxml` follows
MOST_VARIATIONS = 1000  # each keeps its state in memory
Failure = tuple[str, Exception]  # what errors call a work, and its own
# Line ends and commands to a terminal, which a file from elsewhere may be named by, and what would be another folder.
UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029/\\]")


Options = Mapping[str, tuple[Any, str, str]]  # name → type, what stands for its value, and help
PLAN: Options = {
    "density": (float, "N", "notes a beat"),
    "register": (float, "PITCH", "MIDI pitch of the highest line"),
    "loudness": (float, "V", "mean velocity"),
    "form": (str, "LETTERS", "sections of equal length, as 'A A B A'"),
    "plan": (Path, "FILE.json", "all of these, for each bar, from a file"),
}


def add_options(parser: argparse.ArgumentParser, *, lengths: bool = True) -> None:
    """Declare what the commands take; `lengths` for those that write a given length."""
    from musicgen.generation.request import Request
    from musicgen.generation.sampling import CONTROLS
    from musicgen.playable import DEFAULT

    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path("."),
        help="folder to write to (default: the current one); files there are never overwritten",
    )  # fmt: skip
    parser.add_argument(
        "--model", default=DEFAULT, metavar="NAME|FOLDER",
        help="a model of `musicgen models`, a folder, or untrained:tiny[:groove] (default: %(default)s)",
    )  # fmt: skip
    if lengths:
        _add_lengths(parser)
    parser.add_argument(
        "--variations", type=int, default=Request.variations, metavar="K", help="how many to write"
    )
    for name, control in CONTROLS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int if control.step == 1 else float,
            default=getattr(Request.sampling, name), metavar=control.letter, help=control.help,
        )  # fmt: skip
    parser.add_argument(
        "--by-kind", action=argparse.BooleanOptionalAction,
        help="be so daring within kinds of tokens, as notes or bar lines, each as likely as the model says: as busy as "
        "that expects (default: where a gap is filled or a part is written)",
    )  # fmt: skip
    add_asked(parser, "plan", "of the new bars, by a model that plans", PLAN)
    parser.add_argument(
        "--seed", type=int, default=Request.seed, help="the same seed, the same music"
    )
    add_device(parser)
    parser.add_argument(
        "--score", action="store_true", help="write MusicXML next to each MIDI file, for score programs"
    )  # fmt: skip
    parser.add_argument("--audio", action="store_true", help="write a WAV next to each MIDI file")
    parser.add_argument("--soundfont", type=Path, metavar="FILE.sf2", help="write WAVs with it")
    output.add_json(parser)


def _add_lengths(parser: argparse.ArgumentParser) -> None:
    from musicgen.generation.request import Request

    length = parser.add_mutually_exclusive_group()
    length.add_argument("--bars", type=int, default=Request.bars, metavar="N", help="bars to write")
    length.add_argument("--tokens", type=int, metavar="N", help="tokens to write, instead of bars")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--may-end", action="store_true", help="let the music end before that length")
    end.add_argument(
        "--end", action="store_true", dest="ends",
        help="let the music come to its end with the last bar",
    )  # fmt: skip
    parser.add_argument(
        "--chords", metavar="LINE",
        help="keep to these chords, over and over: 'C | G7 | Am F | C', a bar between bars (piano)",
    )  # fmt: skip


def add_asked(parser: argparse.ArgumentParser, title: str, about: str, options: Options) -> None:
    """Declare a group of options of which each may be left out."""
    group = parser.add_argument_group(title, about)
    for name, (kind, metavar, does) in options.items():
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=does)


def asked_of(arguments: argparse.Namespace, options: Options) -> dict[str, Any]:
    """Return the values of those of a group of options that were given."""
    values = {name: getattr(arguments, name) for name in options}
    return {name: value for name, value in values.items() if value is not None}


def _plan_of(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return the plan: what the file says, and over it what the options say."""
    from tokenization.records import json_of

    asked = asked_of(arguments, PLAN)
    file = asked.pop("plan", None)
    plan = {} if file is None else json_of(file)
    if not isinstance(plan, dict):
        raise ValueError(f"{file} holds no plan: a mapping of names to numbers is wanted")
    return {**plan, **asked} or None


def request_of(arguments: argparse.Namespace) -> Request:
    """Return what is asked for, checked before anything is read."""
    from musicgen.generation.request import Request
    from musicgen.generation.sampling import Sampling
    from tokenization.analysis.chords import read_chords, simplified

    if arguments.soundfont is not None and not arguments.soundfont.is_file():
        raise FileNotFoundError(f"there is no soundfont {arguments.soundfont}; name an .sf2 file")
    check_counts(arguments, "variations")
    if (number := arguments.variations) > MOST_VARIATIONS:
        raise ValueError(f"--variations is {number}; up to {MOST_VARIATIONS} are written at a time")
    chords = None
    if "bars" in arguments:
        check_counts(arguments, "bars", "tokens")
        if arguments.ends and arguments.tokens is not None:
            raise ValueError("--end takes --bars, in which to come to the end, not --tokens")
        chords = None if arguments.chords is None else read_chords(arguments.chords)
        output.remark(simplified(arguments.chords or ""))
    sampling = from_options(Sampling, arguments)
    plan = _plan_of(arguments)
    return from_options(Request, arguments, chords=chords, plan=plan, sampling=sampling)


def file_stem(name: str) -> str:
    """Return a name without what would be no file's here, or another folder's, and with room for what follows."""
    coding = sys.getfilesystemencoding()
    try:
        name.encode(coding, "surrogateescape")
    except UnicodeEncodeError:  # as of a model named in Greek, where files are named in ASCII
        name = name.encode(coding, "replace").decode(coding).replace("?", "_")
    while len(name.encode(coding, "surrogateescape")) > LONGEST_NAME_BYTES:
        name = name[:-1]
    return UNFIT.sub("_", name)


@dataclass(frozen=True, kw_only=True, eq=False)
class Making:
    """Music to be made, and what is to be written of it."""

    name: str  # what errors call it
    work: MusicGeneration
    bars: int | None  # to be written in each take; None where the length is given in tokens
    stems: Mapping[str, str]  # how the names of its files begin → which score of a take
    counts: str = "continuation"  # a take is written if this score of it has a note


def continued(request: Request, model: Playable, prompt: Prompt, name: str, stem: str) -> Making:
    """Return a prompt to be continued; errors call it by the name."""
    from musicgen.continuation import Continuation

    stem = file_stem(stem)
    whole = {f"{stem}.prompt_cont_": "score"} if prompt.bars else {}
    return Making(
        name=name,
        work=Continuation(model, prompt, request),
        bars=None if request.tokens else request.bars,
        stems={**whole, f"{stem}.cont_": "continuation"},
    )


def given_piece(arguments: argparse.Namespace, model: Playable) -> Piece:
    """Return the piece that is to be completed, as a model hears it."""
    from musicgen.pieces import read_piece

    path = Path(arguments.piece)
    tracks = tracks_of(arguments.tracks, model.language.name)
    return read_piece(model.language, path, name=path.name, tracks=tracks)


def write_completed(
    arguments: argparse.Namespace, work: Completion, kind: str, bars: int, **more: Any
) -> None:
    """Complete a piece by so many bars, and write NAME.KIND_0.mid …"""
    name = work.piece.name
    output.remark(work.piece.remarks)
    stems = {f"{file_stem(Path(name).stem)}.{kind}_": "score"}
    write_all(arguments, Making(name=name, work=work, bars=bars, stems=stems, **more))


def write_all(
    arguments: argparse.Namespace, *makings: Making, failed: Sequence[Failure] = ()
) -> None:
    """Do all the work in one batch, write what comes of it, and print what was written.

    The error of a single work is raised as it is. Of several, of which some may have `failed` before, the others are
    written first; then one error names those that failed, and why there is no sound.
    """
    from app.audio import render_to

    failed, several = [*failed], len(makings) + len(failed) > 1
    files = len(makings) + len(failed)
    midi_files = _write_each(arguments, makings, failed if several else None) if makings else []
    reasons = [_named(name, error) for name, error in failed]
    try:
        if arguments.audio or arguments.soundfont:
            with output.progress_bar("sound: files") as show:
                for done, path in enumerate(midi_files, 1):
                    render_to(path.with_suffix(".wav"), path.read_bytes(), arguments.soundfont)
                    show(done, len(midi_files))
    except (ValueError, OSError) as error:
        if not failed:
            raise
        reasons.append(_named("there is no sound", error))
    if failed:
        raise ValueError(f"{len(failed)} of {files} files did not go on: {'; '.join(reasons)}")


def _write_each(
    arguments: argparse.Namespace, makings: Sequence[Making], failed: list[Failure] | None
) -> list[Path]:
    """Write each work as it ends, and return the MIDI files; without a list of what failed, an error is raised."""
    from musicgen.continuation import together

    folder: Path = arguments.output
    make_folder(folder, "give another one with -o")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} may not be written to; give another folder with -o")
    began, todo = time.perf_counter(), list(makings)
    written: dict[Making, tuple[list[dict[str, Any]], list[Path]]] = {}
    unit = "tokens" if makings[0].bars is None else "bars"
    with output.progress_bar(f"{makings[0].work.model.name}: {unit}") as show:
        for _ in together([making.work for making in makings]):
            show(*(sum(numbers) for numbers in zip(*map(_progress, makings), strict=True)))
            for making in [making for making in todo if making.work.job.ended.is_set()]:
                todo.remove(making)
                try:
                    seconds = time.perf_counter() - began
                    written[making] = _write(arguments, folder, making, seconds)
                except (ValueError, OSError) as error:
                    if failed is None:
                        raise
                    failed.append((making.name, error))
    made = [making for making in makings if making in written]
    rows = [row for making in made for row in written[making][0]]
    if arguments.json:
        output.write_json(rows)
    output.remark(_summary(made, rows, time.perf_counter() - began))
    return [path for making in made for path in written[making][1]]


def _write(
    arguments: argparse.Namespace, folder: Path, making: Making, seconds: float
) -> tuple[list[dict[str, Any]], list[Path]]:
    """Write the takes of a work that have a note; return a row for each, and all MIDI files."""
    work = making.work
    work.check()
    output.remark(work.remarks)
    model, request = work.model, work.request
    takes = [take for take in work.takes() if len(getattr(take, making.counts).notes)]
    if not takes:
        more = f"more --{'tokens' if request.tokens else 'bars'}, " if "bars" in arguments else ""
        raise ValueError(
            f"{model.name} wrote no note; {more}another --seed or a higher --temperature may help"
        )
    facts = {"seconds": round(seconds, 3), "seed": request.seed, "model": model.name}
    rows, midi_files, number = [], [], first_free(folder, making.stems)
    for take in takes:
        number, paths = write_take(folder, take, making.stems, number, with_score=arguments.score)
        number += 1
        midi_files += paths
        rows.append({"midi": str(paths[0]), "tokens": take.tokens, **facts})
        if not arguments.json:
            output.write(str(paths[0]))
    return rows, midi_files


def _named(name: str, error: Exception) -> str:
    """Return an error as words that name its file."""
    message = " ".join(str(error).split())
    return message if Path(name).name in message else f"{name}: {message}"


def _progress(making: Making) -> tuple[int, int]:
    """Return how much of a work is done and how much there is to do, in bars, or in tokens if those were asked for."""
    total = making.bars or making.work.request.tokens or 0
    job = making.work.job
    if job.ended.is_set():
        return total, total
    return min(total, job.bars if making.bars else job.steps), total


def _summary(made: Sequence[Making], rows: Sequence[dict[str, Any]], seconds: float) -> list[str]:
    """Return how much was written in which time, and how many variations have no note."""
    variations = sum(making.work.request.variations for making in made)
    lengths = {making.bars for making in made}
    bars = lengths.pop() if len(lengths) == 1 else None
    each = f" of {counted(bars, 'bar')}" if bars else ""
    speed = sum(row["tokens"] for row in rows) / max(seconds, 1e-9)
    lines = [f"{counted(len(rows), 'take')}{each} in {seconds:.1f} s, {speed:.0f} tokens a second"]
    if silent := variations - len(rows):
        lines.append(f"Without a note, and so not written: {silent} of {variations} variations.")
    return lines
