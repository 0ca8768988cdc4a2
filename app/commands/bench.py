"""`musicgen bench`: speed and memory of this machine."""

from __future__ import annotations

import argparse
from typing import Any

from app import output
from app.options import check_counts
from app.output import progress_bar

EXAMPLES = """\
examples:
  musicgen bench
  musicgen bench --only token stream
  musicgen bench --profile            # where the time of a generated token goes
  musicgen bench --json > bench.json

A ratio is the time of the row it is compared with, over this row's. Memory is the peak of the whole process.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="works whose names begin so"
    )
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="turns of each work")
    parser.add_argument(
        "--profile", action="store_true", help="show the parts of one generated token, and no table"
    )
    output.add_json(parser)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Print a row a work."""
    from evaluation.speed.bench import bench, gpu_facts
    from musicgen.common.machine import machine

    check_counts(arguments, "rounds")
    if arguments.profile:
        _profile(as_json=arguments.json)
        return
    output.remark([f"On {machine()}."])
    with progress_bar("works") as show:
        rows = bench(arguments.only, arguments.rounds, show)
    if arguments.json:
        output.write_json(rows)
        return
    heads = ["work", "size", "best", "spread", "n", "peak memory", "ratio", "with"]
    output.write(output.table([heads, *(_cells(row) for row in rows)]))
    for name, value in gpu_facts(rows).items():
        output.write(f"GPU training step: {name.replace('_', ' ')} {value:,.3g}")


def _profile(*, as_json: bool) -> None:
    from evaluation.speed.workloads import paper, step_profile

    rows = step_profile(paper())
    if as_json:
        output.write_json(rows)
        return
    heads = ["part of a token, paper's model", "mean", "spread", "n", "share"]
    cells = [
        [
            row["part"],
            f"{row['seconds'] * 1e3:.2f} ms",
            f"± {row['spread'] * 1e3:.2f}",
            str(row["n"]),
            f"{row['share']:.1%}",
        ]
        for row in rows
    ]
    output.write(output.table([heads, *cells]))


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['work']} [{row['name']}]",
        row["size"],
        f"{row['seconds'] * 1e3:,.1f} ms",
        f"± {row['spread'] * 1e3:,.1f}",
        str(row["n"]),
        f"{row['peak_bytes'] / 1e9:.2f} GB",
        f"{row['ratio']:.2f}" if row["ratio"] is not None else "",
        row["against"] or "",
    ]
