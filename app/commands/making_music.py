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
    from musicgen.continuation import MusicGeneration, Take
    from musicgen.generation.request import Request
    from musicgen.pieces import Piece, Prompt
    from musicgen.playable import Playable
    from tokenization.score import Score


MOST_DIGITS = 6  # of a number: past a longer one names would grow too long


def writable(folder: Path) -> Path:
    """Make the folder to write to, or say before the work what is wrong with it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give -o a folder to write to")
    make_folder(folder, "give another one with -o")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} may not be written to; give another folder with -o")
    return folder


def write_take(
    folder: Path, take: Take, stems: Mapping[str, str], number: int, *, with_score: bool
) -> tuple[int, list[Path]]:
    """Write the scores of one take, and what is known of them; return the number after its own, and the MIDI files.

    A number that another command has taken meanwhile is left to it: the first file is the claim.
    """
    from tokenization.whole_file import write_text

    number, named = _claimed(folder, take, stems, number)
    first, *others = paths = [*named]
    # A score that was given is given back as one.
    is_score = take.edit is not None and take.edit.kind == "musicxml"
    as_scores = [
        path.with_suffix(".musicxml")
        for path, score in named.items()
        if with_score or (is_score and score is take.score)
    ]
    for path in (*others, *as_scores):
        _write_score(path, named[path.with_suffix(".mid")], take)
    facts = {**take.provenance, "tokens": take.tokens, "files": [path.name for path in paths]}
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    write_text(first.with_suffix(".json"), text)
    return number + 1, paths


def _claimed(
    folder: Path, take: Take, stems: Mapping[str, str], number: int
) -> tuple[int, dict[Path, Score]]:
    """Write the first file of a take; return the number under which there was room for it, and all files to write."""
    while True:
        named = {
            folder / f"{stem}{number}.mid": getattr(take, part) for stem, part in stems.items()
        }
        first = next(iter(named))
        try:
            _write_score(first, named[first], take, new=True)
        except FileExistsError:
            number += 1
        else:
            return number, named


def _write_score(path: Path, score: Score, take: Take, *, new: bool = False) -> None:
    """Write a score of a take; the whole of it into the file that it was written to, or it is said why not."""
    from tokenization.formats import write_score

    edit = take.edit if score is take.score else None
    said = write_score(path, score, take.provenance, new=new, edit=edit)
    output.remark([said] if said else [])


def sound(midi_files: Sequence[Path], soundfont: Path | None) -> None:
    """Write a WAV next to each MIDI file."""
    from app.audio import render_to

    with output.progress_bar("sound: files") as show:
        for done, path in enumerate(midi_files, 1):
            render_to(path.with_suffix(".wav"), path.read_bytes(), soundfont)
            show(done, len(midi_files))


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
    _add_plan(parser)
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


def _add_plan(parser: argparse.ArgumentParser) -> None:
    """Declare what may be asked of the bars that are written."""
    plan = parser.add_argument_group("plan", "of the new bars, by a model that plans")
    plan.add_argument("--density", type=float, metavar="N", help="notes a beat")
    plan.add_argument(
        "--register", type=float, metavar="PITCH", help="MIDI pitch of the highest line"
    )
    plan.add_argument("--loudness", type=float, metavar="V", help="mean velocity")
    plan.add_argument("--form", metavar="LETTERS", help="sections of equal length, as 'A A B A'")
    plan.add_argument(
        "--plan", type=Path, metavar="FILE.json", help="all of these, for each bar, from a file"
    )


def _plan_of(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return what is asked of the bars: what the file says, and over it what the options say."""
    from tokenization.records import json_of

    asked = {} if arguments.plan is None else json_of(arguments.plan)
    if not isinstance(asked, dict):
        raise ValueError(f"{arguments.plan} holds no plan: a mapping of names to numbers is wanted")
    said = {name: getattr(arguments, name) for name in ("density", "register", "loudness", "form")}
    return {**asked, **{name: value for name, value in said.items() if value is not None}} or None


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


@dataclass(frozen=True, kw_only=True)
class Making:
    """Work to be done, and what is to be written of it."""

    name: str  # what errors call it
    work: MusicGeneration
    bars: int | None  # to be written in each take; None where the length is given in tokens
    stems: Mapping[str, str]  # how the names of its files begin → which score of a take
    whole_counts: bool = False  # a take is one if the whole of it has a note: bars may be emptied


def going_on(request: Request, model: Playable, prompt: Prompt, name: str) -> Making:
    """Return a prompt to be continued."""
    from musicgen.continuation import Continuation

    stem = file_stem(name)
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


def completing(
    piece: Piece, work: MusicGeneration, kind: str, bars: int, *, whole_counts: bool = False
) -> Making:
    """Return a piece to be completed; what it was assumed to be is said."""
    output.remark(piece.remarks)
    return Making(
        name=piece.name,
        work=work,
        bars=bars,
        stems={f"{file_stem(Path(piece.name).stem)}.{kind}_": "score"},
        whole_counts=whole_counts,
    )


def write_all(
    arguments: argparse.Namespace, *makings: Making, failed: list[Failure] | None = None
) -> Exception | None:
    """Do all the work in one batch, write each as it ends, and say what was written.

    What is written has a number that is not yet taken. Where there is a list of what `failed`, each work that does is
    added to it, and why there is no sound is returned; else either is raised.
    """
    from musicgen.continuation import together

    folder = writable(arguments.output)
    began, todo = time.perf_counter(), list(makings)
    results: dict[int, list[dict[str, Any]]] = {}
    midi_files: list[Path] = []
    unit = "tokens" if makings[0].bars is None else "bars"
    with output.progress_bar(f"{makings[0].work.model.name}: {unit}") as show:
        for _ in together([making.work for making in makings]):
            show(*(sum(numbers) for numbers in zip(*map(_progress, makings), strict=True)))
            for making in [making for making in todo if making.work.job.ended.is_set()]:
                todo.remove(making)
                try:
                    rows, paths = _write(arguments, folder, making, time.perf_counter() - began)
                except (ValueError, OSError) as error:
                    if failed is None:
                        raise
                    failed.append((making.name, error))
                    continue
                results[makings.index(making)] = rows
                midi_files += paths
    rows = [row for _, own in sorted(results.items()) for row in own]
    if arguments.json:
        output.write_json(rows)
    wanted = sum(makings[number].work.request.variations for number in results)
    lengths = {makings[number].bars for number in results}
    output.remark(_summary(wanted, lengths, rows, time.perf_counter() - began))
    try:
        if arguments.audio or arguments.soundfont:
            sound(midi_files, arguments.soundfont)
    except (ValueError, OSError) as error:
        if failed is None:
            raise
        return error
    return None


def _write(
    arguments: argparse.Namespace, folder: Path, making: Making, seconds: float
) -> tuple[list[dict[str, Any]], list[Path]]:
    """Write what has come of a work, and return what is to be said of each take, and the MIDI files."""
    work = making.work
    work.check()
    output.remark(work.remarks)
    model, request = work.model, work.request
    written = [
        (take, take.score if making.whole_counts else take.continuation) for take in work.takes()
    ]
    takes = [take for take, score in written if len(score.notes)]
    if not takes:
        more = f"more --{'tokens' if request.tokens else 'bars'}, " if "bars" in arguments else ""
        raise ValueError(
            f"{model.name} wrote no note; {more}another --seed or a higher --temperature may help"
        )
    results, midi_files, number = [], [], first_free(folder, making.stems)
    for take in takes:
        number, paths = write_take(folder, take, making.stems, number, with_score=arguments.score)
        midi_files += paths
        facts = {"seconds": round(seconds, 3), "seed": request.seed, "model": model.name}
        results.append({"midi": str(paths[0]), "tokens": take.tokens, **facts})
        if not arguments.json:
            output.write(str(paths[0]))
    return results, midi_files


def _progress(making: Making) -> tuple[int, int]:
    """Return how much of a work is done, and how much there is to do: in bars, or in tokens where it is asked so."""
    total = making.bars or making.work.request.tokens or 0
    job = making.work.job
    if job.ended.is_set():
        return total, total
    return min(total, job.bars if making.bars else job.steps), total


def _summary(
    variations: int, lengths: set[int | None], takes: Sequence[dict[str, Any]], seconds: float
) -> list[str]:
    """Return what else is good to know."""
    tokens, silent = sum(take["tokens"] for take in takes), variations - len(takes)
    [bars, *others] = lengths or {None}
    each = f" of {counted(bars, 'bar')}" if bars and not others else ""
    written = counted(len(takes), "take")
    lines = [
        f"{written}{each} in {seconds:.1f} s, {tokens / max(seconds, 1e-9):.0f} tokens a second"
    ]
    if silent:
        lines.append(f"Without a note, and so not written: {silent} of {variations} variations.")
    return lines
