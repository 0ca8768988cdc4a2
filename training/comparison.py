"""Comparison of runs with equal budgets: losses within and past the trained length, speed and size.

Each configuration has one run or several with different seeds. The seed determines initial weights, batches and all
random draws, so runs of one seed see the same music in the same order. Differences are taken between runs of a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from musicgen.checkpoint import read_card
from musicgen.common.intervals import mean_interval
from tokenization.whole_file import write_csv, write_text
from tokenization.wording import markdown
from training import run_folder
from training.config import RunConfig
from training.curves import read_table
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


def run_results(run: Path) -> Row:
    """Return the results of a finished run at its last step."""
    found = run_folder.newest(run)
    if found is None:
        raise ValueError(f"{run} holds no checkpoint")
    state = run_folder.read_state(found)
    return {
        "parameters": read_card(run / MODEL)[1].parameters,
        "steps": state.step,
        "inside": state.validation_loss,
        "beyond": state.validation_beyond,
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
