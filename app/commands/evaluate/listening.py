"""`musicgen evaluate listening`: count preferences in blind comparisons on the page."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output

EXAMPLES = """\
On the page, “Compare blind” plays two takes, or a take and the real
continuation of the piece, without saying which is which. “Download choices”
saves the answers to a file. This command counts them for each pair of sources.

example:
  musicgen evaluate listening anna.json ben.json

  How often each side of a pair was preferred in n blind comparisons. fraction
  first: of the comparisons with a preference, with its 95 % interval (Wilson).
  pair              n  first  second  equal        fraction first
  ensemble / real  24      8      12      4  0.400 [0.219, 0.613]
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="files of choices, saved by the page"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print one row per pair of sources."""
    from evaluation.listening import choices_of, counted, table

    choices = choices_of(arguments.files)
    if not choices:
        raise ValueError("these files have no choices yet; compare takes on the page first")
    rows = counted(choices)
    output.write_result(arguments.json, rows, output.captioned(table(rows)))
