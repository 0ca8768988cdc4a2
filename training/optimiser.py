"""Adam, or Muon for the matrices of layers and Adam for the rest; and the learning rate, by step or by the clock.

A run of so many seconds holds its rate, saves, and lets the rate fall to the end of its time: the tail, whose weights
are those to use. What goes on later goes on from before the tail, where the rate was held; so a run can be ended with a
tail at any time, and any number of times.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from musicgen.common.learning import decayed, held_rate, learning_rate
from musicgen.common.processes import multiplies_bfloat16
from musicgen.performer import Performer
from training.config import OptimiserConfig
from training.data.batches import Batches

TIMES = "times"  # of a group of parameters: what its rate is of that of the others


class StackedMuon(Muon):
    """Muon that takes matrices of one shape together: a GPU waits for each call."""

    def __init__(self, matrices: Sequence[Tensor], within: torch.dtype, **settings: Any) -> None:
        """Compute the iteration `within` a type of numbers."""
        super().__init__(matrices, **settings)
        self.within = within

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move each matrix W against the orthogonal factor O of its averaged gradient: W ← W − r √max(O, I)/5 · O."""
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in alike.items():
                averaged = torch.stack(self._averaged(parameters, group["momentum"]))
                settings = (group[name] for name in ("ns_coefficients", "ns_steps", "eps"))
                rate = group["lr"] * math.sqrt(max(shape)) / 5  # as large as a step of Adam's
                moves = orthogonal(averaged.to(self.within), *settings).to(averaged.dtype)
                kept = 1 - group["lr"] * group["weight_decay"]
                for parameter, move in zip(parameters, moves, strict=True):
                    parameter.mul_(kept).add_(move, alpha=-rate)

    def _averaged(self, parameters: list[Tensor], momentum: float) -> list[Tensor]:
        """Take in gradients; return the averages with Nesterov's look ahead."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        states = [self.state[parameter] for parameter in parameters]
        for state, gradient in zip(states, gradients, strict=True):
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradient)
        averages = [state["momentum_buffer"] for state in states]
        pairs = zip(averages, gradients, strict=True)
        return [new.lerp(average.lerp_(new, 1 - momentum), momentum) for average, new in pairs]


def orthogonal(
    matrices: Tensor, coefficients: tuple[float, float, float], steps: int, epsilon: float
) -> Tensor:
    """Return nearly U Vᵀ of matrices U S Vᵀ, by Newton and Schulz's iteration (Jordan et al. 2024): (N, O, I)."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonal(matrices.mT, coefficients, steps, epsilon).mT
    a, b, c = coefficients
    found = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=epsilon)
    for _ in range(steps):
        gram = found @ found.mT  # (N, O, O), O ≤ I
        found = torch.baddbmm(
            found, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), found, beta=a
        )
    return found


class MuonAndAdam(Optimizer):
    """Muon (Jordan et al. 2024) for some parameters and Adam for the others, to the outside one optimiser.

    Muon makes the averaged gradient of a matrix nearly orthogonal, so that every direction in it moves alike; scaled to
    be as large as a step of Adam's (Liu et al. 2025, arXiv:2502.16982), both go by one learning rate.
    """

    def __init__(self, muon: Muon, adam: AdamW) -> None:
        super().__init__([*muon.param_groups, *adam.param_groups], adam.defaults)
        self.parts = (muon, adam)
        for part in self.parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Let both take a step."""
        for part in self.parts:
            part.step()


def optimiser_of(settings: OptimiserConfig, model: Performer) -> Optimizer:
    """Return Adam, or Muon for the matrices of layers and Adam for the rest; weights decay in matrices alone."""
    if settings.method == "adam":
        return _adam(settings, model)
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    # As torch does; but a processor that has to imitate bfloat16 takes ten times longer so than for all else.
    multiplied = matrices[0].is_cuda or multiplies_bfloat16()
    muon = StackedMuon(
        matrices,
        torch.bfloat16 if multiplied else torch.float32,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    return MuonAndAdam(muon, _adam(settings, model, {id(p) for p in matrices}))


def _adam(
    settings: OptimiserConfig, model: Performer, others: Collection[int] = frozenset()
) -> AdamW:
    """Return Adam for the parameters whose ids are not among the others'.

    What places tokens and what tells them of goals never decays: zero means nothing special there. Either may learn at
    a rate of its own.
    """
    goals = [] if model.goals is None else [*model.goals.parameters()]
    recall = [] if model.recall is None else [*model.recall.parameters()]
    apart = (
        (goals, settings.goal_rate),
        ([*model.position.parameters()], settings.position_rate),
        (recall, 1.0),
    )
    taken = {*others, *(id(p) for own, _ in apart for p in own)}
    groups = decayed([p for p in model.parameters() if id(p) not in taken], settings.weight_decay)
    for own, times in apart:
        if own:
            rate = {} if times == 1 else {TIMES: times}
            groups.append({"params": own, "weight_decay": 0.0, **rate})
    return AdamW(
        groups,
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,  # in a third of the time
    )


@dataclass(frozen=True, kw_only=True)
class Limit:
    """How long a run by the clock goes on, and the share of it in which the rate falls, if not the settings'."""

    seconds: float
    tail: float | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"a run lasts more than 0 seconds, not {self.seconds}")
        if self.tail is not None and not 0 <= self.tail <= 1:
            raise ValueError(
                f"the tail is {self.tail}: a share of the seconds of a run, from 0 to 1"
            )


class Schedule:
    """The learning rate, and how long a run goes on."""

    def __init__(self, settings: OptimiserConfig, batches: Batches, limit: Limit | None) -> None:
        if limit is not None and settings.schedule != "hold":
            raise ValueError(
                "a run of so many seconds holds its rate until its tail; --set optimiser.schedule=hold says so"
            )
        if limit is not None and batches.processes > 1:
            raise ValueError("a run of so many seconds takes one device: clocks of several differ")
        self.settings, self.seconds = settings, None if limit is None else limit.seconds
        self.share = settings.tail if limit is None or limit.tail is None else limit.tail
        self.whole = batches.steps(settings.steps, settings.epochs)  # as the settings say
        cosine = settings.cosine_epochs
        self.falling = self.whole if cosine is None else batches.steps(None, cosine)
        self.in_tail, self.held = False, 0  # and the step before the tail
        self._began, self._first, self._fell = time.monotonic(), 0, 0.0

    @property
    def steps(self) -> int:
        """The steps after which the run ends; of one by the clock there is no limit."""
        return self.whole if self.seconds is None else sys.maxsize

    def start(self, step: int) -> None:
        """Begin to count the seconds, at a step."""
        self._began, self._first, self.in_tail = time.monotonic(), step, False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        """Whether the seconds are over."""
        return self.seconds is not None and self.elapsed >= self.seconds

    def turns(self, step: int) -> bool:
        """Say, once, that the tail begins after a step."""
        if self.seconds is None or self.in_tail or self.elapsed < self.seconds * (1 - self.share):
            return False
        self.in_tail, self.held, self._fell = True, step, self.elapsed
        return True

    def expected(self, step: int) -> int:
        """Return the step at which the run ends: of one by the clock, at its pace so far."""
        if self.seconds is None:
            return self.whole
        pace = self.elapsed / max(1, step - self._first)
        return step + max(0, round((self.seconds - self.elapsed) / max(1e-9, pace)))

    def rate(self, step: int, began: int = 0) -> float:
        """Return the rate of a step now; the warm-up began at a step."""
        settings, peak = self.settings, self.settings.learning_rate
        floor, warmup = peak * settings.final_rate, settings.warmup
        if step - began < warmup:
            rate = peak * (step - began + 1) / warmup
        elif settings.schedule == "cosine":
            rate = learning_rate(step, peak=peak, floor=floor, warmup=warmup, total=self.falling)
        else:
            total = self.whole if self.seconds is None else None
            rate = held_rate(step, peak=peak, floor=floor, total=total, tail=settings.tail)
        return rate * self._left() if self.in_tail else rate

    def _left(self) -> float:
        """Return what of the rate is left in the tail, from 1 to its final share."""
        assert self.seconds is not None, "only a run by the clock turns"
        share = (self.seconds - self.elapsed) / max(1e-9, self.seconds - self._fell)
        final = self.settings.final_rate
        return final + (1 - final) * min(1.0, max(0.0, share))
