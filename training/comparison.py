"""Comparison of runs with equal budgets: losses within and past the trained length, speed and size, and a figure.

Each configuration has one run or several with different seeds. The seed determines initial weights, batches and all
random draws, so runs of one seed see the same music in the same order. Differences are taken between runs of a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, product
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from musicgen.checkpoint import read_card
from tokenization.intervals import mean_interval
from tokenization.whole_file import replacing, write_csv, write_text
from tokenization.wording import markdown
from training import run_folder
from training.config import RunConfig
from training.loop import MODEL

INTERVAL = "_interval"  # suffix of the column of a mean's interval, half its width
HEADINGS = {  # where they differ from the column's name
    "name": "run",
    "inside": "loss, trained length",
    "beyond": "loss, past it",
    "change": "change from no encoding",
    "change_beyond": "change, past it",
    "tokens_per_second": "tokens/s",
}
# Columns of a run; `inside` and `beyond` are validation losses in nats per token, the speed is a median.
RUN = ("name", "seed", "parameters", "steps", "inside", "beyond", "tokens_per_second", "failed")
Row = dict[str, Any]


def read_table(path: Path) -> Any:
    """Read a table of a run as floats; empty fields are NaN."""
    return pd.read_csv(path, dtype=float)


def run_results(run: Path) -> Row:
    """Return the results of a finished run at its last step."""
    if run_folder.newest(run) is None:
        raise ValueError(f"{run} has no checkpoint")
    last = read_table(run / "validation.csv").iloc[-1]  # of the tail, if it has one
    inside, beyond = (float(last[name]) for name in ("inside", "beyond"))
    return {
        "parameters": read_card(run / MODEL)[1].parameters,
        "steps": int(last["step"]),
        "inside": inside,
        "beyond": None if isnan(beyond) else beyond,
        "tokens_per_second": round(read_table(run / "train.csv")["tokens_per_second"].median(), 1),
    }


def ranked(runs: Sequence[Row], baseline: str | None) -> list[Row]:
    """Return one row per configuration, by increasing loss within the trained length, failed ones last.

    Numbers are means over the runs that did not fail, with half the width of their 95 % intervals. Changes are
    differences from the baseline's run with the same seed.
    """
    table: Any = pd.DataFrame(runs, columns=RUN)
    losses = table.set_index(["name", "seed"])[["inside", "beyond"]].astype(float)
    baselines = [(None if name == baseline else baseline, seed) for name, seed in losses.index]
    changes = losses.reset_index(drop=True) - losses.reindex(baselines).reset_index(drop=True)
    table["change"], table["change_beyond"] = changes["inside"], changes["beyond"]
    groups = table.groupby("name", sort=False)
    found: Any = pd.DataFrame({"seeds": groups["steps"].count()})
    found[["parameters", "steps"]] = groups[["parameters", "steps"]].first().astype("Int64")
    _add_means(found, groups, "inside", "beyond")
    _add_means(found, groups, "change", "change_beyond")
    found["tokens_per_second"] = groups["tokens_per_second"].mean()
    found["failed"] = groups["failed"].agg(lambda texts: "; ".join(texts.dropna().unique()))
    plain = found.sort_values("inside", kind="stable").reset_index().astype(object)
    return plain.where(plain.notna(), None).to_dict("records")


def _add_means(found: Any, groups: Any, *names: str) -> None:
    for name in names:
        found[name] = groups[name].mean()
        found[f"{name}{INTERVAL}"] = groups[name].agg(_half_interval)


def _half_interval(values: Any) -> float | None:
    known = values.dropna().tolist()
    return mean_interval(known)[1] if len(known) else None


def write_comparison(rows: Sequence[Row], folder: Path) -> None:
    """Write comparison.csv and comparison.md."""
    write_csv(folder / "comparison.csv", rows)
    write_text(folder / "comparison.md", f"{markdown(comparison_table(rows))}\n")


def comparison_table(rows: Sequence[Row]) -> list[list[str]]:
    """Return headings and cells for rows; a mean is followed by its interval."""
    names = [
        name
        for name in rows[0]
        if not name.endswith(INTERVAL) and any(row[name] not in (None, "") for row in rows)
    ]
    head = [HEADINGS.get(name, name) for name in names]
    return [head, *([_cell(row[name], row.get(name + INTERVAL)) for name in names] for row in rows)]


def _cell(value: object, interval: float | None = None) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        between = "" if interval is None else f" ± {interval:.4f}"
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4f}{between}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def baseline_of(configs: Mapping[str, RunConfig]) -> str | None:
    """Return the configuration without a positional encoding; None unless there is exactly one."""
    positions = {
        name: (config.model or {}).get("position", "none") for name, config in configs.items()
    }
    found = [name for name, position in positions.items() if position in ("none", {"name": "none"})]
    return found[0] if len(found) == 1 else None


# The colour-blind-safe palette of Okabe and Ito.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":")
VALIDATION: Any = {"marker": "o", "markersize": 5, "fillstyle": "none", "linestyle": "none"}
LEAST_SPAN = 0.2  # nats that an axis shows
SMOOTHED = 0.05  # fraction of the steps over which the training loss is averaged


def draw_runs(
    runs: Mapping[str, Sequence[Path]], file: Path, trained_length: int, *, by_time: bool = False
) -> Path:
    """Draw the losses of runs, in one colour per name, by steps or by processor time; circles are of validations."""
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
            few = {"marker": "x"} if len(train) < 2 else {}  # a line of one point is not seen
            during.plot(at, _smoothed(train["loss"]), **look, **few)
            at_validation = _at(validation["step"], at) if by_time else validation["step"]
            during.plot(at_validation, validation["inside"], color=colour, **VALIDATION)
            last = _last(read_table(folder / "positions.csv"))
            middle = (last["from"] + last["to"]) / 2
            look |= {"marker": "o", "markersize": 3, "label": None}
            by_position.plot(middle, last["loss"], **look)
    several = len(runs) > 1
    label = "validation, in the run's colour" if several else "validation"
    during.plot([], [], color="#666666" if several else COLOURS[0], label=label, **VALIDATION)
    by_position.axvline(trained_length, color="#666666", linestyle="--", label="trained length")
    for axes, x in (
        (during, "processor minutes" if by_time else "step"),
        (by_position, "position (tokens)"),
    ):
        low, high = axes.get_ylim()
        spare = max(0.0, LEAST_SPAN - (high - low)) / 2  # noise is not drawn as a curve
        axes.set(xlabel=x, ylabel="loss (nats per token)", ylim=(low - spare, high + spare))
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
    figure.legend(loc="outside upper left", ncols=4)
    with replacing(file) as part:
        figure.savefig(part, dpi=150, format="png")
    return file


def _at(steps: Any, at: Any) -> np.ndarray:
    """Return the times of some steps, given those of the logged ones, between which the speed is constant."""
    return np.interp(steps, [0, *at.index], [0, *at])


def loss_by_position(runs: Sequence[Path]) -> str:
    """Return a table of the last validation of each run: losses with 95 % intervals over pieces, by position."""
    from scipy.stats import t  # imported here because it takes a second

    for run in runs:
        if not (run / "positions.csv").is_file():
            raise ValueError(f"{run} is no run with a validation: it has no positions.csv")
    tables = {run.name: _last(read_table(run / "positions.csv")) for run in runs}
    spans = sorted({span for table in tables.values() for span in _spans(table)})
    rows = [["run", *(f"{start:,}–{stop:,}" for start, stop in spans), "pieces"]]
    for name, table in tables.items():
        half = t.ppf(0.975, table["n"] - 1) * table["deviation"] / table["n"] ** 0.5
        cells = {
            span: f"{loss:.3f} ± {width:.3f}"
            for span, loss, width in zip(_spans(table), table["loss"], half, strict=True)
        }
        pieces = sorted({int(n) for n in table["n"]})  # fewer reach the last positions
        rows.append(
            [
                name,
                *(cells.get(span, "–") for span in spans),
                "–".join(map(str, pieces[:1] + pieces[1:][-1:])),
            ]
        )
    return markdown(rows)


def _spans(table: Any) -> list[tuple[int, int]]:
    return [*zip(table["from"].astype(int), table["to"].astype(int), strict=True)]


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
