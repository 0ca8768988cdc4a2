"""`musicgen bench`: measure speed and memory on this machine."""

from __future__ import annotations

import argparse
from typing import Any

from app import output
from app.options import check_counts

EXAMPLES = """\
examples:
  musicgen bench
  musicgen bench --only token stream
  musicgen bench --json > bench.json

The ratio is the time of the row named last, divided by the time of this row. GB is the peak memory of the whole
process.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="only tasks with these prefixes"
    )
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="rounds of all tasks")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print one row per task."""
    from evaluation.bench import bench
    from musicgen.common.machine import machine

    check_counts(arguments, "rounds")
    output.remark([f"On {machine()}."])
    with output.progress_bar("tasks") as show:
        rows = bench(arguments.only, arguments.rounds, show)
    if arguments.json:
        output.write_json(rows)
        return
    heads = ["task", "best, ms", "spread", "n", "GB", "ratio", "to"]
    output.write(output.table([heads, *(_cells(row) for row in rows)]))
    output.write("")
    for row in rows:
        output.write(f"{row['name']}: {row['work'].strip(' …')}\n  {row['size']}")


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["name"],
        f"{row['seconds'] * 1e3:,.1f}",
        f"{row['spread'] * 1e3:,.1f}",
        str(row["n"]),
        f"{row['peak_bytes'] / 1e9:.2f}",
        f"{row['ratio']:.2f}" if row["ratio"] is not None else "",
        row["against"] or "",
    ]
