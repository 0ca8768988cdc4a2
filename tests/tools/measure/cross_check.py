"""Measure files by our statistics and by smg-metrics: python -m tests.tools.measure.cross_check [FILE.mid …].

smg-metrics (MIT, Temmie Pratt 2026; `pip install smg-metrics`) has another's code for measures of the field. Without
files, the examples of the page are measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from app import output
from evaluation.metrics.statistics import statistics
from tokenization.formats import read_file

EXAMPLES = Path("app/examples")
SAME = "the same formula"
# Our statistic, theirs and its module, and why they differ, where they do.
MEASURES = (
    ("pitch_class_entropy", "harmony.pitch_class_entropy", SAME),
    ("scale_consistency", "harmony.scale_consistency", SAME),
    ("pitch_range", "quality.pitch_range", SAME),
    ("polyphony", "quality.polyphony", "theirs counts ticks of the file, ours 12 steps a beat"),
    ("polyphony_rate", "quality.polyphony_rate", "theirs asks for three pitches, its text for two"),
    ("empty_beat_rate", "rhythm.empty_beat_rate", "theirs lets a note sound in the beat it ends with"),
    ("groove_consistency", "rhythm.grooving_pattern_similarity", "theirs compares all pairs of bars"),
)  # fmt: skip


def theirs(name: str) -> Callable[[str], float]:
    """Return a measure of smg-metrics by its module and name."""
    module, measure = name.split(".")
    try:
        return getattr(import_module(f"smg_metrics.{module}"), measure)
    except ModuleNotFoundError as error:
        raise SystemExit(f"{error}; run pip install smg-metrics") from None


def compared(paths: list[Path]) -> list[list[Any]]:
    """Return a row a measure: both means, the largest difference of a file, and why there is one."""
    ours = [statistics(read_file(path)) for path in paths]
    rows = []
    for name, other, why in MEASURES:
        a = np.array([found[name] for found in ours], dtype=np.float64)
        b = np.array([theirs(other)(str(path)) for path in paths], dtype=np.float64)
        most = float(np.nanmax(np.abs(a - b)))
        reason = "" if most < 1e-9 else why
        rows.append([name, f"{np.nanmean(a):.4f}", f"{np.nanmean(b):.4f}", f"{most:.4f}", reason])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    paths = parser.parse_args().files or sorted(EXAMPLES.glob("*.mid"))
    rows = compared(paths)
    output.write(
        output.table([["measure", "ours", "smg-metrics", "most"], *(row[:4] for row in rows)])
    )
    for name, *_, why in rows:
        if why:
            output.write(f"{name}: {why}")
    output.write(f"{len(paths)} files; most: the largest difference of a file")


if __name__ == "__main__":
    main()
