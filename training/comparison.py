"""Runs of one budget side by side: the loss within the trained length and past it, speed and size.

One run of each configuration or several, from other seeds. A seed decides the first weights, the batches and all that
is drawn, so runs of one seed see the same music in the same order. Differences are taken seed by seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from musicgen.checkpoint import read_card
from musicgen.common.intervals import mean_interval
from musicgen.playable import folder_of
from tokenization.whole_file import write_csv, write_text
from tokenization.wording import markdown
from training import run_folder
from training.config import RunConfig
from training.curves import read_table
from training.loop import MODEL

INTERVAL = "_interval"  # at the end of the name of half an interval
HEADINGS = {  # of columns that are not called by their names
    "name": "run",
    "inside": "loss, trained length",
    "beyond": "loss, past it",
    "change_beyond": "change, past it",
    "tokens_per_second": "tokens/s",
}
# What is known of a run: its validation loss in nats a token within the trained length and past it, its median speed.
RUN = ("name", "seed", "parameters", "steps", "inside", "beyond", "tokens_per_second", "failed")
Row = dict[str, Any]


def compared(run: Path) -> Row:
    """Return what a finished run came to, at its last step."""
    found = run_folder.newest(run)
    if found is None:
        raise ValueError(f"{run} holds no checkpoint to compare")
    state = run_folder.read_state(found)
    return {
        "parameters": read_card(run / MODEL)[1].parameters,
        "steps": state.step,
        "inside": state.validation_loss,
        "beyond": state.validation_beyond,
        "tokens_per_second": round(read_table(run / "train.csv")["tokens_per_second"].median(), 1),
    }


def ranked(runs: Sequence[Row], against: Mapping[str, str]) -> list[Row]:
    """Return a row a configuration, the best within the trained length first and what failed last.

    Its numbers are means over the runs that did not fail, with half the width of their 95 % interval, and the change
    against the configuration without an encoding that `against` names.
    """
    table: Any = pd.DataFrame(runs, columns=RUN)
    losses = table.set_index(["name", "seed"])[["inside", "beyond"]].astype(float)
    others = [(against.get(name), seed) for name, seed in losses.index]
    changes = losses.reset_index(drop=True) - losses.reindex(others).reset_index(drop=True)
    table["change"], table["change_beyond"] = changes["inside"], changes["beyond"]
    named = table["name"].map(lambda name: against.get(name, ""))
    table["against"] = named.where(changes["inside"].notna(), "")
    groups = table.groupby("name", sort=False)
    found: Any = pd.DataFrame({"seeds": groups["steps"].count()})
    found[["parameters", "steps"]] = groups[["parameters", "steps"]].first().astype("Int64")
    _add_means(found, groups, "inside", "beyond")
    found["against"] = groups["against"].max()
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
    """Return titles and a row for each of the rows; an interval stands behind its mean."""
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


def tabulated(folder: Path) -> dict[str, int]:
    """Return the seeds of each row of the comparison.csv in a folder, by name."""
    path = folder / "comparison.csv"
    if not path.exists():
        return {}
    try:
        table = pd.read_csv(path, usecols=["name", "seeds"], dtype=str, keep_default_na=False)
        return dict(zip(table["name"].str.removeprefix("'"), map(int, table["seeds"]), strict=True))
    except ValueError:
        raise ValueError(
            f"{path} is no table of a comparison; move it away, or name another folder with -o"
        ) from None


def without_encoding(configs: Mapping[str, RunConfig]) -> dict[str, str]:
    """Return, of each configuration that has an encoding, the one that has none and is the same otherwise."""
    rest = {name: _but_for_the_encoding(config) for name, config in configs.items()}
    none = [name for name, (position, _) in rest.items() if position == "none"]
    return {
        name: baseline
        for name, (position, other) in rest.items()
        for baseline in none
        if position not in (None, "none") and rest[baseline][1] == other
    }


def _but_for_the_encoding(config: RunConfig) -> tuple[str | None, dict[str, Any]]:
    """Return the encoding's name, and all of a configuration but that, the seed and the folder."""
    plain = asdict(config)
    model = dict(plain["model"] or {})
    position = model.pop("position") if "position" in model else _at_first(config)
    name = position.get("name") if isinstance(position, Mapping) else position
    return name, {**plain, "model": model, "run": "", "seed": 0}


def _at_first(config: RunConfig) -> str | None:
    """Return the encoding of a run that names none: its start's, which may be gone once the run has saved."""
    if config.start is None:
        return "none"
    with suppress(FileNotFoundError):
        return read_card(folder_of(config.start))[0].position_name
    return None
