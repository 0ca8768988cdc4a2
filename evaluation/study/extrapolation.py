"""Extrapolation: the loss by position, within the trained length and past it (the SPE paper's figure 3 and table 6).

Each piece counts once, by its mean loss over a range of positions. The drift of a range is its loss minus that within
the trained length, paired by piece. The `nearby` losses are those with a context truncated to the trained length.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from evaluation.metrics.estimates import estimate
from evaluation.study.experiments import Experiment, job_of, model_fields
from evaluation.study.piece_jobs import Choice, held_out, model_of
from musicgen.common.learning import generator_from
from musicgen.performer import Performer
from musicgen.playable import Playable
from tokenization.prepared import Prepared

WINDOW = 1024  # tokens read at once: bounds the memory that any piece takes
STEPS = 16  # stretches of the curve within the trained length
NEAR = 1.5  # end of the first part past the trained length, in trained lengths
PARTS = ("trained", "near", "far")
Loss = dict[
    str, Any
]  # of one piece by stretch: {"sums": […], "tokens": […]}, optionally "nearby": […]


@torch.inference_mode()
def position_losses(model: Performer, ids: np.ndarray, seed: int) -> np.ndarray:
    """Return −log p of each token given all tokens before it, in nats: (T + 1,) ids → (T,) float64.

    The noise of a stochastic encoding is drawn once for the piece, from the seed.
    """
    device = model.embedding.weight.device
    tokens = torch.from_numpy(ids.astype(np.int64)).to(device)[None]
    state = model.start(generator_from(seed))
    losses = []
    for start in range(0, len(ids) - 1, WINDOW):
        inputs = tokens[:, start : start + WINDOW]
        targets = tokens[0, start + 1 : start + 1 + WINDOW]
        logits, state = model.extend(inputs[:, : len(targets)], state)
        losses.append(F.cross_entropy(logits[0].float(), targets, reduction="none").cpu())
    return torch.cat(losses).double().numpy()


def edges_of(trained_length: int, length: int) -> list[int]:
    """Return the edges of the stretches of a curve, 0 … length, which include the borders of the parts."""
    step = max(1, (trained_length or length // 4) // STEPS)
    borders = {border for part in parts_of(trained_length, length).values() for border in part}
    return sorted({*range(0, length, step), *borders, length})


def parts_of(trained_length: int, length: int) -> dict[str, tuple[int, int]]:
    """Return start and stop of each part up to `length`; an untrained model has only the part `far`."""
    near = int(trained_length * NEAR)
    borders = [0, min(trained_length, length), min(near, length), length]
    found = dict(zip(PARTS, pairwise(borders), strict=True))
    return {part: (start, stop) for part, (start, stop) in found.items() if stop > start}


def piece_loss(
    model: Performer, ids: np.ndarray, edges: Sequence[int], seed: int, window: int | None = None
) -> Loss:
    """Return the summed loss of one piece and its number of tokens by stretch of positions.

    Stretches after the end of the piece, or past the model's maximum length, have no tokens. With a window, each token
    past it is also predicted from a context of at most `window` tokens.
    """
    limit = model.config.longest or edges[-1]
    ids = ids[: min(limit, edges[-1]) + 1]
    losses = position_losses(model, ids, seed)

    def sums(values: np.ndarray) -> list[float]:
        return [float(values[start:stop].sum()) for start, stop in pairwise(edges)]

    tokens = [len(losses[start:stop]) for start, stop in pairwise(edges)]
    found: Loss = {"sums": sums(losses), "tokens": tokens}
    if window:
        found["nearby"] = sums(_nearby_losses(model, ids, losses, seed, window))
    return found


def _nearby_losses(
    model: Performer, ids: np.ndarray, losses: np.ndarray, seed: int, window: int
) -> np.ndarray:
    """Return the losses; past the first window, given a context of half a window to a window: (T + 1,) → (T,)."""
    half, found = max(window // 2, 1), [losses[:window]]
    for start in range(window, len(losses), half):
        part = ids[start - half : start + half + 1]
        found.append(position_losses(model, part, seed)[half:])
    return np.concatenate(found)


def context_difference(
    pieces: Sequence[Loss], edges: Sequence[int], trained_length: int
) -> dict[str, Any] | None:
    """Return the loss past the trained length minus that with a truncated context, paired by piece."""
    past = pieces, edges, trained_length, edges[-1]
    return _spread(_means(*past) - _means(*past, "nearby"))


def summary(pieces: Sequence[Loss], edges: Sequence[int], trained_length: int) -> dict[str, Any]:
    """Return the curve, the loss in each part, and the drift of the parts past the trained length."""
    borders = parts_of(trained_length, edges[-1])
    means = {part: _means(pieces, edges, *border) for part, border in borders.items()}
    parts = {part: _row(means[part], *border) for part, border in borders.items()}
    read = max(sum(piece["tokens"]) for piece in pieces)  # the model or all pieces may end early
    for part, row in parts.items():
        if row and part != "trained":
            row["stop"] = min(row["stop"], read)
    curve = [_row(_means(pieces, edges, *part), *part) for part in pairwise(edges)]
    return {
        "trained_length": trained_length,
        "length": edges[-1],
        "tokens": sum(sum(piece["tokens"]) for piece in pieces),
        "positions": [row for row in curve if row],  # the stretches in which some piece has tokens
        "parts": parts,
        "drift": {
            part: _spread(means[part] - means["trained"])
            for part in ("near", "far")
            if part in borders and "trained" in borders
        },
    }


def _means(
    pieces: Sequence[Loss], edges: Sequence[int], start: int, stop: int, key: str = "sums"
) -> np.ndarray:
    """Return the mean loss of each piece between two edges, (pieces,); NaN if it has no tokens there."""
    part = slice([*edges].index(start), [*edges].index(stop))
    sums, count = (np.array([sum(piece[k][part]) for piece in pieces]) for k in (key, "tokens"))
    return sums / np.where(count, count, np.nan)


def _row(means: np.ndarray, start: int, stop: int) -> dict[str, Any] | None:
    found = _spread(means)
    return found and {"start": start, "stop": stop, **found}


def _spread(values: np.ndarray) -> dict[str, Any] | None:
    """Return mean, standard deviation and interval over the pieces that have a value; None if there are none."""
    found = estimate(None if np.isnan(value) else value for value in values)
    kept = {key: found[key] for key in ("mean", "deviation", "low", "high")}
    return {**kept, "pieces": found["n"]} if found["n"] else None


# The experiment; each job reads a piece.


def extrapolation(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    length: int | None = None,
    control: bool = False,
) -> Experiment:
    """Measure the loss by position up to `length`, by default 4 times the longest trained length.

    With `control`, tokens past the trained length are also predicted from a context no longer than it.
    """
    able, rows, facts = held_out(playables, choice, length)
    read_to: int = facts["length"]
    edges = {model.name: edges_of(model.trained_length, read_to) for model in able}
    jobs = [
        job_of(
            model, losses, choice.device, choice.prepared, row=row, edges=edges[model.name], seed=choice.seed,
            window=model.trained_length if control and model.trained_length < read_to else None,
        )
        for model in able
        for row in rows
    ]  # fmt: skip

    def compose(playable: Playable, pieces: list[Loss]) -> list[dict[str, Any]]:
        measured = pieces, edges[playable.name], playable.trained_length
        model = {**model_fields(playable), **summary(*measured)}
        if all("nearby" in loss for loss in pieces):
            model["control"] = context_difference(*measured)
        return [model]

    return Experiment(jobs=jobs, compose=compose, prepared=choice.prepared, facts=facts)


def losses(
    *,
    model: str,
    data: str,
    row: int,
    edges: Sequence[int],
    seed: int,
    device: str,
    window: int | None,
) -> Loss:
    """Return the losses of a piece of a data set, with its own noise for stochastic encodings."""
    ids = np.asarray(Prepared.open(data).ids(row))
    return piece_loss(model_of(model, device).performer, ids, edges, seed + row, window)
