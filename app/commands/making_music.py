"""What the commands that make music have in common: their options, and writing what they made."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app import output
from app.progress import progress_bar

if TYPE_CHECKING:
    from musicgen.continuation import MusicGeneration, Take
    from musicgen.options import Options
    from musicgen.pieces import Prompt
    from musicgen.playable import Playable
    from tokenization.score import Score

MOST_VARIATIONS = 1000  # each keeps its state in memory
# Line ends and commands to a terminal, which a file from elsewhere may be named by, and what would be another folder.
UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029/\\]")


def add_options(
    parser: argparse.ArgumentParser, *, model: str = "pop-piano", lengths: bool = True
) -> None:
    """Declare what the commands take; `lengths` for those that write as far as they are told."""
    from musicgen.options import Options

    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path("."),
        help="folder to write to (default: the current one); files there are never overwritten",
    )  # fmt: skip
    parser.add_argument(
        "--model", default=model, metavar="NAME|FOLDER",
        help="a model of `musicgen models`, a folder, or untrained:tiny[:groove] (default: %(default)s)",
    )  # fmt: skip
    if lengths:
        _add_lengths(parser)
    parser.add_argument(
        "--variations",
        type=int,
        default=Options.variations,
        metavar="K",
        help="how many to write (default: %(default)s)",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=Options.sampling.temperature,
        metavar="T",
        help="how daring: 0 always takes the likeliest token, 1 is the model itself (default: %(default)s)",
    )
    parser.add_argument(
        "--top-p",
        type=float,
        default=Options.sampling.top_p,
        metavar="P",
        help="only the likeliest tokens that make up P of all together (default: %(default)s)",
    )
    parser.add_argument(
        "--top-k", type=int, metavar="K", help="only the K likeliest tokens (default: any)"
    )
    parser.add_argument(
        "--min-p",
        type=float,
        default=Options.sampling.min_p,
        metavar="P",
        help="only tokens at least P times as likely as the likeliest, 0 for all (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=Options.seed,
        help="the same seed, the same music (default: %(default)s)",
    )
    parser.add_argument(
        "--device",
        default="auto",
        metavar="auto|cpu|cuda|mps",
        help="where to compute (default: auto, a GPU if there is one)",
    )
    parser.add_argument(
        "--score",
        action="store_true",
        help="write MusicXML beside each MIDI file, for score programs",
    )
    parser.add_argument("--audio", action="store_true", help="write a WAV beside each MIDI file")
    parser.add_argument("--soundfont", type=Path, metavar="FILE.sf2", help="write WAVs with it")
    output.add_json(parser)


def _add_lengths(parser: argparse.ArgumentParser) -> None:
    from musicgen.options import Options

    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--bars",
        type=int,
        default=Options.bars,
        metavar="N",
        help="bars to write (default: %(default)s)",
    )
    length.add_argument("--tokens", type=int, metavar="N", help="tokens to write, instead of bars")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--may-end", action="store_true", help="let the music end before that length")
    end.add_argument(
        "--end", action="store_true", help="let the music come to its end with the last bar"
    )
    parser.add_argument(
        "--chords", metavar="LINE",
        help="keep to these chords, over and over: 'C | G/B | Am F | C', a bar between bars (piano)",
    )  # fmt: skip


def options_of(arguments: argparse.Namespace) -> Options:
    """Return what is asked for, checked before anything is read."""
    from musicgen.generation.sampling import Sampling
    from musicgen.options import Options
    from tokenization.remi.chord_line import read_chords

    if arguments.soundfont is not None and not arguments.soundfont.is_file():
        raise FileNotFoundError(f"there is no soundfont {arguments.soundfont}; name an .sf2 file")
    lengths = {}
    if "bars" in arguments:
        tokens = arguments.tokens
        if arguments.end and tokens is not None:
            raise ValueError("--end takes --bars, in which to come to the end, not --tokens")
        lengths = {
            "bars": _positive(arguments.bars, "--bars"),
            "tokens": None if tokens is None else _positive(tokens, "--tokens"),
            "may_end": arguments.may_end,
            "ends": arguments.end,
            "chords": None if arguments.chords is None else read_chords(arguments.chords),
        }
    return Options(
        variations=_variations(arguments.variations),
        seed=arguments.seed,
        sampling=Sampling(
            temperature=arguments.temperature,
            top_p=arguments.top_p,
            top_k=arguments.top_k,
            min_p=arguments.min_p,
        ),
        **lengths,
    )


def fit(name: str) -> str:
    """Return a name without what would be no file's, or another folder's."""
    return UNFIT.sub("_", name)


def make(
    arguments: argparse.Namespace, options: Options, model: Playable, prompt: Prompt, name: str
) -> None:
    """Continue a prompt, write the files, and say what was written."""
    from musicgen.continuation import Continuation

    name = fit(name)

    def scores(take: Take, number: int) -> dict[str, Score]:
        new = {f"{name}.cont_{number}": take.continuation}
        return {**new, f"{name}.prompt_cont_{number}": take.score} if prompt.bars else new

    expected = options.tokens or round(options.bars * _tokens_a_bar(prompt))
    kinds = (f"{name}.cont_", f"{name}.prompt_cont_")
    do(arguments, Continuation(model, prompt, options), expected, kinds, scores)


def do(
    arguments: argparse.Namespace,
    work: MusicGeneration,
    expected: int,
    kinds: Sequence[str],
    scores: Callable[[Take, int], dict[str, Score]],
) -> None:
    """Do the work, write what `scores` names for each take under a number not yet taken, and say what was written."""
    model, options = work.model, work.options
    folder = _writable(arguments.output)
    began = time.perf_counter()
    with progress_bar(f"{model.name}: tokens") as show:
        for done in work:
            show(done, max(done, expected))
    seconds = time.perf_counter() - began
    takes = [take for take in work.takes() if len(take.continuation.notes)]
    if not takes:
        raise ValueError(
            f"{model.name} wrote no note; more --bars, another --seed or a higher --temperature may help"
        )
    results, midi_files = [], []
    for number, take in enumerate(takes, _first_free(folder, kinds)):
        paths = _write(folder, take, scores(take, number), with_score=arguments.score)
        midi_files += paths
        facts = {"seconds": round(seconds, 3), "seed": options.seed, "model": model.name}
        results.append({"midi": str(paths[0]), "tokens": take.tokens, **facts})
        if not arguments.json:
            output.write(str(paths[0]))
    if arguments.audio or arguments.soundfont:
        _sound(midi_files, arguments.soundfont)
    if arguments.json:
        output.write_json(results)
    output.remark(_told(options.variations, takes, seconds))


def _told(variations: int, takes: Sequence[Take], seconds: float) -> list[str]:
    """Return what is good to know beside the files."""
    tokens, silent = sum(take.tokens for take in takes), variations - len(takes)
    told = [f"{tokens} tokens in {seconds:.1f} s: {tokens / max(seconds, 1e-9):.0f} a second"]
    if silent:
        told.append(f"{silent} of {variations} variations have no note and are not written.")
    return told


def _writable(folder: Path) -> Path:
    """Make the folder to write to, or say before the work what is wrong with it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give -o a folder to write to")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} may not be written to; give another folder with -o")
    return folder


def _write(folder: Path, take: Take, scores: dict[str, Score], *, with_score: bool) -> list[Path]:
    """Write the scores of one take, and what is known of them."""
    from musicgen.continuation import midi_of, musicxml_of
    from tokenization.whole_file import write_whole

    paths = [folder / f"{stem}.mid" for stem in scores]
    for path, score in zip(paths, scores.values(), strict=True):
        write_whole(path, midi_of(score, take.provenance))
        if with_score:
            written = musicxml_of(score, take.provenance, path.stem)
            write_whole(path.with_suffix(".musicxml"), written)
    facts = {**take.provenance, "tokens": take.tokens, "files": [path.name for path in paths]}
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    # A name that is no text becomes escapes, which JSON reads as the same name.
    write_whole(paths[0].with_suffix(".json"), text.encode(errors="backslashreplace"))
    return paths


def _sound(midi_files: Sequence[Path], soundfont: Path | None) -> None:
    """Write a WAV beside each MIDI file."""
    from app.audio import render_to

    with progress_bar("sound: files") as show:
        for done, path in enumerate(midi_files, 1):
            render_to(path.with_suffix(".wav"), path.read_bytes(), soundfont)
            show(done, len(midi_files))


def _tokens_a_bar(prompt: Prompt) -> float:
    """Return about how many tokens a bar takes, for the progress bar."""
    return len(prompt.ids) / prompt.bars if prompt.bars else 60.0


def _first_free(folder: Path, kinds: Sequence[str]) -> int:
    """Return the number that follows those of all files that are there and begin so."""
    taken = [-1]
    for path in folder.iterdir():
        for kind in kinds:
            number = path.stem.removeprefix(kind)
            if number != path.stem and number.isdecimal():
                taken.append(int(number))
    return max(taken) + 1


def _variations(number: int) -> int:
    if number > MOST_VARIATIONS:
        raise ValueError(f"--variations is {number}; up to {MOST_VARIATIONS} are written at a time")
    return _positive(number, "--variations")


def _positive(value: int, option: str) -> int:
    if value < 1:
        raise ValueError(f"{option} is {value}; it is 1 or more")
    return value
