"""What the steps since the last log add up to, kept on the device so that no step waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class StepSums:
    """Sums of loss and gradient norm, tokens and steps, and the first step that was not finite."""

    def __init__(self, device: torch.device, sums: Sequence[float] = ()) -> None:
        self._dtype = torch.float32 if device.type == "mps" else torch.float64
        self._device = device
        self._bad = torch.full((), torch.inf, device=device)
        self.restart(sums)

    def restart(self, sums: Sequence[float] = ()) -> None:
        """Begin anew, or with sums that were kept."""
        loss, gradient, tokens, steps = sums or (0.0,) * 4
        self._loss, self._gradient = (
            torch.tensor(value, dtype=self._dtype, device=self._device)
            for value in (loss, gradient)
        )
        self._tokens, self._steps = int(tokens), int(steps)
        self._new_tokens, self._began = 0, time.perf_counter()

    def add(self, loss: Tensor, tokens: int, step: int) -> None:
        """Take the loss of some tokens of a step, as a sum."""
        self._loss = self._loss + loss
        self._tokens += tokens
        self._new_tokens += tokens
        self._watch(loss, step)

    def add_norm(self, norm: Tensor, step: int) -> None:
        """Take the norm of a step's gradient."""
        self._steps += 1
        self._gradient = self._gradient + norm
        self._watch(norm, step)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time inside out of the speed."""
        began = time.perf_counter()
        yield
        self._began += time.perf_counter() - began

    def total(self) -> Tensor:
        """Return the sums of loss, gradient norms, tokens and steps: (4,)."""
        counts = torch.tensor([self._tokens, self._steps], dtype=self._dtype, device=self._device)
        return torch.cat([torch.stack([self._loss, self._gradient]), counts])

    def speed(self) -> tuple[int, float]:
        """Return the tokens taken in this session since the last log, and their seconds."""
        return self._new_tokens, time.perf_counter() - self._began

    def first_bad_step(self) -> int | None:
        """Return the first step whose loss or gradient was not finite; waits for the device."""
        bad = self._bad.item()
        return None if bad == torch.inf else int(bad)

    def _watch(self, value: Tensor, step: int) -> None:
        worst = self._bad.clamp(max=float(step))
        self._bad = torch.where(torch.isfinite(value), self._bad, worst)
