"""Probes of position encodings: translation invariance and monotonicity (table 7 and figure 4 of the SPE paper).

Following Wang et al. (2021), the model reads one token over and over, so that only position distinguishes its copies.
Two metrics describe the unnormalised attention of the first layer, averaged over tokens of the vocabulary, by head and
for a range of queries and offsets. Lower is better:

    translation invariance  the fraction of the variance of the weights that is within equal offsets
    monotonicity            the fraction of pairs of keys of one query whose farther key has the larger weight

Both are None if at most 1 % of the weights differ from the others: such weights carry no position. The decay of heads
(horizons) is switched off, because any map that decays is invariant and monotonic; the decay of PermuteFormer itself is
kept. In musical time every token lasts a sixteenth, and offsets are in sixteenths.

Of long sequences, some queries are measured, evenly spaced. A band holds the weights by query and offset: band[m, o] is
the weight of the key o before query m, NaN if there is no such key; (queries, offsets).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evaluation.attention import Sides, attention_maps, paper_layers, sides_of, templates
from evaluation.study.experiments import Experiment, job_of, model_fields, probed_length
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.generation.sampling import Sampling
from musicgen.performer import Performer
from musicgen.pieces import empty_prompt
from musicgen.playable import Playable, load

QUERIES = 320  # to measure
GROUPS = 4  # of tokens, for the jackknife
ROUNDING = 1e-5  # relative difference below which weights count as equal
FEW = 0.01  # fraction of differing weights up to which weights carry no position
LARGEST = 700.0  # logarithm of a weight
SIXTEENTHS = 16  # per bar
METRICS = ("translation", "monotonicity")
Row = dict[str, Any]


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


def translation_invariance(band: np.ndarray) -> float | None:
    """Return the mean variance within offsets over the variance of all weights."""
    count = np.count_nonzero(~np.isnan(band), axis=0)
    band, count = band[:, count > 0], count[count > 0]
    median = np.nanmedian(band)
    difference, larger = np.abs(band - median), np.maximum(np.abs(band), abs(median))
    if np.count_nonzero(difference > ROUNDING * larger) <= FEW * count.sum():
        return None
    return float((np.nanvar(band, axis=0) @ count) / count.sum() / np.nanvar(band))


def monotonicity(band: np.ndarray) -> float | None:
    """Return the fraction of pairs of keys of one query whose farther key has the larger weight."""
    keys = np.count_nonzero(~np.isnan(band), axis=1)
    pairs = (keys * (keys - 1) // 2).sum()
    by_offset = np.ascontiguousarray(band.T)
    above = sum(
        np.count_nonzero(by_offset[distance:] > by_offset[:-distance])
        for distance in range(1, len(by_offset))
    )
    return float(above / pairs) if pairs else None


def metrics(band: np.ndarray) -> list[float | None]:
    """Return both metrics of a band, in the order of METRICS."""
    invariance = translation_invariance(band)
    return [invariance, None if invariance is None else monotonicity(band)]


def probe(
    model: Performer, ranges: Sequence[Range], tokens: Sequence[int], seed: int = 0
) -> list[Row]:
    """Return both metrics by head and range, with their standard errors (jackknife over groups of tokens)."""
    length = max(span.stop for span in ranges)
    offset = max(span.offset for span in ranges)
    queries = np.arange(0, length, length // QUERIES | 1)  # an odd step is no multiple of a beat
    bands = _bands(model, tokens, length, queries, offset, seed)  # (G, H, queries, offset + 1)
    total = bands.sum(0)
    rows = []
    for head in range(bands.shape[1]):
        for span in ranges:
            inside = (queries >= span.start) & (queries < span.stop)

            def found(band: np.ndarray, inside=inside, span=span) -> list[float | None]:
                return metrics(band[inside, : span.offset + 1])

            row: Row = {"head": head, **vars(span), "tokens": len(tokens)}
            without = [found(total[head] - group) for group in bands[:, head]]
            for metric, value, others in zip(
                METRICS, found(total[head]), zip(*without, strict=True), strict=True
            ):
                row |= {metric: value, f"{metric}_error": _jackknife(others)}
            rows.append(row)
    return rows


def best_heads(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return one row per range with the lowest value of each metric over the heads, its head and its error."""
    shared = ("start", "stop", "offset", "tokens")
    found: dict[tuple[int, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in shared)
        empty: Row = {**dict(zip(shared, key, strict=True)), **dict.fromkeys(METRICS)}
        best = found.setdefault(key, empty)
        for metric in METRICS:
            value = row[metric]
            if value is not None and (best[metric] is None or value < best[metric]):
                error = row[f"{metric}_error"]
                best |= {metric: value, f"{metric}_error": error, f"{metric}_head": row["head"]}
    return list(found.values())


def _jackknife(values: Sequence[float | None]) -> float | None:
    """Return the jackknife standard error from the values without each group."""
    if any(value is None for value in values):
        return None
    numbers = np.array(values, dtype=np.float64)
    return float(numbers.std() * np.sqrt(len(numbers) - 1))


def _bands(
    model: Performer,
    tokens: Sequence[int],
    length: int,
    queries: np.ndarray,
    offset: int,
    seed: int,
) -> np.ndarray:
    """Return the bands of some queries, summed over the tokens of each group: (G, H, queries, offset + 1)."""
    rows = torch.from_numpy(queries)
    lag = torch.arange(offset + 1)
    columns = (rows[:, None] - lag).clamp(min=0).expand(model.config.heads, -1, -1)
    sums = torch.zeros(min(GROUPS, len(tokens)), *columns.shape, dtype=torch.float64)
    for number, token in enumerate(tokens):
        sequence = torch.full((length,), token, device=model.embedding.weight.device)
        sides = encoding_alone(model, sequence, seed + number)
        found = sides.products(rows.to(sequence.device)).cpu().gather(2, columns).double()
        sums[number % len(sums)] += found.clamp(max=LARGEST).exp() if sides.exponential else found
    return np.where(lag.numpy() <= queries[:, None], sums.numpy(), np.nan)


def encoding_alone(model: Performer, tokens: Tensor, seed: int = 0) -> Sides:
    """Return queries and keys of the first layer without horizons, with a sixteenth per token in musical time."""
    clock = model.config.clock
    pace = None if clock is None else max(1, clock.bar_ticks // SIXTEENTHS)
    sides = sides_of(model, tokens, [0], seed, pace)[0]
    return sides if model.config.horizons is None else replace(sides, decay=None)


# The experiment.

MAP_SAMPLES = 2  # generated pieces over which attention maps are averaged


def positions(
    playables: Sequence[Playable], *, tokens: int, drawn: bool, seed: int, device: str
) -> Experiment:
    """Probe the encodings with sequences of one repeated token; with `drawn`, collect data for the figures too."""
    jobs = []
    for playable in playables:
        length = probed_length(playable)
        jobs.append(job_of(playable, probes, device, length=length, tokens=tokens, seed=seed))
        if drawn:
            jobs.append(job_of(playable, pictures, device, length=length, seed=seed))

    def compose(playable: Playable, results: list[Row]) -> list[Row]:
        probed, *drawn = results
        best = {f"best_{name}": best_heads(rows) for name, rows in probed.items()}
        found = {"probes": {**probed, **best, "length": probed_length(playable)}}
        return [{**model_fields(playable), **found, **(drawn[0] if drawn else {})}]

    return Experiment(jobs=jobs, compose=compose)


def probes(*, model: str, length: int, tokens: int, seed: int, device: str) -> dict[str, list[Row]]:
    """Return translation invariance and monotonicity by head, for the ranges of table 7 and of figure 4."""
    performer = load(model, device).performer
    size = performer.config.vocabulary_size
    probed = np.unique(np.linspace(0, size - 1, min(tokens, size)).round().astype(int))
    table, figure = paper_ranges(length), local_ranges(length)
    limit = performer.config.longest or length * 2
    ranges = [one for one in [*table, *figure] if one.stop <= limit]
    found = probe(performer, ranges, probed.tolist(), seed)
    return {
        name: [row for row in found if any(vars(one).items() <= row.items() for one in part)]
        for name, part in (("table", table), ("figure", figure))
    }


def pictures(*, model: str, length: int, seed: int, device: str) -> dict[str, Any]:
    """Return the learned templates up to the trained length, and attention maps of generated pieces past it."""
    loaded = load(model, device)
    performer = loaded.performer
    tokens = min(length + length // 2, performer.config.longest or length * 2) - 1
    request = Request(
        tokens=tokens, variations=MAP_SAMPLES, seed=seed, sampling=Sampling(temperature=1.0, top_p=0.95)
    )  # fmt: skip
    pieces = Continuation(loaded, empty_prompt(loaded.language), request).finish().sequences()
    layers = paper_layers(performer.config.layers)
    return {
        "templates": templates(performer, length, layers[0], seed),
        "attention": attention_maps(performer, pieces, layers, seed),
    }
