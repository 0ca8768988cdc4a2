"""`musicgen evaluate listening`: count which music people preferred in blind comparisons on the page."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import output

EXAMPLES = """\
On the page, “Compare blind” plays two takes, or a take and the piece as it
really goes on, without saying which is which; “Download choices” writes what
was chosen to a file. Of each pair of sources this counts who preferred which.

example:
  musicgen evaluate listening anna.json ben.json

  How often each side of a pair was preferred in n blind comparisons. fraction
  first: of the comparisons with a preference, with its 95 % interval (Wilson).
  pair              n  first  second  equal        fraction first
  ensemble / real  24      8      12      4  0.400 [0.219, 0.613]
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="files of choices, from the page"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print a row for each pair of sources."""
    from evaluation.listening import choices_of, counted, table

    choices = choices_of(arguments.files)
    if not choices:
        raise ValueError("there are no choices in these files yet; compare something on the page")
    rows = counted(choices)
    output.write_either(arguments.json, rows, output.captioned(table(rows)))
