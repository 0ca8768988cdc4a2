"""`musicgen evaluate style`: compare the style of MIDI files with a reference."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app import output

EXAMPLES = """\
The similarity of two files is the cosine similarity of histograms of their notes, 1 for the same style: on
pitched tracks by onset in the bar and duration, and by time and interval between notes; on drums by onset and
drum. It is computed for the whole output and for its four quarters of equal duration. Where one side has no
such notes, the similarity is missing (–, and null in JSON). Times are not quantised.

A folder of prompts and continuations, NAME.prompt.mid and NAME.prompt_cont_0.mid …, is evaluated as a
whole: the bars after each prompt are compared with the prompt; the table has means over styles
(CHART.STYLE.prompt.mid) with 95 % intervals. The SPE paper published such folders for its three models:
https://github.com/cifkao/spe, branch gh-pages, midi/grv2grv.

examples:
  musicgen evaluate style song.mid song.cont_0.mid song.cont_1.mid
  musicgen evaluate style band.mid output/*.mid --json
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
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the similarities."""
    if Path(arguments.reference).is_dir():
        _compare_folders(arguments)
    else:
        _compare_files(arguments)


def _compare_files(arguments: argparse.Namespace) -> None:
    from evaluation.continuation.experiment import compared
    from tokenization.formats import read_file

    if not arguments.outputs:
        raise ValueError(f"name files to compare with {arguments.reference}")
    reference = {"reference": read_file(arguments.reference)}
    if not len(reference["reference"].notes):
        raise ValueError(
            f"{arguments.reference} has no notes, so there is no style to compare with"
        )
    rows = [
        {"output": name, **row}
        for name in dict.fromkeys(arguments.outputs)
        for row in compared(reference, read_file(name))
    ]
    output.write_result(arguments.json, rows, _table(rows))


def _compare_folders(arguments: argparse.Namespace) -> None:
    from evaluation.continuation.experiment import of_folders
    from evaluation.continuation.results import similarity_tables
    from tokenization.wording import counted

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


def _table(rows: list[dict[str, Any]]) -> str:
    """Format one line per output and metric, with columns for the whole and the quarters."""
    from evaluation.continuation.results import QUARTER_NAMES
    from evaluation.tables import number

    lines: dict[tuple[str, str], dict[int | None, str]] = {}
    for row in rows:
        line = lines.setdefault((row["output"], row["metric"]), {})
        line[row["quarter"]] = number(row["similarity"])
    cells = [[*key, *(line[quarter] for quarter in QUARTER_NAMES)] for key, line in lines.items()]
    return output.table([["output", "metric", *QUARTER_NAMES.values()], *cells])
