"""`musicgen evaluate style`: compare the style of MIDI files with a reference."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output

if TYPE_CHECKING:
    from evaluation.metrics.style import Profiles
    from tokenization.score import Score

EXAMPLES = """\
The similarity of two files is the cosine similarity of histograms of their notes, 1 for the same style:
by onset in the bar and duration, and by time and interval between notes; with --tracks all, also by onset
and drum. It is computed for the whole output and for its four quarters of equal duration. Where one side
has no such notes, the similarity is missing (–, and null in JSON). Times are not quantised.

A folder of prompts and continuations, NAME.prompt.mid and NAME.prompt_cont_0.mid …, is evaluated as a
whole: the bars after each prompt are compared with the prompt; the table has means over styles
(CHART.STYLE.prompt.mid) with 95 % intervals. The SPE paper published such folders for its three models:
https://github.com/cifkao/spe, branch gh-pages, midi/grv2grv.

examples:
  musicgen evaluate style song.mid song.cont_0.mid song.cont_1.mid
  musicgen evaluate style band.mid output/*.mid --tracks all --json
  musicgen evaluate style band.mid band.prompt_cont_0.mid --by-track --grid 12
  cd spe/midi/grv2grv; mkdir ours; cp sinespe/*.prompt.mid ours
  musicgen continue ours/*.prompt.mid -o ours --model runs/groove --tokens 900 --variations 3
  musicgen evaluate style ape sinespe convspe ours
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reference", metavar="REFERENCE",
        help="the file to compare with; or a folder, and all OUTPUTs too",
    )  # fmt: skip
    parser.add_argument("outputs", metavar="OUTPUT", nargs="*", help="the files to compare")
    parser.add_argument(
        "--tracks", choices=("pitched", "all"), default="pitched",
        help="pitched: without drums (default); all: with drums",
    )  # fmt: skip
    parser.add_argument(
        "--by-track", action="store_true", help="compare each track with the one of the same name"
    )
    parser.add_argument(
        "--grid",
        type=int,
        metavar="N",
        help="round times to N ticks per beat (default: no rounding)",
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the similarities, and remarks on files that cannot be compared."""
    from app.cli import describe

    if Path(arguments.reference).is_dir():
        _compare_folders(arguments)
        return
    if not arguments.outputs:
        raise ValueError(f"name files to compare with {arguments.reference}")
    reference = _profiles(_read(arguments.reference, arguments.grid), arguments)
    if not any(histogram.any() for histogram in reference.values()):
        raise ValueError(
            f"{arguments.reference} has no {_what(arguments)}, so there is no style to compare with"
        )
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(arguments.outputs):
        try:
            score = _read(name, arguments.grid)
            _check_tracks(reference, _profiles(score, arguments), name, arguments)
        except (ValueError, OSError) as error:
            output.remark([describe(error)])
            continue
        rows += _rows(name, reference, score, arguments)
    if not rows:
        raise ValueError(f"no output could be compared with {arguments.reference}; see above")
    output.write_result(arguments.json, rows, _table(rows))


def _compare_folders(arguments: argparse.Namespace) -> None:
    from evaluation.continuation.experiment import of_folders
    from evaluation.continuation.results import similarity_tables
    from tokenization.wording import counted

    if arguments.by_track or arguments.grid is not None:
        raise ValueError("--by-track and --grid are for files, not folders")
    folders = [Path(name) for name in (arguments.reference, *arguments.outputs)]
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder, but {arguments.reference} is")
    found = of_folders(list(dict.fromkeys(folders)))
    counts = [
        f"{name}: {counted(count['file'], 'continuation')}, {counted(count['style'], 'style')}"
        for name, count in found["counts"].items()
    ]
    tables = [output.captioned(table) for table in similarity_tables(found, "prompt")]
    output.write_result(arguments.json, found, "\n\n".join(["\n".join(counts), *tables]))


def _read(name: str, grid: int | None) -> Score:
    from tokenization.formats import read_file

    if grid is not None and grid < 1:
        raise ValueError(f"--grid is {grid}; it must be a number of ticks per beat, such as 12")
    score = read_file(name)
    return score if grid is None else score.rescaled(grid)


def _profiles(score: Score, arguments: argparse.Namespace) -> dict[Any, Any]:
    """Return histograms by track and metric; the track is None if all tracks are combined."""
    from evaluation.metrics.style import profiles, track_profiles

    if not arguments.by_track:
        found: Profiles = profiles(score, arguments.tracks)
        return {(None, metric): histogram for metric, histogram in found.items()}
    by_track = track_profiles(score)
    drums = arguments.tracks == "all"
    return {
        key: histogram for key, histogram in by_track.items() if drums or key[1] != "onset_drum"
    }


def _check_tracks(
    reference: dict[Any, Any], found: dict[Any, Any], name: str, arguments: argparse.Namespace
) -> None:
    """Print the tracks that an output lacks; raise ValueError if nothing can be compared."""
    if not any(found[key].any() for key in reference if key in found):
        where = " on the tracks of the reference" if arguments.by_track else ""
        raise ValueError(f"{name} has no {_what(arguments)}{where}, so there is nothing to compare")
    missing = dict.fromkeys(track for track, metric in reference if (track, metric) not in found)
    output.remark(f"{name} has no track {track!r}, unlike the reference" for track in missing)


def _rows(
    name: str, reference: dict[Any, Any], score: Score, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return the similarities of one output, of the whole (quarter None) and its quarters."""
    from evaluation.metrics.style import quarters, similarities

    parts = {None: score, **dict(enumerate(quarters(score), start=1))}
    found = {part: _profiles(music, arguments) for part, music in parts.items()}
    found = {part: similarities(reference, histograms) for part, histograms in found.items()}
    return [
        {
            "output": name,
            **({"track": track} if arguments.by_track else {}),
            "metric": metric,
            "quarter": part,
            "similarity": found[part][track, metric],
        }
        for track, metric in reference
        for part in parts
    ]


def _table(rows: list[dict[str, Any]]) -> str:
    """Format one line per output and metric, with columns for the whole and the quarters."""
    from evaluation.tables import number

    lines: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("output", "track", "metric") if name in row)
        lines.setdefault(key, []).append(number(row["similarity"]))
    names = [name for name in ("output", "track", "metric") if name in rows[0]]
    quarters = ["1st quarter", "2nd", "3rd", "4th"]
    return output.table([[*names, "whole", *quarters], *([*key, *v] for key, v in lines.items())])


def _what(arguments: argparse.Namespace) -> str:
    return "notes on pitched tracks" if arguments.tracks == "pitched" else "notes"
