"""A figure of one run or several: losses during training, and by position at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tokenization.whole_file import replacing

# The colour-blind-safe palette of Okabe and Ito.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":")
SMOOTHED = 0.05  # fraction of the steps over which the training loss is averaged


def draw_runs(
    runs: Mapping[str, Sequence[Path]], file: Path, trained_length: int, *, by_time: bool = False
) -> Path:
    """Draw the losses of runs, in one colour per name, by steps or by processor time; points are of validations."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    during, by_position = figure.subplots(1, 2)
    looks = cycle(product(DASHES, COLOURS))
    for (name, folders), (dash, colour) in zip(runs.items(), looks, strict=False):
        for number, folder in enumerate(folders):
            label = _plain(name) if number == 0 else None
            look: Any = {"color": colour, "linestyle": dash, "label": label}
            train, validation = (read_table(folder / f"{n}.csv") for n in ("train", "validation"))
            minutes = train["processor_seconds"].cumsum() / 60
            at = (minutes if by_time else train["step"]).set_axis(train["step"])
            during.plot(at, _smoothed(train["loss"]), **look)
            at_validation = at.reindex(validation["step"])
            during.plot(at_validation, validation["inside"], "o", color=colour, markersize=3)
            last = _last(read_table(folder / "positions.csv"))
            middle = (last["from"] + last["to"]) / 2
            by_position.plot(middle, last["loss"], marker="o", markersize=3, **look)
    by_position.axvline(trained_length, color="#666666", linestyle="--", label="trained length")
    by_position.set_xlim(left=0)
    for axes, x in (
        (during, "processor minutes" if by_time else "step"),
        (by_position, "position (tokens)"),
    ):
        axes.set(xlabel=x, ylabel="loss (nats per token)")
        axes.grid(alpha=0.3)
        axes.legend(loc="upper right")  # free, as losses fall; searching for the best place is slow
    with replacing(file) as part:
        figure.savefig(part, dpi=150, format="png")
    return file


def read_table(path: Path) -> Any:
    """Read a table of a run as floats; empty fields are NaN."""
    return pd.read_csv(path, dtype=float)


def _last(positions: Any) -> Any:
    """Return the rows of the last validation."""
    return positions[positions["step"] == positions["step"].max()]


def _smoothed(losses: Any) -> Any:
    """Return the centred moving average; at the ends over fewer values."""
    window = 1 + 2 * int(len(losses) * SMOOTHED / 2)
    return losses.rolling(window, center=True, min_periods=1).mean()


def _plain(name: str) -> str:
    """Escape a name for a figure: $ starts mathematics, and unprintable characters cause warnings."""
    return "".join(c if c.isprintable() else "?" for c in name).replace("$", r"\$")
