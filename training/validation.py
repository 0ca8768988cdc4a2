"""The loss on held-out pieces by position, within the trained length and past it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from musicgen.performer import Performer
from training.config import RunConfig
from training.data.batches import IGNORED, Batches, next_token_loss
from training.devices import Devices

BINS = 12  # of positions, in the table


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The mean loss in nats per token: within the trained length, past it, and by ranges of positions."""

    inside: float
    beyond: float | None
    sequences: int
    # start, stop, mean, deviation, n; the last three over sequences
    rows: list[tuple[int, int, float, float, int]]


class Validation:
    """Measures the loss on a fixed set of held-out sequences."""

    def __init__(self, config: RunConfig, batches: Batches, model: Performer) -> None:
        self.trained = config.data.length
        self.length = config.validation.length or self.trained * 3 // 2
        limit = model.config.longest
        if limit is not None and config.validation.length is None:
            self.length = min(self.length, limit)
        # Now, and not only at the first validation.
        model.config.position.check(max(self.length, self.trained))
        self.batch = config.validation.batch
        self.sequences = batches.validation(config.validation.sequences, self.length)

    def measure(self, devices: Devices, module: Any, code: Any) -> Measured:
        """Measure a model's loss."""
        return summary(*self.losses(devices, module, code), trained=self.trained)

    def losses(self, devices: Devices, module: Any, code: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the losses of the sequences, and where they have tokens: (sequences, positions) each.

        The sequences are divided among the processes.
        """
        losses = torch.zeros(
            len(self.sequences), self.length, dtype=torch.float32, device=devices.device
        )
        counts = torch.zeros_like(losses)
        starts = range(0, len(self.sequences), self.batch)
        for start in starts[devices.rank :: devices.count]:
            rows = slice(start, start + self.batch)
            tokens = torch.from_numpy(self.sequences[rows]).to(devices.device)
            inputs = tokens[:, :-1].clamp(min=0)
            logits = module(partial(Performer.__call__, tokens=inputs, code=code))
            losses[rows] = next_token_loss(logits, tokens[:, 1:]).float()
            counts[rows] = (tokens[:, 1:] != IGNORED).float()
        both = devices.sum(torch.stack([losses, counts]))
        losses, counts = both.cpu().double().numpy()
        return losses, counts


def summary(losses: np.ndarray, counts: np.ndarray, *, trained: int) -> Measured:
    """Summarise the summed losses and the token counts, both (sequences, positions)."""
    edges = sorted({*np.linspace(0, losses.shape[1], BINS + 1, dtype=int).tolist(), trained})
    edges = [edge for edge in edges if edge <= losses.shape[1]]
    rows = []
    for start, stop in pairwise(edges):
        tokens = counts[:, start:stop].sum(1)
        means = losses[:, start:stop].sum(1)[tokens > 0] / tokens[tokens > 0]  # one per piece
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
