"""Shared by the commands that make music: their options, running the model, and writing the files."""

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
    from musicgen.continuation import Completion, MusicGeneration, Take
    from musicgen.generation.request import Request
    from musicgen.pieces import Piece, Prompt
    from musicgen.playable import Playable
    from tokenization.score import Score


MOST_DIGITS = 6  # of a number in a file name; longer ones are ignored
LONGEST_NAME_BYTES = 200  # of 255 in a file name; leaves room for `.prompt_cont_12.musicxml`
MOST_VARIATIONS = 1000  # each keeps its state in memory
# Control characters and line separators, which a downloaded file can have in its name, and path separators.
UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029/\\]")


def write_take(
    folder: Path, take: Take, stems: Mapping[str, str], number: int, *, with_score: bool
) -> tuple[int, list[Path]]:
    """Write the scores of one take and a JSON with its provenance; return its number and the MIDI files.

    If another command has taken the number meanwhile, the next one is used: the first file claims it.
    """
    from tokenization.formats import write_score
    from tokenization.whole_file import write_text

    def write(path: Path, score: Score, *, new: bool = False) -> None:
        # The whole piece is an edit of the source file, if possible; otherwise a remark says why not.
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
    # A MusicXML source gets MusicXML back.
    from_score = take.edit is not None and take.edit.kind == "musicxml"
    for path, score in zip(paths, scores, strict=True):
        if path != paths[0]:
            write(path, score)
        if with_score or (from_score and score is take.score):
            write(path.with_suffix(".musicxml"), score)
    facts = {**take.provenance, "tokens": take.tokens, "files": [path.name for path in paths]}
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    write_text(paths[0].with_suffix(".json"), text)
    return number, paths


def first_free(folder: Path, prefixes: Iterable[str]) -> int:
    """Return the first free number for files with these prefixes.

    Names that differ in case or Unicode normalisation count as the same, as they do on some file systems.
    """
    prefixes, taken = [_folded(prefix) for prefix in prefixes], [-1]
    for path in folder.iterdir():
        stem = _folded(path.stem)
        for prefix in prefixes:
            number = stem.removeprefix(prefix)
            if number != stem and number.isdecimal() and len(number) <= MOST_DIGITS:
                taken.append(int(number))
    return max(taken) + 1


def _folded(name: str) -> str:
    name = os.fsencode(name).decode("utf-8", "surrogateescape")  # whatever the locale encodes
    return normalize("NFC", normalize("NFC", name).casefold())


Options = Mapping[str, tuple[Any, str, str]]  # name → type, metavar and help
PLAN: Options = {
    "density": (float, "N", "notes per beat"),
    "register": (float, "PITCH", "MIDI pitch of the highest line"),
    "loudness": (float, "V", "mean velocity"),
    "form": (str, "LETTERS", "sections of equal length, such as 'A A B A'"),
    "plan": (Path, "FILE.json", "a file with any of these, for all bars or bar by bar"),
}


def add_options(parser: argparse.ArgumentParser, *, lengths: bool = True) -> None:
    """Declare the shared options; with `lengths`, also those of commands that write music of a given length."""
    from musicgen.generation.request import Request
    from musicgen.generation.sampling import CONTROLS
    from musicgen.playable import DEFAULT

    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path("."),
        help="folder to write to (default: the current one); existing files are never overwritten",
    )  # fmt: skip
    parser.add_argument(
        "--model", default=DEFAULT, metavar="NAME|FOLDER",
        help="a name that `musicgen models` lists, a folder, or untrained:tiny[:groove] (default: %(default)s)",
    )  # fmt: skip
    if lengths:
        _add_lengths(parser)
    parser.add_argument(
        "--variations", type=int, default=Request.variations, metavar="K", help="takes to write"
    )
    for name, control in CONTROLS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int if control.step == 1 else float,
            default=getattr(Request.sampling, name), metavar=control.letter, help=control.help,
        )  # fmt: skip
    parser.add_argument(
        "--by-kind", action=argparse.BooleanOptionalAction,
        help="apply temperature and limits within each kind of token, such as notes or bar lines, so that the music "
        "stays as busy as the model expects (default: for models of the language ensemble)",
    )  # fmt: skip
    add_group(parser, "plan", "attributes of the new bars, for models that follow a plan", PLAN)
    parser.add_argument(
        "--seed", type=int, default=Request.seed, help="the same seed gives the same music"
    )
    add_device(parser)
    parser.add_argument(
        "--score", action="store_true", help="also write MusicXML, for notation programs"
    )
    parser.add_argument("--audio", action="store_true", help="also write a WAV of each MIDI file")
    parser.add_argument(
        "--soundfont", type=Path, metavar="FILE.sf2", help="write WAVs, with this soundfont"
    )
    output.add_json(parser)


def _add_lengths(parser: argparse.ArgumentParser) -> None:
    from musicgen.generation.request import Request

    length = parser.add_mutually_exclusive_group()
    length.add_argument("--bars", type=int, default=Request.bars, metavar="N", help="bars to write")
    length.add_argument("--tokens", type=int, metavar="N", help="tokens to write, instead of bars")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--may-end", action="store_true", help="allow the music to end earlier")
    end.add_argument(
        "--end", action="store_true", dest="ends", help="bring the music to its end in the last bar"
    )
    parser.add_argument(
        "--chords", metavar="LINE",
        help="follow these chords, repeated as needed; | separates bars: 'C | G7 | Am F | C'",
    )  # fmt: skip


def add_group(parser: argparse.ArgumentParser, title: str, about: str, options: Options) -> None:
    """Declare a group of optional options."""
    group = parser.add_argument_group(title, about)
    for name, (kind, metavar, text) in options.items():
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=text)


def given_values(arguments: argparse.Namespace, options: Options) -> dict[str, Any]:
    """Return the values of the options of a group that were given."""
    values = {name: getattr(arguments, name) for name in options}
    return {name: value for name, value in values.items() if value is not None}


def _plan_of(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return the plan of the file and the options, which take precedence."""
    from tokenization.records import json_of

    given = given_values(arguments, PLAN)
    file = given.pop("plan", None)
    plan = {} if file is None else json_of(file)
    if not isinstance(plan, dict):
        raise ValueError(f'{file} is not a plan, which looks like {{"density": 4, "form": "A B"}}')
    return {**plan, **given} or None


def request_of(arguments: argparse.Namespace) -> Request:
    """Build the request from the options, and check it before any file is read."""
    from musicgen.generation.request import Request
    from musicgen.generation.sampling import Sampling
    from tokenization.analysis.chords import read_chords

    if arguments.soundfont is not None and not arguments.soundfont.is_file():
        raise FileNotFoundError(f"there is no soundfont {arguments.soundfont}; name an .sf2 file")
    check_counts(arguments, "variations")
    if (number := arguments.variations) > MOST_VARIATIONS:
        raise ValueError(f"--variations is {number}; it must be at most {MOST_VARIATIONS}")
    chords = None
    if "bars" in arguments:
        check_counts(arguments, "bars", "tokens")
        if arguments.ends and arguments.tokens is not None:
            raise ValueError("--end needs a length in --bars, not in --tokens")
        chords = None if arguments.chords is None else read_chords(arguments.chords)
    sampling = from_options(Sampling, arguments)
    plan = _plan_of(arguments)
    return from_options(Request, arguments, chords=chords, plan=plan, sampling=sampling)


def file_stem(name: str) -> str:
    """Make a name safe as the start of a file name: encodable here, without separators, and short enough."""
    coding = sys.getfilesystemencoding()
    try:
        name.encode(coding, "surrogateescape")
    except UnicodeEncodeError:  # such as Greek on an ASCII file system
        name = name.encode(coding, "replace").decode(coding).replace("?", "_")
    while len(name.encode(coding, "surrogateescape")) > LONGEST_NAME_BYTES:
        name = name[:-1]
    return UNSAFE.sub("_", name)


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Music to generate, and the files to write it to."""

    work: MusicGeneration
    bars: int | None  # of each take; None if the length is given in tokens
    stems: Mapping[str, str]  # prefix of a file's name → the attribute of a take that it holds
    counts: str = "continuation"  # a take is written if this score of it has notes


def continuation_task(request: Request, model: Playable, prompt: Prompt, stem: str) -> Task:
    """Return the task that continues a prompt."""
    from musicgen.continuation import Continuation

    stem = file_stem(stem)
    whole = {f"{stem}.prompt_cont_": "score"} if prompt.bars else {}
    return Task(
        work=Continuation(model, prompt, request),
        bars=None if request.tokens else request.bars,
        stems={**whole, f"{stem}.cont_": "continuation"},
    )


def given_piece(arguments: argparse.Namespace, model: Playable) -> Piece:
    """Read the piece to complete, in the language of the model."""
    from musicgen.pieces import read_piece

    path = Path(arguments.piece)
    tracks = tracks_of(arguments.tracks, model.language.name)
    return read_piece(model.language, path, name=path.name, tracks=tracks)


def write_completed(
    arguments: argparse.Namespace, work: Completion, kind: str, bars: int, **more: Any
) -> None:
    """Write the missing `bars` of a piece to NAME.KIND_0.mid …"""
    name = work.piece.name
    output.remark(work.piece.remarks)
    stems = {f"{file_stem(Path(name).stem)}.{kind}_": "score"}
    write_all(arguments, Task(work=work, bars=bars, stems=stems, **more))


def write_all(arguments: argparse.Namespace, *tasks: Task) -> None:
    """Run all tasks in one batch, write their files, and print the files' names."""
    from app.audio import render_to

    midi_files = _write_each(arguments, tasks)
    if arguments.audio or arguments.soundfont:
        with output.progress_bar("audio: files") as show:
            for done, path in enumerate(midi_files, 1):
                render_to(path.with_suffix(".wav"), path.read_bytes(), arguments.soundfont)
                show(done, len(midi_files))


def _write_each(arguments: argparse.Namespace, tasks: Sequence[Task]) -> list[Path]:
    """Write each task's files when it ends; return all MIDI files."""
    from musicgen.continuation import together

    folder: Path = arguments.output
    make_folder(folder, "give another one with -o")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} is not writable; give another folder with -o")
    start, running = time.perf_counter(), list(tasks)
    written: dict[Task, tuple[list[dict[str, Any]], list[Path]]] = {}
    unit = "tokens" if tasks[0].bars is None else "bars"
    with output.progress_bar(f"{tasks[0].work.model.name}: {unit}") as show:
        for _ in together([task.work for task in tasks]):
            show(*(sum(numbers) for numbers in zip(*map(_progress, tasks), strict=True)))
            for task in [task for task in running if task.work.job.ended.is_set()]:
                running.remove(task)
                seconds = time.perf_counter() - start
                written[task] = _write(arguments, folder, task, seconds)
    rows = [row for task in tasks for row in written[task][0]]
    if not rows:
        more = "more --bars or --tokens, " if "bars" in arguments else ""
        raise ValueError(
            f"{tasks[0].work.model.name} wrote no notes; {more}another --seed or a higher --temperature may help"
        )
    if arguments.json:
        output.write_json(rows)
    output.remark(_summary(tasks, rows, time.perf_counter() - start))
    return [path for task in tasks for path in written[task][1]]


def _write(
    arguments: argparse.Namespace, folder: Path, task: Task, seconds: float
) -> tuple[list[dict[str, Any]], list[Path]]:
    """Write the takes of a task that have notes; return a row for each, and all MIDI files."""
    work = task.work
    work.check()
    output.remark(work.remarks)
    model, request = work.model, work.request
    takes = [take for take in work.takes() if len(getattr(take, task.counts).notes)]
    facts = {"seconds": round(seconds, 3), "seed": request.seed, "model": model.name}
    rows, midi_files, number = [], [], first_free(folder, task.stems)
    for take in takes:
        number, paths = write_take(folder, take, task.stems, number, with_score=arguments.score)
        number += 1
        midi_files += paths
        rows.append({"midi": str(paths[0]), "tokens": take.tokens, **facts})
        if not arguments.json:
            output.write(str(paths[0]))
    return rows, midi_files


def _progress(task: Task) -> tuple[int, int]:
    """Return the bars done and their total, or the tokens if the length is given in tokens."""
    total = task.bars or task.work.request.tokens or 0
    job = task.work.job
    if job.ended.is_set():
        return total, total
    return min(total, job.bars if task.bars else job.steps), total


def _summary(done: Sequence[Task], rows: Sequence[dict[str, Any]], seconds: float) -> list[str]:
    """Say how many takes were written and how fast, and how many had no notes."""
    variations = sum(task.work.request.variations for task in done)
    lengths = {task.bars for task in done}
    bars = lengths.pop() if len(lengths) == 1 else None
    each = f" of {counted(bars, 'bar')}" if bars else ""
    speed = sum(row["tokens"] for row in rows) / max(seconds, 1e-9)
    lines = [f"{counted(len(rows), 'take')}{each} in {seconds:.1f} s, {speed:.0f} tokens/s"]
    if silent := variations - len(rows):
        lines.append(f"Not written, because they have no notes: {silent} of {variations} takes.")
    return lines
