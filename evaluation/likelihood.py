"""Extrapolation: the loss by position, within the trained length and past it (the SPE paper's figure 3 and table 6).

A model reads real pieces and predicts each next token (teacher forcing). Each piece counts once, by the mean over its
tokens in a stretch of positions; the drift is how much more a stretch costs than the trained one, paired by piece.
Since later parts of pieces may be harder for any reader, the tokens past the trained length can be predicted a second
time, each from no more of the last tokens than the model was trained with: `nearby`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from evaluation.metrics.estimates import estimate
from musicgen.generation.likelihood import position_losses
from musicgen.performer import Performer

STEPS = 16  # stretches of the curve within the trained length
NEAR, FAR = 1.5, 4.0  # how far past the trained length is looked, in trained lengths
PARTS = ("trained", "near", "far")
Loss = dict[str, Any]  # of one piece by stretch: {"sums": […], "tokens": […]}, perhaps "nearby"


def edges_of(trained_length: int, length: int) -> list[int]:
    """Return where the stretches of a curve begin and end: 0, …, length, the borders of the parts among them."""
    step = max(1, (trained_length or length // 4) // STEPS)
    borders = {border for part in parts_of(trained_length, length).values() for border in part}
    return sorted({*range(0, length, step), *borders, length})


def parts_of(trained_length: int, length: int) -> dict[str, tuple[int, int]]:
    """Return from where to where each part goes, as far as the length has it; an untrained model has one only."""
    near = int(trained_length * NEAR)
    borders = [0, min(trained_length, length), min(near, length), length]
    found = dict(zip(PARTS, pairwise(borders), strict=True))
    return {part: (start, stop) for part, (start, stop) in found.items() if stop > start}


def piece_loss(
    model: Performer, ids: np.ndarray, edges: Sequence[int], seed: int, window: int | None = None
) -> Loss:
    """Return the loss of one piece, as sums over stretches of positions, and how many tokens are in each.

    A piece that ends early has none after its end, and a model with a longest sequence none past that. With a window,
    each token past it is also predicted from no more than so many before it.
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
    """Return the losses, those past a window of tokens given from half of it to all of it: (T + 1,) ids → (T,)."""
    half, found = max(window // 2, 1), [losses[:window]]
    for start in range(window, len(losses), half):
        part = ids[start - half : start + half + 1]
        found.append(position_losses(model, part, seed)[half:])
    return np.concatenate(found)


def against_nearby(
    pieces: Sequence[Loss], edges: Sequence[int], trained_length: int
) -> dict[str, Any] | None:
    """Return by how much the loss past the trained length differs from that given nearby tokens, paired by piece."""
    past = trained_length, edges[-1]
    whole, nearby = (_means(*_columns(pieces, key), edges, *past) for key in ("sums", "nearby"))
    return _spread(whole - nearby)


def summary(pieces: Sequence[Loss], edges: Sequence[int], trained_length: int) -> dict[str, Any]:
    """Return the curve, the parts, and the drift of each part from the trained one."""
    sums, tokens = _columns(pieces)
    borders = parts_of(trained_length, edges[-1])
    means = {part: _means(sums, tokens, edges, *border) for part, border in borders.items()}
    parts = {part: _row(means[part], *border) for part, border in borders.items()}
    read = int(tokens.sum(1).max())  # positions: a model or all pieces may end early
    for part, row in parts.items():
        if row and part != "trained":
            row["stop"] = min(row["stop"], read)
    return {
        "trained_length": trained_length,
        "length": edges[-1],
        "tokens": int(tokens.sum()),
        "positions": _curve(sums, tokens, edges),
        "parts": parts,
        "drift": {
            part: _spread(means[part] - means["trained"])
            for part in ("near", "far")
            if part in borders and "trained" in borders
        },
    }


def apart(models: Sequence[Sequence[Loss]], edges: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Return by how much each model's loss differs from the mean of all, along the positions, paired by piece.

    What makes a passage hard for every model cancels, so that small differences show.
    """
    sums, tokens = _shared(models)
    return [_curve(one, tokens, edges) for one in sums - sums.mean(0)]


def growth(
    models: Sequence[Sequence[Loss]], edges: Sequence[int], trained_length: int
) -> list[dict[str, Any]] | None:
    """Return by how much more each model's loss grows after its trained length than that of all, paired by piece.

    Pieces that end within the trained length say nothing of it; None if all do.
    """
    if trained_length not in edges[1:-1]:
        return None
    sums, tokens = _shared(models)
    inside, outside = (
        _means(sums, tokens, edges, *part)
        for part in ((0, trained_length), (trained_length, edges[-1]))
    )
    grows = outside - inside  # (models, pieces)
    found = [_spread(one) for one in grows - grows.mean(0)]
    return [one for one in found if one] or None


def _columns(pieces: Sequence[Loss], key: str = "sums") -> tuple[np.ndarray, np.ndarray]:
    """Return the sums and the numbers of tokens of pieces by stretch, (pieces, stretches) both."""
    sums = np.array([piece[key] for piece in pieces], dtype=np.float64)
    return sums, np.array([piece["tokens"] for piece in pieces])


def _shared(models: Sequence[Sequence[Loss]]) -> tuple[np.ndarray, np.ndarray]:
    """Return sums (models, pieces, stretches) and tokens (pieces, stretches); none where not all read as many."""
    sums, tokens = map(np.stack, zip(*map(_columns, models), strict=True))
    shared = (tokens == tokens[0]).all(0)
    return sums * shared, tokens[0] * shared


def _means(
    sums: np.ndarray, tokens: np.ndarray, edges: Sequence[int], start: int, stop: int
) -> np.ndarray:
    """Return the mean loss of each piece between two positions, (…, pieces); NaN where it has no token there."""
    part = slice([*edges].index(start), [*edges].index(stop))
    count = tokens[:, part].sum(1)
    return sums[..., part].sum(-1) / np.where(count, count, np.nan)


def _curve(sums: np.ndarray, tokens: np.ndarray, edges: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row each stretch of positions in which some piece has tokens."""
    rows = (_row(_means(sums, tokens, edges, *part), *part) for part in pairwise(edges))
    return [row for row in rows if row]


def _row(means: np.ndarray, start: int, stop: int) -> dict[str, Any] | None:
    found = _spread(means)
    return found and {"start": start, "stop": stop, **found}


def _spread(values: np.ndarray) -> dict[str, Any] | None:
    """Return the mean over the pieces that have a value, their deviation and its interval; None where none has one."""
    found = vars(estimate(None if np.isnan(value) else value for value in values))
    if not found["n"]:
        return None
    return {key: found[key] for key in ("mean", "deviation", "low", "high")} | {
        "pieces": found["n"]
    }
