"""Runs of one budget side by side: the loss within the trained length and past it, speed and size."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.checkpoint import read_card
from musicgen.common.intervals import mean_interval
from musicgen.playable import folder_of
from tokenization.whole_file import beside, write_csv, write_text
from tokenization.wording import markdown
from training import run_folder
from training.config import RunConfig
from training.loop import MODEL
from training.validation import read_table


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


INTERVAL = "_interval"  # at the end of the name of half an interval
HEADINGS = {  # of columns that are not called as their fields
    "name": "run",
    "inside": "loss, trained length",
    "beyond": "loss, past it",
    "change_beyond": "change, past it",
    "tokens_per_second": "tokens/s",
}


def compared(run: Path) -> Compared:
    """Return what a finished run came to."""
    found = run_folder.newest(run)
    if found is None:
        raise ValueError(f"{run} holds no checkpoint to compare")
    state = run_folder.read_state(found)
    speeds = read_table(run / "train.csv")["tokens_per_second"]
    return Compared(
        name=run.name,
        parameters=read_card(run / MODEL)[1].parameters,
        steps=state.step,
        inside=state.validation_loss,
        beyond=state.validation_beyond,
        tokens_per_second=round(float(np.median(speeds)), 1) if len(speeds) else None,
    )


def ranked(rows: Sequence[Repeated]) -> list[Repeated]:
    """Return the best within the trained length first, what failed last."""
    return sorted(rows, key=lambda row: np.inf if row.inside is None else row.inside)


def write_comparison(rows: Sequence[Repeated], folder: Path) -> None:
    """Write comparison.csv and comparison.md, ranked."""
    write_csv(folder / "comparison.csv", [asdict(row) for row in ranked(rows)])
    write_text(folder / "comparison.md", f"{markdown(comparison_table(rows))}\n")


def comparison_table(rows: Sequence[Repeated]) -> list[list[str]]:
    """Return titles and a row for each of the rows, ranked; an interval stands behind its mean."""
    plain = [asdict(row) for row in ranked(rows)]
    names = [
        name
        for name in plain[0]
        if not name.endswith(INTERVAL) and any(row[name] not in (None, "") for row in plain)
    ]
    head = [HEADINGS.get(name, name) for name in names]
    return [
        head,
        *([_cell(row[name], row.get(name + INTERVAL)) for name in names] for row in plain),
    ]


def tabulated(folder: Path) -> dict[str, int]:
    """Return the seeds of each row of the comparison.csv in a folder, by name."""
    path = folder / "comparison.csv"
    if not path.exists():
        return {}
    try:
        rows = [*csv.DictReader(path.read_text(encoding="utf-8").splitlines())]
        return {row["name"].removeprefix("'"): int(row["seeds"]) for row in rows}
    except (LookupError, ValueError, TypeError, AttributeError, csv.Error):
        raise ValueError(
            f"{path} is no table of a comparison; move it away, or name another folder with -o"
        ) from None


def draw_comparison(runs: Mapping[str, Sequence[Path]], folder: Path, trained_length: int) -> Path:
    """Draw comparison.png, the mean losses of each name's runs by processor time and by position, with 95 % intervals.

    Raises ImportError without matplotlib.
    """
    from matplotlib.figure import Figure

    from training.validation import draw_by_time, draw_position_means

    figure = Figure(figsize=(12, 5), layout="constrained")
    by_time, by_position = figure.subplots(1, 2)
    trained, positions = (
        {name: [read_table(run / file) for run in of_name] for name, of_name in runs.items()}
        for file in ("train.csv", "positions.csv")
    )
    draw_by_time(by_time, trained)
    draw_position_means(by_position, positions, trained_length)
    with beside(folder / "comparison.png") as part:
        figure.savefig(part, dpi=150, format="png")
    return folder / "comparison.png"


def _cell(value: object, interval: float | None = None) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        between = "" if interval is None else f" ± {interval:.4f}"
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4f}{between}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# One run of each configuration or several, from other seeds: their means, and their change against no encoding.
#
# A seed decides the first weights, the batches and all that is drawn, so runs of one seed see the same music in the
# same order. Differences are taken seed by seed, and given with Student's interval of their mean.


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """What the runs of a configuration came to, those that did not fail; None is what they do not tell."""

    name: str
    seeds: int
    parameters: int | None = None
    steps: int | None = None
    inside: float | None = None  # validation loss in nats a token, within the trained length
    inside_interval: float | None = None  # to either side of the mean
    beyond: float | None = None  # past it
    beyond_interval: float | None = None
    against: str = ""  # the configuration without an encoding, and the same otherwise
    change: float | None = None  # by how much `inside` differs from that one's
    change_interval: float | None = None
    change_beyond: float | None = None
    change_beyond_interval: float | None = None
    tokens_per_second: float | None = None
    failed: str = ""


def repeated(found: Mapping[str, Sequence[Compared]], against: Mapping[str, str]) -> list[Repeated]:
    """Sum up the runs of each configuration, seed by seed in the same order."""
    return [_summed_up(name, runs, found, against.get(name, "")) for name, runs in found.items()]


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


def _summed_up(
    name: str, runs: Sequence[Compared], found: Mapping[str, Sequence[Compared]], against: str
) -> Repeated:
    whole = [run for run in runs if not run.failed]
    failed = "; ".join(dict.fromkeys(run.failed for run in runs if run.failed))
    if not whole:
        return Repeated(name=name, seeds=0, failed=failed)
    pairs = [
        (run, other)
        for run, other in zip(runs, found.get(against, ()), strict=False)
        if not run.failed and not other.failed
    ]
    speeds = [run.tokens_per_second for run in whole]
    return Repeated(
        name=name,
        seeds=len(whole),
        parameters=whole[0].parameters,
        steps=whole[0].steps,
        against=against if pairs else "",
        tokens_per_second=_mean("speed", speeds)["speed"],
        failed=failed,
        **_mean("inside", [run.inside for run in whole]),
        **_mean("beyond", [run.beyond for run in whole]),
        **_mean("change", [_less(run.inside, other.inside) for run, other in pairs]),
        **_mean("change_beyond", [_less(run.beyond, other.beyond) for run, other in pairs]),
    )


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _mean(name: str, given: Sequence[float | None]) -> dict[str, Any]:
    """Return the mean of the values that there are under a name, and half the width of its interval."""
    values = [value for value in given if value is not None]
    mean, interval = mean_interval(values) if values else (None, None)
    return {name: mean, f"{name}_interval": interval}


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
