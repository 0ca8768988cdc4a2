"""What the evaluations measure of a model given by name, each a function of plain data, to be done in any process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from musicgen.continuation import Continuation
from musicgen.generation.sampling import Sampling
from musicgen.loading import load
from musicgen.options import Options
from musicgen.pieces import no_prompt
from musicgen.playable import Playable

MAP_SAMPLES = 2  # generated pieces that a picture of attention is the mean of


def losses(
    *,
    model: str,
    data: str,
    rows: Sequence[int],
    edges: Sequence[int],
    seed: int,
    device: str,
    realisations: int | None = None,
    window: int | None = None,
) -> list[dict[str, Any]]:
    """Return the loss of some pieces of a data set, each with its own draw of a stochastic encoding."""
    from evaluation.likelihood import piece_loss
    from tokenization.prepared import Prepared

    performer = load(model, device).performer
    if realisations is not None and realisations != performer.config.position.realisations:
        performer = performer.with_realisations(realisations, seed).eval()
    prepared = Prepared.open(data)
    return [
        piece_loss(performer, np.asarray(prepared.ids(row)), edges, seed + row, window)
        for row in rows
    ]


def probes(
    *, model: str, length: int, tokens: int | None, seed: int, device: str
) -> dict[str, list[dict[str, Any]]]:
    """Return translation invariance and monotonicity by head, in table 7's ranges and in figure 4's."""
    from evaluation.probes import local_ranges, paper_ranges, probe

    performer = load(model, device).performer
    size = performer.config.vocabulary_size
    probed = np.unique(np.linspace(0, size - 1, min(tokens or size, size)).round().astype(int))
    table, figure = paper_ranges(length), local_ranges(length)
    limit = performer.config.longest or length * 2
    ranges = [where for where in [*table, *figure] if where.stop <= limit]
    found = probe(performer, ranges, probed.tolist(), seed)
    return {
        name: [row for row in found if any(vars(where).items() <= row.items() for where in part)]
        for name, part in (("table", table), ("figure", figure))
    }


def pictures(*, model: str, length: int, seed: int, device: str) -> dict[str, Any]:
    """Return the learned templates to the trained length, and attention maps of generated pieces past it."""
    from evaluation.maps import attention_maps, paper_layers, templates

    loaded = load(model, device)
    performer = loaded.performer
    limit = performer.config.longest or length * 2
    tokens = min(length + length // 2, limit)
    pieces = [_written(loaded, tokens, seed + number) for number in range(MAP_SAMPLES)]
    layers = paper_layers(performer.config.layers)
    return {
        "templates": templates(performer, length, layers[0], seed),
        "attention": attention_maps(performer, pieces, layers, seed),
    }


def _written(model: Playable, tokens: int, seed: int) -> np.ndarray:
    """Return so many tokens that the model wrote from nothing."""
    sampling = Sampling(temperature=1.0, top_p=0.95)
    options = Options(tokens=tokens - 1, seed=seed, sampling=sampling)
    return Continuation(model, no_prompt(model.language), options).finish().sequences()[0]
