"""`musicgen evaluate style`: compare the style of MIDI files with a reference."""

from __future__ import annotations

import argparse
from collections.abc import Callable
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
https://github.com/cifkao/spe, branch www, midi/grv2grv.

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
    """Print the similarities, of files or, as means over styles, of folders."""
    from evaluation.metrics.style import compared_files, compared_folders
    from evaluation.tables import number, with_interval
    from tokenization.wording import counted

    names = list(dict.fromkeys(arguments.outputs))
    if not Path(arguments.reference).is_dir():
        if not names:
            raise ValueError(f"name files to compare with {arguments.reference}")
        rows = compared_files(arguments.reference, names)
        text = _table(rows, lambda row: number(row["similarity"]))
        output.write_result(arguments.json, rows, text)
        return
    for name in names:
        if not Path(name).is_dir():
            raise ValueError(f"{name} is not a folder, but {arguments.reference} is")
    found = compared_folders([*dict.fromkeys([arguments.reference, *names])])
    lines = [
        f"{name}: {counted(count['file'], 'continuation')}, {counted(count['style'], 'style')}"
        for name, count in found["counts"].items()
    ]
    lines.append("Similarity of style to the prompt: mean [95 % interval] over styles (n).")
    table = _table([row for row in found["similarity"] if row["n"]], with_interval)
    output.write_result(arguments.json, found, "\n".join([*lines, table]))


def _table(rows: list[dict[str, Any]], cell: Callable[[dict[str, Any]], str]) -> str:
    """Format one line per output and metric, with columns for the whole and the quarters."""
    from evaluation.metrics.style import QUARTER_NAMES
    from evaluation.tables import NONE

    lines: dict[tuple[str, str], dict[int | None, str]] = {}
    for row in rows:
        lines.setdefault((row["output"], row["metric"]), {})[row["quarter"]] = cell(row)
    cells = [
        [*key, *(line.get(quarter, NONE) for quarter in QUARTER_NAMES)]
        for key, line in lines.items()
    ]
    return output.table([["output", "metric", *QUARTER_NAMES.values()], *cells])
