"""Probes of position encodings: translation invariance and monotonicity (table 7 and figure 4 of the SPE paper).

Following Wang et al. (2021), the model reads one token over and over, so that only position distinguishes its copies.
Two metrics describe the unnormalised attention of the first layer, averaged over all tokens of the vocabulary, by head
and for a range of queries and offsets. Lower is better:

    translation invariance  the fraction of the variance of the weights that is within equal offsets
    monotonicity            the fraction of pairs of keys of one query whose farther key has the larger weight

Both are None if at most 1 % of the weights differ from the others: such weights carry no position. The decay of heads
(horizons) is switched off, because any map that decays is invariant and monotonic; the decay of PermuteFormer itself is
kept. In musical time every token lasts a sixteenth, and offsets are in sixteenths.

A band holds the weights by query and offset: band[m, o] is the weight of key m − o for query m, NaN if there is no such
key; (queries, offsets).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from evaluation.attention import Sides, sides_of
from musicgen.performer import Performer

BLOCK = 128  # queries per block
GROUPS = 4  # of tokens, for the jackknife
ROUNDING = 1e-5  # relative difference below which weights count as equal
FEW = 0.01  # fraction of differing weights up to which weights carry no position
SIXTEENTHS = 16  # per bar


@dataclass(frozen=True, kw_only=True)
class Range:
    """Queries start … stop − 1, and for each the keys up to `offset` before it."""

    start: int
    stop: int
    offset: int


def paper_ranges(trained_length: int) -> list[Range]:
    """Return the nine ranges of table 7, scaled from the paper's length of 2048."""
    half = trained_length // 2
    stops = [(0, half), (half, trained_length), (trained_length, trained_length + half // 2)]
    offsets = [trained_length // 16, trained_length // 4, half]
    return [Range(start=a, stop=b, offset=offset) for a, b in stops for offset in offsets]


def local_ranges(trained_length: int) -> list[Range]:
    """Return the ranges of figure 4: small offsets, for successive ranges of queries."""
    step = max(1, trained_length // 8)
    offset = trained_length // 16
    stops = range(0, trained_length + trained_length // 4, step)
    return [Range(start=start, stop=start + step, offset=offset) for start in stops]


def translation_invariance(band: np.ndarray, span: Range) -> float | None:
    """Return the mean variance within offsets over the variance of all weights in the range."""
    rows = band[span.start : span.stop, : span.offset + 1].astype(np.float64)
    count = np.count_nonzero(~np.isnan(rows), axis=0)
    rows, count = rows[:, count > 0], count[count > 0]
    median = np.nanmedian(rows)
    difference, larger = np.abs(rows - median), np.maximum(np.abs(rows), abs(median))
    if np.count_nonzero(difference > ROUNDING * larger) <= FEW * count.sum():
        return None
    variance = np.nanvar(rows)
    return float((np.nanvar(rows, axis=0) @ count) / count.sum() / variance)


def farther_above_nearer(band: np.ndarray) -> np.ndarray:
    """Count, for each weight of a band, the nearer keys of its query with smaller weights."""
    by_offset = np.ascontiguousarray(band.T)
    found = np.zeros(by_offset.shape, dtype=np.uint16)
    for distance in range(1, len(by_offset)):
        found[distance:] += by_offset[distance:] > by_offset[:-distance]
    return found.T


def monotonicity(violations: np.ndarray, span: Range) -> float | None:
    """Return the fraction of violating pairs in the range, from the counts of `farther_above_nearer`."""
    found = violations[span.start : span.stop, : span.offset + 1]
    keys = np.minimum(np.arange(span.start, span.start + len(found)), span.offset) + 1
    pairs = (keys * (keys - 1) // 2).sum()
    return float(found.sum() / pairs) if pairs else None


def probe(
    model: Performer, ranges: Sequence[Range], tokens: Sequence[int], seed: int = 0
) -> list[dict[str, float | int | None]]:
    """Return both metrics by head and range, with their standard errors (jackknife over groups of tokens)."""
    length = max(span.stop for span in ranges)
    offset = max(span.offset for span in ranges)
    bands = _bands(model, tokens, length, offset, seed)  # (G, H, length, offset + 1)
    rows: list[dict[str, float | int | None]] = []
    for head in range(bands.shape[1]):
        total = bands[:, head].sum(0)
        whole = _metrics(total, ranges)
        without = [_metrics(total - group, ranges) for group in bands[:, head]]
        for i, span in enumerate(ranges):
            row: dict[str, float | int | None] = {
                "head": head,
                **vars(span),
                "tokens": len(tokens),
            }
            for metric, value in whole[i].items():
                row[metric] = value
                row[f"{metric}_error"] = _jackknife([other[i][metric] for other in without])
            rows.append(row)
    return rows


def best_heads(rows: Sequence[dict]) -> list[dict]:
    """Return one row per range with the lowest value of each metric over the heads, its head and its error."""
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


def _metrics(band: np.ndarray, ranges: Sequence[Range]) -> list[dict[str, float | None]]:
    violations = farther_above_nearer(band)
    results: list[dict[str, float | None]] = []
    for span in ranges:
        invariance = translation_invariance(band, span)
        monotonic = None if invariance is None else monotonicity(violations, span)
        results.append({"translation": invariance, "monotonicity": monotonic})
    return results


def _jackknife(values: Sequence[float | None]) -> float | None:
    """Return the jackknife standard error from the values without each group."""
    if any(value is None for value in values):
        return None
    numbers = np.array(values, dtype=np.float64)
    return float(numbers.std() * np.sqrt(len(numbers) - 1))


def _bands(
    model: Performer, tokens: Sequence[int], length: int, offset: int, seed: int
) -> np.ndarray:
    """Return the maps summed over the tokens of each group, with one scale per head: (G, H, length, offset + 1)."""
    heads = model.config.heads
    sums = torch.zeros(min(GROUPS, len(tokens)), heads, length, BLOCK + offset)
    scale = torch.full((heads, 1, 1), -torch.inf)  # logarithm of the divisor of the maps
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
    """Return queries and keys of the first layer without horizons, with a sixteenth per token in musical time."""
    clock = model.config.clock
    pace = None if clock is None else max(1, clock.bar_ticks // SIXTEENTHS)
    sides = sides_of(model, tokens, [0], seed, pace)[0]
    return sides if model.position.forgetting is None else replace(sides, decay=None)


def _rows(sides: Sides, length: int, offset: int) -> Tensor:
    """Return the products of each block of queries with the keys from `offset` before: (H, length, BLOCK + offset)."""
    rows = torch.zeros(len(sides.q), length, BLOCK + offset)
    for start in range(0, length, BLOCK):
        queries = slice(start, min(start + BLOCK, length))
        keys = slice(max(0, start - offset), queries.stop)
        first = keys.start - (start - offset)
        products = sides.products(queries, keys).cpu()
        rows[:, queries, first : first + products.shape[2]] = products
    return rows
