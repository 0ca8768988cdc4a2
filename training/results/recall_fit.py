"""How far a model is to trust what it recalls (musicgen/generation/recall): fitted on pieces that are held out.

python -m training.results.recall_fit pop-piano --data data/pop909-remi

prints what that is worth; with --write it goes into the model's config.json, as it does when a run is published.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from musicgen.common.intervals import mean_interval
from musicgen.generation.likelihood import position_losses
from musicgen.generation.recall.circling import limits_of
from musicgen.generation.recall.memory import LONGEST, guesses, with_recall
from musicgen.generation.recall.recalling import Habits
from musicgen.loading import find
from musicgen.model.performer import Performer
from musicgen.storage.checkpoint import CONFIG
from musicgen.storage.library import folder_of
from tokenization.language import language_from_spec
from tokenization.records import json_of
from tokenization.whole_file import write_text
from tokenization.wording import markdown
from training.config import DataConfig
from training.data.batches import IGNORED, Batches

# The weights at which a smooth loss is least.


def minimised(loss: Callable[[Tensor], Tensor], weights: Tensor) -> Tensor:
    """Return the weights at which a loss is least, by L-BFGS from these on."""
    weights = weights.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(weights)
        value.backward()
        return value

    optimiser.step(closure)  # type: ignore[arg-type]
    return weights.detach()


PIECES, TOKENS = 24, 4096  # of each, at most


class HeldOut(NamedTuple):
    """A held-out piece, and how well the model predicts it."""

    ids: np.ndarray  # (T + 1,)
    bars: list[int]  # the places where they begin
    losses: np.ndarray  # nats a token: (T,)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """How pieces return, of all of them, and what recalling is worth: fitted on one half, measured on the other."""

    habits: Habits
    alone: float  # nats a token, the mean over pieces
    change: float  # by what is recalled
    interval: float | None  # to either side of the change, 95 %
    pieces: int


def fitted(held_out: Sequence[HeldOut]) -> Fitted:
    """Return what to trust, and what it is worth."""
    even, odd = held_out[::2], held_out[1::2]
    changes = []
    for learned, measured in ((even, odd), (odd, even)):
        weights = fit(learned or measured)
        changes += [
            float((with_recall(piece.losses, piece.ids, weights) - piece.losses).mean())
            for piece in measured
        ]
    change, interval = mean_interval(changes)
    bars = [(piece.ids, piece.bars) for piece in held_out]
    return Fitted(
        habits=Habits(weights=fit(held_out), limits=limits_of(bars)),
        alone=float(np.mean([piece.losses.mean() for piece in held_out])),
        change=change,
        interval=interval,
        pieces=len(held_out),
    )


def fit(held_out: Sequence[HeldOut]) -> tuple[float, ...]:
    """Return the weights under which the pieces are likeliest."""
    columns = [(piece.losses, *guesses(piece.ids)) for piece in held_out]
    losses, guessed, lengths, agreements = (np.concatenate(c) for c in zip(*columns, strict=True))
    on = lengths > 0
    if not on.any():  # nothing comes twice in them
        return (-30.0, 0.0, 0.0, 0.0)
    logs = np.log2(np.minimum(lengths[on], LONGEST))
    known = torch.from_numpy(
        np.stack([np.ones_like(logs), logs, agreements[on], agreements[on] * logs], 1)
    )
    alone, recalled = torch.from_numpy(np.exp(-losses[on])), torch.from_numpy(guessed[on])

    def loss(weights: torch.Tensor) -> torch.Tensor:
        trusted = torch.sigmoid(known @ weights)
        nats = -((1 - trusted) * alone + trusted * recalled).clamp(min=1e-30).log().mean()
        # Where one outcome is certain, no weight is the best.
        return nats + 1e-6 * weights.square().sum()

    weights = minimised(loss, torch.zeros(4, dtype=torch.float64))
    return tuple(round(weight, 4) for weight in weights.tolist())


def held_out_of(model: Performer, batches: Batches, pieces: int = PIECES) -> list[HeldOut]:
    """Return held-out pieces of a run's data, as the model predicts them, no further than it reads."""
    length = min(TOKENS, model.config.longest or TOKENS)
    rows = (row[row != IGNORED] for row in batches.validation(pieces, length))
    bars = language_from_spec(batches.language).bars
    return [
        HeldOut(ids, bars(ids).tolist(), position_losses(model, ids, number))
        for number, ids in enumerate(rows)
    ]


def table(found: Fitted) -> str:
    """Return what recalling is worth, and by which weights."""
    change = f"{found.change:+.3f}"
    if found.interval is not None:
        change += f" ± {found.interval:.3f}"
    habits = found.habits
    limits = ", ".join("–" if limit is None else str(limit) for limit in habits.limits)
    return markdown([
        ["pieces", "nats a token", "with what is recalled", "weights", "circling"],
        [
            str(found.pieces), f"{found.alone:.3f}", change, ", ".join(map(str, habits.weights)), limits,
        ],
    ])  # fmt: skip


def main() -> int:
    """Fit, print, and write where that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", help="a model by name or folder")
    parser.add_argument("--data", required=True, nargs="+", help="prepared sets of its language")
    parser.add_argument("--write", action="store_true", help="into the model's config.json")
    given = parser.parse_args()
    try:
        model, folder = find(given.model), folder_of(given.model)
        batches = Batches(DataConfig(folder=tuple(given.data)), 0)
        if batches.language != model.language.spec():
            raise ValueError(f"{given.model} speaks {model.language.name}, which the data do not")
        found = fitted(held_out_of(model.performer, batches))
    except (ValueError, OSError) as error:
        print(f"recall_fit: {error}", file=sys.stderr)
        return 2
    print(table(found))
    if given.write:
        content = json_of(folder / CONFIG)
        content["card"]["training"] |= found.habits.facts()
        write_text(folder / CONFIG, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
