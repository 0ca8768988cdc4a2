"""The loss on held-out pieces by position, inside the trained length and past it.

Pieces of music that the model writes are to be heard too: the loss does not tell all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from musicgen.generation.likelihood import stretch
from musicgen.model.performer import Performer
from tokenization.language import language_from_spec
from tokenization.whole_file import write_whole
from training.config import RunConfig
from training.data.batches import IGNORED, Batches, next_token_loss
from training.devices import Sealed

if TYPE_CHECKING:
    from lightning_fabric import Fabric

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
    stretches = [stretch(losses, counts, start, stop) for start, stop in pairwise(edges)]
    rows = [(s.start, s.stop, s.mean, s.deviation, s.pieces) for s in stretches if s is not None]
    inside, beyond = (slice(None, trained), slice(trained, None))
    past = counts[:, beyond].sum()
    return Measured(
        inside=float(losses[:, inside].sum() / max(1, counts[:, inside].sum())),
        beyond=float(losses[:, beyond].sum() / past) if past else None,
        sequences=len(losses),
        rows=rows,
    )


def write_samples(
    model: Performer,
    spec: dict[str, Any],
    folder: Path,
    step: int,
    *,
    count: int,
    tokens: int,
    longest_ticks: list[int] | None = None,
) -> list[Path]:
    """Write `count` pieces from nothing as STEP_0.mid …; one without a note is left out.

    They have the same seed at every step. Raises ImportError where the libraries for MIDI are missing.
    """
    from musicgen.continuation import Continuation
    from musicgen.generation.request import Request
    from musicgen.pieces import no_prompt
    from musicgen.playable import Playable
    from tokenization.midi.writing import write_midi

    language = language_from_spec(spec)
    player = Playable(
        name=f"step {step}", language=language, weights=lambda: model, longest_ticks=longest_ticks
    )
    request = Request(tokens=tokens, variations=count, may_end=True)
    work = Continuation(player, no_prompt(language), request).finish()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for take in work.takes():
        if len(take.score.notes):
            path = folder / f"{step:08d}_{take.number}.mid"
            text = f"musicgen training step {step}, sample {take.number}"
            write_whole(path, write_midi(take.score, texts=(text,)))
            paths.append(path)
    return paths
