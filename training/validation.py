"""The loss on held-out pieces by position, inside the trained length and past it, and the curves of a run."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from musicgen.common.intervals import half_interval
from musicgen.performer import Performer
from tokenization.whole_file import beside
from training.config import RunConfig
from training.data.batches import IGNORED, Batches, next_token_loss
from training.devices import Sealed

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from matplotlib.axes import Axes


BINS = 12  # of positions, in the table


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The mean loss in nats a token, within the trained length and past it, and by stretches of positions."""

    inside: float
    beyond: float | None
    sequences: int
    rows: list[tuple[int, int, float, float, int]]  # from, to, mean over sequences, deviation, n


class Validation:
    """A fixed set of sequences, always the same, and the same draw of a stochastic encoding."""

    def __init__(self, config: RunConfig, batches: Batches, model: Performer) -> None:
        self.trained = config.data.trained_length
        self.length = config.validation.length or self.trained * 3 // 2
        limit = model.config.longest
        if limit is not None and config.validation.length is None:
            self.length = min(self.length, limit)
        model.position.check(max(self.length, self.trained))  # before a step is taken
        self.batch = config.validation.batch
        self.sequences = batches.validation(config.validation.sequences, self.length)

    def measure(self, fabric: Fabric, module: Any, code: Sealed) -> Measured:
        """Measure the loss of a model; the processes share the sequences."""
        losses = torch.zeros(
            len(self.sequences), self.length, dtype=torch.float32, device=fabric.device
        )
        counts = torch.zeros_like(losses)
        starts = range(0, len(self.sequences), self.batch)
        # Every process runs the model equally often, as the strategies want it: the last ones perhaps for nothing.
        for turn in range(-(-len(starts) // fabric.world_size)):
            number = turn * fabric.world_size + fabric.global_rank
            start = starts[number % len(starts)]
            rows = slice(start, start + self.batch)
            tokens = torch.from_numpy(self.sequences[rows]).to(fabric.device)
            logits = module(tokens[:, :-1].clamp(min=0), code)
            if number < len(starts):
                losses[rows] = next_token_loss(logits, tokens[:, 1:]).float()
                counts[rows] = (tokens[:, 1:] != IGNORED).float()
        both = fabric.all_reduce(torch.stack([losses, counts]), reduce_op="sum")
        assert isinstance(both, torch.Tensor), "a tensor is reduced to a tensor"
        return summary(*both.cpu().double().numpy(), trained=self.trained)


def summary(losses: np.ndarray, counts: np.ndarray, *, trained: int) -> Measured:
    """Sum up losses and counts of tokens, both (sequences, positions)."""
    edges = sorted({*np.linspace(0, losses.shape[1], BINS + 1, dtype=int).tolist(), trained})
    edges = [edge for edge in edges if edge <= losses.shape[1]]
    rows = []
    for start, stop in pairwise(edges):
        tokens = counts[:, start:stop].sum(1)
        means = losses[:, start:stop].sum(1)[tokens > 0] / tokens[tokens > 0]  # a piece each
        if len(means):
            deviation = float(means.std(ddof=1)) if len(means) > 1 else 0.0
            rows.append((start, stop, float(means.mean()), deviation, len(means)))
    inside, beyond = (slice(None, trained), slice(trained, None))
    past = counts[:, beyond].sum()
    return Measured(
        inside=float(losses[:, inside].sum() / max(1, counts[:, inside].sum())),
        beyond=float(losses[:, beyond].sum() / past) if past else None,
        sequences=len(losses),
        rows=rows,
    )


# The tables of a run as one picture: loss over steps, and loss by position with the trained length marked.

# Okabe and Ito's colours, which the colour-blind tell apart.
BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
SERIES = (BLUE, VERMILION, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":")

Table = dict[str, np.ndarray]


def write_curves(run: Path, trained_length: int) -> Path:
    """Draw curves.png in the folder of a run; raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    over_steps, by_position = figure.subplots(1, 2)
    draw_losses(over_steps, read_table(run / "train.csv"), read_table(run / "validation.csv"))
    draw_positions(by_position, read_table(run / "positions.csv"), trained_length)
    figure.suptitle(_plain(run.name))
    with beside(run / "curves.png") as part:
        figure.savefig(part, dpi=150, format="png")
    return run / "curves.png"


def read_table(path: Path) -> Table:
    """Return the columns of a table by name; an empty field is NaN."""
    with path.open(newline="") as file:
        header, *rows = list(csv.reader(file))
    values = np.array([[float(cell or "nan") for cell in row] for row in rows], dtype=np.float64)
    return dict(zip(header, values.reshape(-1, len(header)).T, strict=True))


def draw_losses(axes: Axes, train: Table, validation: Table) -> None:
    """Draw the losses over the steps, training's smoothed."""
    axes.plot(train["step"], train["loss"], color=BLUE, alpha=0.25, linewidth=0.8)
    axes.plot(train["step"], smoothed(train["loss"]), color=BLUE, label="training (smoothed)")
    kinds = (
        ("inside", VERMILION, "validation, trained length"),
        ("beyond", GREEN, "validation, past it"),
    )
    for name, color, label in kinds:
        if np.isfinite(validation[name]).any():
            axes.plot(
                validation["step"], validation[name], "o-", color=color, markersize=3, label=label
            )
    axes.set(xlabel="step", ylabel="loss (nats a token)")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")  # losses fall; to look for the best place takes long


def draw_by_time(axes: Axes, tables: Mapping[str, Sequence[Table]]) -> None:
    """Draw the mean training loss of each name's runs, smoothed, over the processor time that a run has taken."""
    for (name, runs), (color, dash) in zip(tables.items(), _looks(), strict=False):
        rows = min(len(table["loss"]) for table in runs)
        if not rows:
            continue
        losses = [smoothed(table["loss"][:rows], 0.05) for table in runs]
        took = np.mean([table["processor_seconds"][:rows] for table in runs], axis=0)
        _mean_curve(axes, took.cumsum() / 60, losses, dash, color=color, label=_plain(name))
    axes.set(xlabel="processor minutes", ylabel="training loss (nats a token)")
    axes.grid(alpha=0.3)


def draw_positions(axes: Axes, positions: Table, trained_length: int) -> None:
    """Draw the loss by position at the last validation, with one deviation over the sequences to both sides."""
    middle, loss, deviation = _last(positions)
    axes.plot(middle, loss, "o-", color=VERMILION, markersize=3, label="mean over sequences")
    axes.fill_between(
        middle,
        loss - deviation,
        loss + deviation,
        color=VERMILION,
        alpha=0.15,
        linewidth=0,
        label="± one deviation",
    )
    _with_positions(axes, trained_length)


def draw_position_means(
    axes: Axes, tables: Mapping[str, Sequence[Table]], trained_length: int
) -> None:
    """Draw the mean loss by position of each name's runs, of one budget, at their last validation."""
    for (name, runs), (color, dash) in zip(tables.items(), _looks(), strict=False):
        middle = _last(runs[0])[0]
        losses = [_last(table)[1] for table in runs]
        look = {"marker": "o", "markersize": 3, "color": color, "label": _plain(name)}
        _mean_curve(axes, middle, losses, dash, **look)
    _with_positions(axes, trained_length)


def _mean_curve(
    axes: Axes, x: np.ndarray, curves: Sequence[np.ndarray], dash: str, **look: Any
) -> None:
    """Draw the mean of curves, and its 95 % interval where there are several."""
    means = np.mean(curves, axis=0)
    axes.plot(x, means, dash, **look)
    if (half := half_interval(1.0, len(curves)) if len(curves) > 1 else None) is not None:
        halves = half * np.std(curves, axis=0, ddof=1)
        axes.fill_between(x, means - halves, means + halves, color=look["color"], alpha=0.15, lw=0)


def _looks() -> Iterator[tuple[str, str]]:
    return cycle([(color, dash) for dash in DASHES for color in SERIES])


def _plain(name: str) -> str:
    """Return a name for a figure: two $ would make mathematics of it, and a warning repeat what is no print."""
    return "".join(c if c.isprintable() else "?" for c in name).replace("$", r"\$")


def _last(positions: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return middle of the stretch, loss and deviation at the last validation."""
    last = positions["step"] == positions["step"].max(initial=-np.inf)
    middle = (positions["from"][last] + positions["to"][last]) / 2
    return middle, positions["loss"][last], positions["deviation"][last]


def _with_positions(axes: Axes, trained_length: int) -> None:
    axes.axvline(trained_length, color=GREY, linestyle="--", label="trained length")
    axes.set(xlabel="position (tokens)", ylabel="loss (nats a token)")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")  # losses fall; to look for the best place takes long


def smoothed(values: np.ndarray, share: float = 0.02) -> np.ndarray:
    """Return a centred mean over a share of the values, narrower at the ends: (N,)."""
    reach = int(len(values) * share / 2)
    total = np.append(0.0, np.cumsum(values))
    index = np.arange(len(values))
    reaches = np.minimum(np.minimum(index, index[::-1]), reach)
    return (total[index + reaches + 1] - total[index - reaches]) / (2 * reaches + 1)
