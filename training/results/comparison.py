"""Runs of one budget side by side: the loss within the trained length and past it, speed and size."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.storage.checkpoint import read_card
from tokenization.whole_file import beside, write_csv, write_text
from tokenization.wording import markdown
from training.loop import MODEL
from training.results.curves import Table, read_table
from training.storage import saving


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a run came to, at its last step; None where it failed."""

    name: str
    parameters: int | None = None
    steps: int | None = None
    inside: float | None = None  # validation loss in nats a token, within the trained length
    beyond: float | None = None  # past it
    tokens_per_second: float | None = None  # the median over the run
    failed: str = ""


HEADINGS = {  # of columns that are not called as their fields
    "name": "run",
    "inside": "loss, trained length",
    "inside_interval": "±",
    "beyond": "loss, past it",
    "beyond_interval": "±",
    "against": "beside",
    "change_interval": "±",
    "change_beyond": "change, past it",
    "change_beyond_interval": "±",
    "tokens_per_second": "tokens/s",
}


def compared(run: Path) -> Compared:
    """Return what a finished run came to."""
    found = saving.newest(run)
    if found is None:
        raise ValueError(f"{run} holds no checkpoint to compare")
    state = saving.read_state(found)
    speeds = read_table(run / "train.csv")["tokens_per_second"]
    return Compared(
        name=run.name,
        parameters=read_card(run / MODEL)[1].parameters,
        steps=state.step,
        inside=state.validation_loss,
        beyond=state.validation_beyond,
        tokens_per_second=round(float(np.median(speeds)), 1) if len(speeds) else None,
    )


def ranked(rows: Sequence[Any]) -> list[Any]:
    """Return the best within the trained length first, what failed last."""
    return sorted(rows, key=lambda row: np.inf if row.inside is None else row.inside)


def write_comparison(rows: Sequence[Any], folder: Path) -> None:
    """Write comparison.csv and comparison.md, ranked: a row a run, or what several of them come to."""
    plain = [asdict(row) for row in ranked(rows)]
    write_csv(folder / "comparison.csv", plain)
    names = [name for name in plain[0] if name != "failed" or any(row["failed"] for row in plain)]
    lines = [[_cell(row[name]) for name in names] for row in plain]
    text = markdown([[HEADINGS.get(name, name) for name in names], *lines])
    write_text(folder / "comparison.md", f"{text}\n")


def tabulated(folder: Path) -> dict[str, int | None]:
    """Return the seeds of each row of the comparison.csv in a folder, by name; None where a row is a single run."""
    try:
        text = (folder / "comparison.csv").read_text(encoding="utf-8")
        rows = list(csv.DictReader(text.splitlines()))
        return {
            row["name"].removeprefix("'"): int(row["seeds"]) if "seeds" in row else None
            for row in rows
        }
    except FileNotFoundError:
        return {}
    except (LookupError, ValueError, TypeError, AttributeError, csv.Error):
        raise ValueError(
            f"{folder / 'comparison.csv'} is no table of a comparison; move it away, or name another folder with -o"
        ) from None


def draw_comparison(runs: Mapping[str, Sequence[Path]], folder: Path, trained_length: int) -> Path:
    """Draw comparison.png, the mean loss of each name's runs by position; raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    from training.results.curves import draw_position_means

    figure = Figure(figsize=(8, 5), layout="constrained")
    tables = {
        name: _mean_table([read_table(run / "positions.csv") for run in of_name])
        for name, of_name in runs.items()
    }
    draw_position_means(figure.subplots(), tables, trained_length)
    with beside(folder / "comparison.png") as part:
        figure.savefig(part, dpi=150, format="png")
    return folder / "comparison.png"


def _mean_table(tables: Sequence[Table]) -> Table:
    """Return the means of tables of one budget, at their last validation."""
    last = [table["step"] == table["step"].max(initial=-np.inf) for table in tables]
    return {
        key: np.mean([t[key][rows] for t, rows in zip(tables, last, strict=True)], axis=0)
        for key in tables[0]
    }


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
