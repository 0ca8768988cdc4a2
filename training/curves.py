"""Figures of one run or several: losses during training, and by position at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from musicgen.common.intervals import half_interval
from tokenization.whole_file import replacing

# The colour-blind-safe palette of Okabe and Ito.
BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
SERIES = (BLUE, VERMILION, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":")
# A pandas data frame, as a mapping of its columns, since type checkers infer little about pandas.
Table = Mapping[str, Any]


def write_curves(run: Path, trained_length: int) -> Path:
    """Draw the losses of a run to curves.png in its folder."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    over_steps, by_position = figure.subplots(1, 2)
    _draw_losses(over_steps, read_table(run / "train.csv"), read_table(run / "validation.csv"))
    last = _last(read_table(run / "positions.csv"))
    label = "mean ± standard deviation over sequences"
    _draw_curve(by_position, last["loss"], last["deviation"], label, marker="o", color=VERMILION)
    _label_positions(by_position, trained_length)
    figure.suptitle(_plain(run.name))
    return _save(figure, run / "curves.png")


def draw_comparison(runs: Mapping[str, Sequence[Path]], folder: Path, trained_length: int) -> Path:
    """Draw comparison.png: mean losses over the runs of each name, with 95 % intervals."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    by_time, by_position = figure.subplots(1, 2)
    trained, positions = (
        {name: [read_table(run / file) for run in folders] for name, folders in runs.items()}
        for file in ("train.csv", "positions.csv")
    )
    _draw_by_time(by_time, trained)
    draw_position_means(by_position, positions, trained_length)
    return _save(figure, folder / "comparison.png")


def read_table(path: Path) -> Any:
    """Read a table of a run as floats; empty fields are NaN."""
    return pd.read_csv(path, dtype=float)


def _draw_losses(axes: Axes, train: Table, validation: Table) -> None:
    """Draw validation losses and the smoothed training loss over the steps."""
    axes.plot(train["step"], train["loss"], color=BLUE, alpha=0.25, linewidth=0.8)
    smoothed = _smoothed(train["loss"], 0.02)
    axes.plot(train["step"], smoothed, color=BLUE, label="training (smoothed)")
    kinds = (
        ("inside", VERMILION, "validation, trained length"),
        ("beyond", GREEN, "validation, past it"),
    )
    for name, color, label in kinds:
        if validation[name].notna().any():
            step, loss = validation["step"], validation[name]
            axes.plot(step, loss, "o-", color=color, markersize=3, label=label)
    axes.set(xlabel="step", ylabel="loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")  # free, as losses fall; searching for the best place is slow


def _draw_by_time(axes: Axes, tables: Mapping[str, Sequence[Table]]) -> None:
    """Draw the smoothed mean training loss over the runs of each name by processor time."""
    _cycle_looks(axes)
    for name, runs in tables.items():
        losses = [_smoothed(run["loss"], 0.05) for run in runs]
        columns = [run["processor_seconds"] for run in runs]
        seconds: Any = pd.concat(columns, axis=1, join="inner")
        minutes = seconds.mean(axis=1).cumsum() / 60
        _draw_mean(axes, [loss.reindex(minutes.index).set_axis(minutes) for loss in losses], name)
    axes.set(xlabel="processor minutes", ylabel="training loss (nats per token)")
    axes.grid(alpha=0.3)


def draw_position_means(
    axes: Axes, tables: Mapping[str, Sequence[Table]], trained_length: int
) -> None:
    """Draw the mean loss by position over the runs of each name at their last validation."""
    _cycle_looks(axes)
    for name, runs in tables.items():
        _draw_mean(axes, [_last(run)["loss"] for run in runs], name, marker="o")
    _label_positions(axes, trained_length)


def _draw_mean(axes: Axes, curves: Sequence[Any], name: str, **look: Any) -> None:
    """Draw the mean of curves, with its 95 % interval if there are several."""
    together: Any = pd.concat(curves, axis=1)
    half = None
    if len(curves) > 1:
        half = together.std(axis=1) * half_interval(1.0, len(curves))
    _draw_curve(axes, together.mean(axis=1), half, _plain(name), **look)


def _draw_curve(axes: Axes, curve: Any, half: Any, label: str, **look: Any) -> None:
    """Draw a curve, with a band of the given half-width if there is one."""
    (line,) = axes.plot(curve.index, curve, markersize=3, label=label, **look)
    if half is not None:
        low, high = curve - half, curve + half
        axes.fill_between(curve.index, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def _cycle_looks(axes: Axes) -> None:
    """Distinguish curves by colour, then by dashes."""
    dashes = [dash for dash in DASHES for _ in SERIES]
    axes.set_prop_cycle(color=SERIES * len(DASHES), linestyle=dashes)


def _plain(name: str) -> str:
    """Escape a name for a figure: $ starts mathematics, and unprintable characters cause warnings."""
    return "".join(c if c.isprintable() else "?" for c in name).replace("$", r"\$")


def _last(positions: Any) -> Table:
    """Return the rows of the last validation, indexed by the middle of their range of positions."""
    last = positions[positions["step"] == positions["step"].max()]
    return last.set_index((last["from"] + last["to"]) / 2)


def _label_positions(axes: Axes, trained_length: int) -> None:
    axes.axvline(trained_length, color=GREY, linestyle="--", label="trained length")
    axes.set(xlabel="position (tokens)", ylabel="loss (nats per token)")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")


def _smoothed(values: Any, fraction: float) -> Any:
    """Return the centred moving average over a fraction of the values; at the ends over fewer."""
    window = 1 + 2 * int(len(values) * fraction / 2)
    return values.rolling(window, center=True, min_periods=1).mean()


def _save(figure: Figure, path: Path) -> Path:
    with replacing(path) as part:
        figure.savefig(part, dpi=150, format="png")
    return path
