"""Two properties of an encoding of position, seen from outside: the SPE paper's table 7 and figure 4.

After Wang et al. (2021), a model reads one token over and over, so that only position tells its copies apart. Of the
unnormalised attention of the first layer, averaged over all tokens of the vocabulary, two shares are measured by head,
for some queries and the keys up to an offset before them. Lower is better in both:

    translation invariance  the share of the weights' variance that lies between weights of equal offset
    monotonicity            the share of pairs of keys of one query of which the farther one weighs more

Where at most one weight in a hundred differs from the rest, there is no position in them: None. The decay of heads
(horizons) is switched off, since it alone makes any map invariant and falling; PermuteFormer's own decay stays. In
musical time each token takes a sixteenth, and offsets are in sixteenths.

A band holds the weights by query and offset, band[m, o] = weight of query m for key m − o, (queries, offsets), NaN
where there is no such key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from evaluation.attention import Sides, sides_of
from musicgen.performer import Performer

BLOCK = 128  # queries at once
GROUPS = 4  # of tokens: what the numbers would be without one of them tells how sure they are
ROUNDING = 1e-5  # relative, by which equal weights may differ
FEW = 0.01  # of all weights: when no more differ from the rest
SIXTEENTHS = 16  # a bar


@dataclass(frozen=True, kw_only=True)
class Range:
    """Queries start … stop − 1, and keys up to `offset` before them."""

    start: int
    stop: int
    offset: int


def paper_ranges(trained_length: int) -> list[Range]:
    """Return table 7's nine ranges: those of the paper for 2048, in proportion for other lengths."""
    half = trained_length // 2
    stops = [(0, half), (half, trained_length), (trained_length, trained_length + half // 2)]
    offsets = [trained_length // 16, trained_length // 4, half]
    return [Range(start=a, stop=b, offset=offset) for a, b in stops for offset in offsets]


def local_ranges(trained_length: int) -> list[Range]:
    """Return figure 4's: the nearest offsets alone, for queries further and further on."""
    step = max(1, trained_length // 8)
    offset = trained_length // 16
    stops = range(0, trained_length + trained_length // 4, step)
    return [Range(start=start, stop=start + step, offset=offset) for start in stops]


def translation_invariance(band: np.ndarray, where: Range) -> float | None:
    """Return the mean variance within offsets over the variance of all weights in the range."""
    rows = band[where.start : where.stop, : where.offset + 1].astype(np.float64)
    count = np.count_nonzero(~np.isnan(rows), axis=0)
    rows, count = rows[:, count > 0], count[count > 0]
    middle = np.nanmedian(rows)
    apart, larger = np.abs(rows - middle), np.maximum(np.abs(rows), abs(middle))
    varying = np.count_nonzero(apart > ROUNDING * larger)
    if varying <= FEW * count.sum():
        return None
    variance = np.nanvar(rows)
    return float((np.nanvar(rows, axis=0) @ count) / count.sum() / variance)


def farther_above_nearer(band: np.ndarray) -> np.ndarray:
    """Return, for each weight, how many nearer keys of its query weigh less: the shape of the band."""
    by_offset = np.ascontiguousarray(band.T)
    found = np.zeros(by_offset.shape, dtype=np.uint16)
    for distance in range(1, len(by_offset)):
        found[distance:] += by_offset[distance:] > by_offset[:-distance]
    return found.T


def monotonicity(violations: np.ndarray, where: Range) -> float | None:
    """Return the share of violating pairs in the range; `violations` as `farther_above_nearer` counts them."""
    found = violations[where.start : where.stop, : where.offset + 1]
    keys = np.minimum(np.arange(where.start, where.start + len(found)), where.offset) + 1
    pairs = (keys * (keys - 1) // 2).sum()
    return float(found.sum() / pairs) if pairs else None


def probe(
    model: Performer, ranges: Sequence[Range], tokens: Sequence[int], seed: int = 0
) -> list[dict[str, float | int | None]]:
    """Return both metrics by head and range, each with its standard error (jackknife over groups of tokens)."""
    length = max(where.stop for where in ranges)
    offset = max(where.offset for where in ranges)
    bands = _bands(model, tokens, length, offset, seed)  # (G, H, length, offset + 1)
    rows: list[dict[str, float | int | None]] = []
    for head in range(bands.shape[1]):
        total = bands[:, head].sum(0)
        whole = _measured(total, ranges)
        without = [_measured(total - group, ranges) for group in bands[:, head]]
        for i, where in enumerate(ranges):
            row: dict[str, float | int | None] = {
                "head": head,
                **vars(where),
                "tokens": len(tokens),
            }
            for metric, value in whole[i].items():
                row[metric] = value
                row[f"{metric}_error"] = _jackknife([other[i][metric] for other in without])
            rows.append(row)
    return rows


def best_heads(rows: Sequence[dict]) -> list[dict]:
    """Return, a range, the lowest value of each metric over the heads, with its head and error."""
    found: dict[tuple, dict] = {}
    for row in rows:
        key = row["start"], row["stop"], row["offset"]
        best = found.setdefault(
            key, {"start": key[0], "stop": key[1], "offset": key[2], "tokens": row["tokens"]}
        )
        for metric in ("translation", "monotonicity"):
            value = row[metric]
            if value is not None and (best.get(metric) is None or value < best[metric]):
                best[metric] = value
                best[f"{metric}_error"] = row[f"{metric}_error"]
                best[f"{metric}_head"] = row["head"]
            best.setdefault(metric, None)
    return list(found.values())


def _measured(band: np.ndarray, ranges: Sequence[Range]) -> list[dict[str, float | None]]:
    violations = farther_above_nearer(band)
    results: list[dict[str, float | None]] = []
    for where in ranges:
        invariance = translation_invariance(band, where)
        falls = None if invariance is None else monotonicity(violations, where)
        results.append({"translation": invariance, "monotonicity": falls})
    return results


def _jackknife(values: Sequence[float | None]) -> float | None:
    """Return the standard error of a number from what it is without each group."""
    if any(value is None for value in values):
        return None
    numbers = np.array(values, dtype=np.float64)
    return float(numbers.std() * np.sqrt(len(numbers) - 1))


def _bands(
    model: Performer, tokens: Sequence[int], length: int, offset: int, seed: int
) -> np.ndarray:
    """Return the sums of the tokens' maps by group, on one scale a head: (G, H, length, offset + 1)."""
    heads = model.config.heads
    sums = torch.zeros(min(GROUPS, len(tokens)), heads, length, BLOCK + offset)
    scale = torch.full((heads, 1, 1), -torch.inf)  # logarithm of what the maps are divided by
    for number, token in enumerate(tokens):
        sequence = torch.full((length,), token, device=model.embedding.weight.device)
        sides = encoding_alone(model, sequence, seed + number)
        rows = _rows(sides, length, offset)
        if sides.exponential:
            larger = torch.maximum(scale, rows.amax((1, 2), keepdim=True))
            sums *= torch.exp(scale - larger)
            rows, scale = torch.exp(rows - larger), larger
        sums[number % len(sums)] += rows
    query = np.arange(length)[:, None]
    lag = np.arange(offset + 1)
    columns = np.broadcast_to(query % BLOCK + offset - lag, (length, offset + 1))
    bands = np.take_along_axis(sums.numpy(), columns[None, None], axis=3)
    return np.where(lag <= query, bands, np.nan)


def encoding_alone(model: Performer, tokens: Tensor, seed: int = 0) -> Sides:
    """Return queries and keys of the first layer without the model's horizons, and with a musical time that goes on."""
    clock = model.config.clock
    pace = None if clock is None else max(1, clock.bar_ticks // SIXTEENTHS)
    sides = sides_of(model, tokens, [0], seed, pace)[0]
    return sides if model.position.forgetting is None else replace(sides, decay=None)


def _rows(sides: Sides, length: int, offset: int) -> Tensor:
    """Return each block of queries times the keys from `offset` before it on: (H, length, BLOCK + offset)."""
    rows = torch.zeros(len(sides.q), length, BLOCK + offset)
    for start in range(0, length, BLOCK):
        queries = slice(start, min(start + BLOCK, length))
        keys = slice(max(0, start - offset), queries.stop)
        first = keys.start - (start - offset)
        products = sides.products(queries, keys).cpu()
        rows[:, queries, first : first + products.shape[2]] = products
    return rows
