"""`musicgen continue`, `end`, `rewrite`, `accompany`, `harmonise` and `generate`: the commands that make music."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from app import output
from app.options import add_device, add_tracks, from_options, tracks_of

if TYPE_CHECKING:
    from musicgen.continuation import MusicGeneration, Take
    from musicgen.generation.request import Request
    from musicgen.pieces import Piece, Prompt
    from musicgen.playable import Playable
    from tokenization.score import Score

EXAMPLES = """\
  musicgen continue song.mid
  musicgen continue lied.mxl --score
  musicgen continue song.mid --prompt-bars 4 --bars 32 --variations 3 --audio -o output
  musicgen continue band.mid --temperature 0.6 --seed 7
  musicgen continue prompts/*.mid --bars 16 -o output
  musicgen continue song.mid --chords "C | G7 | Am F | C"
  musicgen end song.mid --bars 4
  musicgen rewrite song.mid --range 9-12
  musicgen rewrite song.mid --range 5-8 --variations 3 --audio -o output
  musicgen rewrite band.mid --range 3 --seed 7
  musicgen rewrite band.mid --range 9-12 --parts Bass Drums
  musicgen rewrite song.mid --range 5-8 --parts "Lead Vocal" +strings
  musicgen accompany band.mid --write drums
  musicgen accompany band.mid --write bass drums --variations 3 --audio -o output
  musicgen accompany song.mid --write violin "nylon guitar"
  musicgen accompany song.mid --write E-Guitar +trumpet
  musicgen accompany band.mid --write drums --tracks 2 Piano
  musicgen harmonise melody.mid
  musicgen generate
  musicgen generate --style song --key "G minor" --tempo 90 --metre 3/4 --end
  musicgen generate --parts "flute, piano, piano" --form "A A B A"
  musicgen generate --style band --bars 32 --variations 4 --seed 7 --audio -o output
"""
MOST_DIGITS = 6  # of a number in a file name; longer ones are ignored
LONGEST_NAME_BYTES = 200  # of 255 in a file name; leaves room for `.prompt_cont_12.musicxml`
MOST_VARIATIONS = 1000  # each keeps its state in memory
# Control characters and line separators, which a downloaded file can have in its name, and path separators.
UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029/\\]")

PARTS = (
    "by the name or number of a track, or as an instrument of General MIDI, bass, drums or chords; "
    "existing ones are replaced, and others, or those with a plus such as +violin, are added"
)

Options = Mapping[str, tuple[Any, str, str]]  # name → type, metavar and help
PLAN: Options = {
    "density": (float, "N", "notes per beat"),
    "register": (float, "PITCH", "MIDI pitch of the highest notes"),
    "loudness": (float, "V", "mean velocity"),
    "form": (str, "LETTERS", "sections of equal length, such as 'A A B A'"),
    "plan": (Path, "FILE.json", "a file with any of these, for all bars or bar by bar"),
}
IDEA: Options = {
    "style": (str, "STYLE", "a style of the model's training data, such as pop, song or band"),
    "key": (str, "KEY", "such as 'G minor' or 'Eb major'"),
    "tempo": (float, "BPM", "beats per minute"),
    "metre": (str, "METRE", "such as 3/4"),
    "parts": (
        lambda text: [part.strip() for part in text.split(",") if part.strip()], "NAMES",
        "instruments, such as 'flute, piano, piano' (default: those of the style)",
    ),
}  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    name = parser.get_default("command")
    examples = (line for line in EXAMPLES.splitlines() if line.split()[1] == name)
    parser.epilog = "\n".join(["examples:", *examples])
    if name != "generate":
        parser.add_argument(
            "pieces",
            metavar="FILE",
            nargs="+",
            help="one or more MIDI, MusicXML or ABC files, generated as one batch",
        )
        add_tracks(parser)
    if name in ("continue", "end"):
        parser.add_argument(
            "--prompt-bars", type=_prompt_bars, default="all", metavar="N|all",
            help="use the first N bars as the prompt",
        )  # fmt: skip
    if name == "rewrite":
        parser.add_argument(
            "--range", type=_range, required=True, metavar="FIRST-LAST",
            help="the bars to rewrite, such as 9-12",
        )  # fmt: skip
        parser.add_argument(
            "--parts", nargs="+", action="extend", metavar="PART",
            help=f"the parts to rewrite there, {PARTS}; the others stay (default: all)",
        )  # fmt: skip
    if name == "accompany":
        parser.add_argument(
            "--write", nargs="+", action="extend", required=True, metavar="PART",
            help=f"the parts to write, {PARTS}",
        )  # fmt: skip
    _add_options(parser, lengths=name in ("continue", "end", "generate"))
    if name == "generate":
        _add_group(parser, "idea", "how the piece starts, for models of any parts", IDEA)
    if name == "end":
        parser.set_defaults(ends=True)


def run(arguments: argparse.Namespace) -> None:
    """Write the takes of each piece: NAME.prompt_cont_0.mid and NAME.cont_0.mid, NAME.infill_0.mid, idea_0.mid, …"""
    from musicgen.pieces import empty_prompt
    from musicgen.playable import load

    request = _request_of(arguments)
    model = load(arguments.model, arguments.device)
    if model.slow_because:
        output.remark([model.slow_because])
    if arguments.command == "generate":
        prompt = empty_prompt(model.language, _given_values(arguments, IDEA), request.plan)
        tasks = [_continuation(request, model, prompt, "idea")]
    else:
        tasks = _tasks(arguments, request, model)
    midi_files = _write_all(arguments, tasks)
    if arguments.audio or arguments.soundfont:
        from app.audio import render_to

        with output.progress_bar("audio: files") as show:
            for done, path in enumerate(midi_files, 1):
                render_to(path.with_suffix(".wav"), path.read_bytes(), arguments.soundfont)
                show(done, len(midi_files))


def _prompt_bars(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of bars nor all")
    return int(text)


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise argparse.ArgumentTypeError(f"{text!r} is not a first and a last bar, such as 9-12")
    return first, last


def _add_options(parser: argparse.ArgumentParser, *, lengths: bool) -> None:
    """Declare the shared options; with `lengths`, also those of commands that write music of a given length."""
    from musicgen.generation.request import DRAWN, Request
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
        "--draw", type=int, default=DRAWN, metavar="N",
        help="draw N for each and go on from the most convincing, if the model has a critic (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--variations", type=int, default=Request.variations, metavar="K", help="takes to write"
    )
    for name, control in CONTROLS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int if control.step == 1 else float,
            default=getattr(Request.sampling, name), metavar=control.letter, help=control.help,
        )  # fmt: skip
    _add_group(parser, "plan", "attributes of the new bars, for models that follow a plan", PLAN)
    parser.add_argument(
        "--seed",
        type=int,
        default=Request.seed,
        help="random seed; the same seed gives the same music",
    )
    parser.add_argument(
        "--free", action="store_true",
        help="let the metre change, parts leave their range and habits, winds play chords, endings play on, and new "
        "parts disregard the given ones",
    )  # fmt: skip
    add_device(parser)
    parser.add_argument(
        "--score", action="store_true", help="also write MusicXML, for notation programs"
    )
    parser.add_argument(
        "--exact", action="store_true",
        help="in MusicXML, write new notes as long as they are played, not as a player reads them",
    )  # fmt: skip
    parser.add_argument("--audio", action="store_true", help="also write a WAV of each MIDI file")
    parser.add_argument(
        "--soundfont", type=Path, metavar="FILE.sf2", help="write WAVs with this soundfont"
    )
    output.add_json(parser)


def _add_lengths(parser: argparse.ArgumentParser) -> None:
    from musicgen.generation.request import Request

    length = parser.add_mutually_exclusive_group()
    length.add_argument("--bars", type=int, default=Request.bars, metavar="N", help="bars to write")
    length.add_argument("--tokens", type=int, metavar="N", help="tokens to write, instead of bars")
    always_ends = parser.get_default("command") == "end"
    about = "bring the music to its end in the last bar"
    parser.add_argument(
        "--end", action="store_true", dest="ends", help=argparse.SUPPRESS if always_ends else about
    )
    parser.add_argument(
        "--chords", metavar="LINE",
        help="follow these chords, repeated as needed; | separates bars: 'C | G7 | Am F | C'",
    )  # fmt: skip


def _add_group(parser: argparse.ArgumentParser, title: str, about: str, options: Options) -> None:
    """Declare a group of optional options."""
    group = parser.add_argument_group(title, about)
    for name, (kind, metavar, text) in options.items():
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=text)


def _given_values(arguments: argparse.Namespace, options: Options) -> dict[str, Any]:
    """Return the values of the options of a group that were given."""
    values = {name: getattr(arguments, name) for name in options}
    return {name: value for name, value in values.items() if value is not None}


def _request_of(arguments: argparse.Namespace) -> Request:
    """Build the request from the options, and check it before any file is read."""
    from musicgen.generation.request import Request
    from musicgen.generation.sampling import Sampling
    from tokenization.analysis.chords import read_chords, taken_as
    from tokenization.records import json_of

    if arguments.soundfont is not None and not arguments.soundfont.is_file():
        raise FileNotFoundError(f"there is no soundfont {arguments.soundfont}; name an .sf2 file")
    for name in ("variations", "draw"):
        if (number := getattr(arguments, name)) > MOST_VARIATIONS:
            raise ValueError(f"--{name} is {number}; it must be at most {MOST_VARIATIONS}")
    given = _given_values(arguments, PLAN)
    file = given.pop("plan", None)
    plan = {} if file is None else json_of(file)
    if not isinstance(plan, dict):
        raise ValueError(f'{file} is not a plan, which looks like {{"density": 4, "form": "A B"}}')
    line = getattr(arguments, "chords", None)
    chords = None if line is None else read_chords(line)
    output.remark(filter(None, [taken_as(chords or [])]))
    return from_options(
        Request,
        arguments,
        chords=chords,
        plan={**plan, **given} or None,
        sampling=from_options(Sampling, arguments),
    )


@dataclass(frozen=True, kw_only=True)
class Task:
    """Music to generate, and the files to write it to."""

    work: MusicGeneration
    bars: int | None  # of each take; None if the length is given in tokens
    stems: Mapping[str, str]  # prefix of a file's name → the attribute of a take that it holds
    counts: str = "continuation"  # a take is written if this score of it has notes


def _tasks(arguments: argparse.Namespace, request: Request, model: Playable) -> list[Task]:
    """Read all files, and return the task of each."""
    from musicgen.pieces import read_piece

    tracks = tracks_of(arguments.tracks, model.language.name)
    tasks: list[Task] = []
    unread: list[str] = []
    several = len(arguments.pieces) > 1
    for given in arguments.pieces:
        path = Path(given)
        name = path.name or given  # `.` has an empty name
        try:
            piece = read_piece(model.language, path, name=name, tracks=tracks)
            tasks.append(_task(arguments, request, model, piece))
        except (ValueError, OSError) as error:
            if not several:
                raise
            unread.append(f"{given}: {' '.join(str(error).split())}")
        else:
            about = f"{given}: " if several else ""
            output.remark(f"{about}{message}" for message in piece.remarks)
    if unread:
        raise ValueError(
            f"{len(unread)} of {len(arguments.pieces)} files cannot be used: {'; '.join(unread)}"
        )
    return tasks


def _task(arguments: argparse.Namespace, request: Request, model: Playable, piece: Piece) -> Task:
    """Return what a command does with a piece."""
    from musicgen.completion import accompaniment, harmonising_part, infilling

    stem = Path(piece.name).stem
    if arguments.command in ("continue", "end"):
        return _continuation(request, model, piece.prompt(arguments.prompt_bars), stem)
    if arguments.command == "rewrite":
        first, last = arguments.range
        # These bars may be silent: a take is written if the whole piece has notes.
        return Task(
            work=infilling(model, piece, (first, last), request, arguments.parts),
            bars=last - first + 1,
            stems={f"{file_stem(stem)}.infill_": "score"},
            counts="score",
        )
    parts = arguments.write if arguments.command == "accompany" else [harmonising_part(piece)]
    work = accompaniment(model, piece, parts, request)
    return Task(
        work=work,
        bars=piece.bars,
        stems={f"{file_stem(stem)}.accompany_": "score"},
        counts="continuation" if work.goal.tracks else "score",  # chord symbols are no notes
    )


def _continuation(request: Request, model: Playable, prompt: Prompt, stem: str) -> Task:
    """Return the task that continues a prompt."""
    from musicgen.continuation import Continuation

    stem = file_stem(stem)
    whole = {f"{stem}.prompt_cont_": "score", f"{stem}.cont_": "continuation"}
    return Task(
        work=Continuation(model, prompt, request),
        bars=None if request.tokens else request.bars,
        stems=whole if prompt.bars else {f"{stem}_": "continuation"},
    )


def _write_all(arguments: argparse.Namespace, tasks: Sequence[Task]) -> list[Path]:
    """Run all tasks in one batch, write the files of each when it ends, and return the MIDI files."""
    from musicgen.continuation import run_together
    from tokenization.formats import ENDINGS
    from tokenization.whole_file import make_folder
    from tokenization.wording import counted

    folder: Path = arguments.output
    if folder.suffix.lower() in ENDINGS and not folder.is_dir():
        raise ValueError(
            f"-o names a folder to write to, and {folder} looks like a file; give a folder, in which the files get "
            "names of their own"
        )
    make_folder(folder, "give another one with -o")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} is not writable; give another folder with -o")
    model, begun = tasks[0].work.model.name, time.perf_counter()
    rows: list[dict[str, Any]] = []
    midi_files: list[Path] = []
    running = list(tasks)
    unit = "token" if tasks[0].bars is None else "bar"
    try:
        with output.progress_bar(f"{model}: {unit}s") as show:
            for _ in run_together([task.work for task in tasks]):
                show(*(sum(numbers) for numbers in zip(*map(_progress, tasks), strict=True)))
                for task in [task for task in running if task.work.job.ended.is_set()]:
                    running.remove(task)
                    for take, paths in _write_takes(arguments, task):
                        midi_files += paths
                        spent = round(time.perf_counter() - begun, 3)
                        facts = {"seconds": spent, "seed": task.work.request.seed, "model": model}
                        rows.append({"midi": str(paths[0]), "tokens": take.tokens, **facts})
        total = sum(_progress(task)[1] * task.work.request.variations for task in tasks)
        takes = f"{counted(len(rows), 'take')}, " if len(rows) > 1 else ""
        lines = [f"{takes}{counted(total, unit)} in {time.perf_counter() - begun:.1f} s"]
        asked = sum(task.work.request.variations for task in tasks)
        if silent := asked - len(rows):
            lines.append(f"Not written, because they have no notes: {silent} of {asked} takes.")
        output.remark(lines if rows else [])
    finally:  # the names of the files come last, and also after an error or Ctrl-C
        for row in () if arguments.json else rows:
            output.write(row["midi"])
    if not rows:
        more = "more --bars or --tokens, " if "bars" in arguments else ""
        raise ValueError(
            f"{model} wrote no notes; {more}another --seed or a higher --temperature may help"
        )
    if arguments.json:
        output.write_json(rows)
    return midi_files


def _progress(task: Task) -> tuple[int, int]:
    """Return the bars done and their total, or the tokens if the length is given in tokens."""
    total = task.bars or task.work.request.tokens or 0
    job = task.work.job
    if job.ended.is_set():
        return total, total
    return min(total, job.bars if task.bars else job.steps), total


def _write_takes(arguments: argparse.Namespace, task: Task) -> Iterator[tuple[Take, list[Path]]]:
    """Write the takes of a task that have notes; yield each with its MIDI files."""
    task.work.check()
    takes = task.work.takes()
    output.remark(dict.fromkeys(remark for take in takes for remark in take.score.remarks))
    number = first_free(arguments.output, task.stems)
    for take in takes:
        if not len(getattr(take, task.counts).notes):
            continue
        number, paths = _write_take(arguments, take, task.stems, number)
        number += 1
        yield take, paths


def _write_take(
    arguments: argparse.Namespace, take: Take, stems: Mapping[str, str], number: int
) -> tuple[int, list[Path]]:
    """Write the scores of one take and a JSON with its provenance; return its number and the MIDI files.

    If another command has taken the number meanwhile, the next one is used: the first file claims it.
    """
    from tokenization.formats import write_score
    from tokenization.whole_file import write_text

    def write(path: Path, score: Score, *, new: bool = False) -> None:
        # The whole piece is an edit of the source file, if possible; otherwise a remark says why not.
        edit = take.edit if score is take.score else None
        remark = write_score(
            path, score, take.provenance, new=new, edit=edit, exact=arguments.exact
        )
        output.remark([remark] if remark else [])

    scores = [getattr(take, part) for part in stems.values()]
    while True:
        paths = [arguments.output / f"{stem}{number}.mid" for stem in stems]
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
        if arguments.score or (from_score and score is take.score):
            try:
                write(path.with_suffix(".musicxml"), score)
            except ValueError as error:  # too large to be read again
                output.remark([f"No MusicXML was written: {error}."])
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
