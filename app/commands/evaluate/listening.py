"""`musicgen evaluate listening`: count preferences in blind comparisons on the page."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from app import output

EXAMPLES = """\
On the page, “Compare blind” plays two takes, or a take and the real
continuation of the piece, without saying which is which. “Download choices”
saves the answers to a file. This command counts them for each pair of sources;
if both takes are of one model, the sides are A and B as heard, so that the
counts show whether listeners prefer a position.

example:
  musicgen evaluate listening anna.json ben.json

  How often each side of a pair was preferred in n blind comparisons. fraction
  first: of the comparisons with a preference, with its 95 % interval (Wilson).
  pair              n  first  second  equal        fraction first
  ensemble / real  24      8      12      4  0.400 [0.219, 0.613]
"""
FORMAT = "musicgen listening 1"  # as app/assets/widgets/blind.js writes it
REAL = "real"  # the source of real pieces
CAPTION = (
    "How often each side of a pair was preferred in n blind comparisons. fraction\n"
    "first: of the comparisons with a preference, with its 95 % interval (Wilson)."
)
LONGEST_SOURCE = 12  # characters of a name in the table


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="files of choices, saved by the page"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print one row per pair of sources."""
    from evaluation.tables import Table, interval

    rows = counted(choices_of(arguments.files))
    if not rows:
        raise ValueError("these files have no choices yet; compare takes on the page first")
    cells = [
        [
            _pair_name(*row["pair"]),
            *(str(row[name]) for name in ("heard", "first", "second", "equal")),
            interval(*(row["share"][key] for key in ("mean", "low", "high"))),
        ]
        for row in rows
    ]
    head = ("pair", "n", "first", "second", "equal", "fraction first")
    table = Table(head=head, rows=cells, caption=CAPTION)
    output.write_result(arguments.json, rows, output.captioned(table))


def choices_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the choices in some files, each with its pair of sources and the chosen one, without duplicates."""
    from tokenization.records import json_of

    found = {}
    for path in paths:
        content = json_of(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(
                f"{path} has no choices of blind comparisons; the page's “Compare blind” saves a file of them"
            )
        try:
            for choice in content["choices"]:
                pair = tuple(str(choice[side]["source"]) for side in ("A", "B"))
                chosen = {"A": 0, "B": 1, "none": None}[choice["chosen"]]
                found[str(choice["id"])] = {"pair": pair, "chosen": chosen}
        except (KeyError, TypeError):
            raise ValueError(f"{path} is damaged: one of its choices is incomplete") from None
    return [*found.values()]


def counted(choices: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per pair of sources, sorted by name; the real piece is always second."""
    from evaluation.metrics.estimates import estimate

    counts: dict[tuple[str, str], Counter[int | None]] = defaultdict(Counter)
    for choice in choices:
        heard, chosen = choice["pair"], choice["chosen"]
        pair = min(heard, heard[::-1], key=lambda two: (two[0] == REAL, two))
        counts[pair][chosen if chosen is None or pair == heard else 1 - chosen] += 1
    return [
        {
            "pair": list(pair),
            "heard": found.total(),
            "first": found[0],
            "second": found[1],
            "equal": found[None],
            "share": estimate([1.0] * found[0] + [0.0] * found[1], shares=True),
        }
        for pair, found in sorted(counts.items())
    ]


def _pair_name(first: str, second: str) -> str:
    names = [
        name if len(name) <= LONGEST_SOURCE else f"{name[: LONGEST_SOURCE - 1]}…"
        for name in (first, second)
    ]
    return f"{names[0]}, A and B" if first == second else " / ".join(names)
