"""The optimiser, Adam or Muon with Adam, and the learning rate's schedule, by steps or by the clock.

A timed run holds its rate, saves a checkpoint, and then lets the rate fall until its time is over. This tail yields the
model to use. Resuming continues from the checkpoint before the tail, at the held rate, so a run can be finished with a
tail at any time and more than once.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from musicgen.common.learning import cooldown_rate, cosine_rate, parameter_groups
from musicgen.common.machine import multiplies_bfloat16
from musicgen.performer import Performer
from training.config import OptimiserConfig
from training.data.batches import Batches

# Entries of a parameter group: the factor on the learning rate, and the type in which Muon computes.
RATE_FACTOR, MUON = "rate_factor", "muon"
# Muon's constants, as in torch.
MOMENTUM = 0.95
NEWTON_SCHULZ, ITERATIONS = (3.4445, -4.775, 2.0315), 5


class MuonAndAdam(AdamW):
    """Muon (Jordan et al. 2024) for the groups of parameters that are marked by `MUON`, and Adam for the others.

    Muon makes the averaged gradient of a matrix nearly orthogonal, so that the update is equally large in all
    directions. Scaled to the size of Adam's updates (Liu et al. 2025, arXiv:2502.16982), both share a learning rate.
    Unlike torch's Muon, it stacks matrices of equal shape, to launch fewer kernels on a GPU.
    """

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take a step; Adam does not change the matrices, as their gradients are None by then."""
        assert closure is None, "the gradients are computed before the step"
        for group in self.param_groups:
            if MUON in group:
                self._update_matrices(group)
        super().step()

    @torch.no_grad()
    def _update_matrices(self, group: dict[str, Any]) -> None:
        """Update each (m, n) matrix W by the orthogonal factor Q of its mean gradient: W ← W − r √max(m, n)/5 · Q."""
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                by_shape.setdefault(parameter.shape, []).append(parameter)
        for shape, parameters in by_shape.items():
            averaged = torch.stack([self._averaged(parameter) for parameter in parameters])
            rate = group["lr"] * math.sqrt(max(shape)) / 5  # updates as large as Adam's
            updates = orthogonal(averaged.to(group[MUON])).to(averaged.dtype)
            decay = 1 - group["lr"] * group["weight_decay"]
            for parameter, update in zip(parameters, updates, strict=True):
                parameter.mul_(decay).add_(update, alpha=-rate)
                parameter.grad = None

    def _averaged(self, parameter: Tensor) -> Tensor:
        """Update the moving average of a parameter's gradients; return it with Nesterov momentum."""
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None, "called only for parameters with gradients"
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        average = state["momentum_buffer"].lerp_(gradient, 1 - MOMENTUM)
        return gradient.lerp(average, MOMENTUM)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return approximately U Vᵀ for matrices U S Vᵀ, by the Newton–Schulz iteration (Jordan et al. 2024): (N, O, I)."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonal(matrices.mT).mT
    a, b, c = NEWTON_SCHULZ
    found = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = found @ found.mT  # (N, O, O), O ≤ I
        found = torch.baddbmm(
            found, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), found, beta=a
        )
    return found


def optimiser_of(settings: OptimiserConfig, model: Performer) -> Optimizer:
    """Return Adam, or Muon for the layers' matrices with Adam for the rest; only matrices have weight decay.

    The parameters of goals, positional encoding and recall are not decayed, as zero has no special meaning for them;
    the first two can have learning rates of their own.
    """
    groups: list[dict[str, Any]] = []
    if settings.method == "muon":
        matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
        # bfloat16 as in torch's Muon, unless a CPU has to emulate it: the iteration would take most of the step.
        is_native = matrices[0].is_cuda or multiplies_bfloat16()
        dtype = torch.bfloat16 if is_native else torch.float32
        decay = settings.weight_decay
        groups.append({"params": matrices, "weight_decay": decay, MUON: dtype})
    goals = [] if model.goals is None else [*model.goals.parameters()]
    recall = [] if model.recall is None else [*model.recall.parameters()]
    undecayed = []
    for parameters, factor in (
        (goals, settings.goal_rate),
        ([*model.position.parameters()], settings.position_rate),
        (recall, 1.0),
    ):
        if parameters:
            rate = {} if factor == 1 else {RATE_FACTOR: factor}
            undecayed.append({"params": parameters, "weight_decay": 0.0, **rate})
    taken = {id(p) for group in [*groups, *undecayed] for p in group["params"]}
    rest = [p for p in model.parameters() if id(p) not in taken]
    groups += [*parameter_groups(rest, settings.weight_decay), *undecayed]
    kind = MuonAndAdam if settings.method == "muon" else AdamW
    return kind(
        groups,
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,  # three times as fast
    )


class Schedule:
    """The learning rate and the length of a run; with `seconds` it is timed."""

    def __init__(
        self,
        settings: OptimiserConfig,
        batches: Batches,
        seconds: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if seconds is not None and not seconds > 0:
            raise ValueError(f"a run takes more than 0 seconds, not {seconds}")
        if seconds is not None and settings.schedule != "hold":
            raise ValueError(
                "a timed run holds its learning rate; add --set optimiser.schedule=hold"
            )
        self.settings, self.seconds = settings, seconds
        self.configured_steps = batches.steps(settings.steps, settings.epochs)
        epochs = settings.cosine_epochs
        self.cosine_steps = self.configured_steps if epochs is None else batches.steps(None, epochs)
        self.in_tail, self.tail_from = False, 0  # the step at which the tail began
        self.elapsed = 0.0  # seconds since the start, by the clock on which all processes agree
        self._now = clock or time.monotonic
        self._started, self._first_step, self._tail_elapsed = self._now(), 0, 0.0

    @property
    def steps(self) -> int:
        """The number of steps after which the run ends; unlimited if it is timed."""
        return self.configured_steps if self.seconds is None else sys.maxsize

    def start(self, step: int) -> None:
        """Start the clock at a step."""
        self._started, self._first_step, self.in_tail = self._now(), step, False
        self.elapsed = 0.0

    @property
    def clock(self) -> float:
        """Seconds since the start by this process's clock."""
        return self._now() - self._started

    @property
    def is_over(self) -> bool:
        """Whether the time of a timed run is over."""
        return self.seconds is not None and self.elapsed >= self.seconds

    def enters_tail(self, step: int) -> bool:
        """Begin the tail if it is time; return whether it begins at this step."""
        if self.seconds is None or self.in_tail:
            return False
        if self.elapsed < self.seconds * (1 - self.settings.tail):
            return False
        self.in_tail, self.tail_from, self._tail_elapsed = True, step, self.elapsed
        return True

    def expected_steps(self, step: int) -> int:
        """Return the number of steps after which the run ends, estimated from the pace so far if it is timed."""
        if self.seconds is None:
            return self.configured_steps
        elapsed = self.clock
        pace = elapsed / max(1, step - self._first_step)  # seconds per step
        return step + max(0, round((self.seconds - elapsed) / max(1e-9, pace)))

    def rate(self, step: int, began: int = 0) -> float:
        """Return the current learning rate at a step; `began` is the step at which the warm-up began."""
        settings, peak = self.settings, self.settings.learning_rate
        floor, warmup = peak * settings.final_rate, settings.warmup
        if step - began < warmup:
            rate = peak * (step - began + 1) / warmup
        elif settings.schedule == "cosine":
            total = self.cosine_steps
            rate = cosine_rate(step, peak=peak, floor=floor, warmup=warmup, total=total)
        else:
            total = self.configured_steps if self.seconds is None else None
            rate = cooldown_rate(step, peak=peak, floor=floor, total=total, tail=settings.tail)
        return rate * self._tail_factor() if self.in_tail else rate

    def _tail_factor(self) -> float:
        """Return the factor on the rate in the tail, which falls from 1 to `final_rate`."""
        assert self.seconds is not None, "only a timed run enters a tail"
        left = (self.seconds - self.elapsed) / max(1e-9, self.seconds - self._tail_elapsed)
        final = self.settings.final_rate
        return final + (1 - final) * min(1.0, max(0.0, left))
