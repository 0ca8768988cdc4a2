"""The optimiser, Adam or Muon with Adam, and the learning rate's schedule, by steps or by the clock.

A timed run holds its rate, saves a checkpoint, and then lets the rate fall until its time is over. This tail yields the
model to use. Resuming continues from the checkpoint before the tail, at the held rate, so a run can be finished with a
tail at any time and more than once.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from musicgen.common.learning import cooldown_rate, cosine_rate, parameter_groups
from musicgen.common.processes import multiplies_bfloat16
from musicgen.performer import Performer
from training.config import OptimiserConfig
from training.data.batches import Batches

RATE_FACTOR = "rate_factor"  # of a parameter group: the factor on the learning rate


class StackedMuon(Muon):
    """Muon that stacks matrices of equal shape, to launch fewer kernels on a GPU."""

    def __init__(self, matrices: Sequence[Tensor], dtype: torch.dtype, **settings: Any) -> None:
        """Optimise matrices; the Newton–Schulz iteration is computed in `dtype`."""
        super().__init__(matrices, **settings)
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update each (m, n) matrix W by the orthogonal factor Q of its mean gradient: W ← W − r √max(m, n)/5 · Q."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                averaged = torch.stack(self._averaged(parameters, group["momentum"]))
                settings = (group[name] for name in ("ns_coefficients", "ns_steps", "eps"))
                rate = group["lr"] * math.sqrt(max(shape)) / 5  # updates as large as Adam's
                updates = orthogonal(averaged.to(self.dtype), *settings).to(averaged.dtype)
                decay = 1 - group["lr"] * group["weight_decay"]
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(decay).add_(update, alpha=-rate)

    def _averaged(self, parameters: list[Tensor], momentum: float) -> list[Tensor]:
        """Update the moving averages of the gradients; return them with Nesterov momentum."""
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
    """Return approximately U Vᵀ for matrices U S Vᵀ, by the Newton–Schulz iteration (Jordan et al. 2024): (N, O, I)."""
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
    """Muon (Jordan et al. 2024) for some parameters and Adam for the others, as a single optimiser.

    Muon makes the averaged gradient of a matrix nearly orthogonal, so that the update is equally large in all
    directions. Scaled to the size of Adam's updates (Liu et al. 2025, arXiv:2502.16982), both share a learning rate.
    """

    def __init__(self, muon: Muon, adam: AdamW) -> None:
        super().__init__([*muon.param_groups, *adam.param_groups], adam.defaults)
        self.parts = (muon, adam)
        for part in self.parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take a step with both."""
        for part in self.parts:
            part.step()


def optimiser_of(settings: OptimiserConfig, model: Performer) -> Optimizer:
    """Return Adam, or Muon for the layers' matrices with Adam for the rest; only matrices have weight decay."""
    if settings.method == "adam":
        return _adam(settings, model)
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    # bfloat16 as in torch's Muon, unless a CPU has to emulate it: the iteration would take most of the step.
    is_native = matrices[0].is_cuda or multiplies_bfloat16()
    muon = StackedMuon(
        matrices,
        torch.bfloat16 if is_native else torch.float32,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    return MuonAndAdam(muon, _adam(settings, model, {id(p) for p in matrices}))


def _adam(
    settings: OptimiserConfig, model: Performer, excluded: Collection[int] = frozenset()
) -> AdamW:
    """Return Adam for the parameters whose `id` is not excluded.

    The parameters of goals, positional encoding and recall are not decayed, as zero has no special meaning for them;
    the first two can have learning rates of their own.
    """
    goals = [] if model.goals is None else [*model.goals.parameters()]
    recall = [] if model.recall is None else [*model.recall.parameters()]
    undecayed = (
        (goals, settings.goal_rate),
        ([*model.position.parameters()], settings.position_rate),
        (recall, 1.0),
    )
    taken = {*excluded, *(id(p) for parameters, _ in undecayed for p in parameters)}
    groups = parameter_groups(
        [p for p in model.parameters() if id(p) not in taken], settings.weight_decay
    )
    for parameters, factor in undecayed:
        if parameters:
            rate = {} if factor == 1 else {RATE_FACTOR: factor}
            groups.append({"params": parameters, "weight_decay": 0.0, **rate})
    return AdamW(
        groups,
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,  # three times as fast
    )


class Schedule:
    """The learning rate and the length of a run; with `seconds` it is timed."""

    def __init__(
        self, settings: OptimiserConfig, batches: Batches, seconds: float | None = None
    ) -> None:
        if seconds is not None and not seconds > 0:
            raise ValueError(f"a run takes more than 0 seconds, not {seconds}")
        if seconds is not None and settings.schedule != "hold":
            raise ValueError(
                "a timed run holds its learning rate; add --set optimiser.schedule=hold"
            )
        if seconds is not None and batches.processes > 1:
            raise ValueError(
                "a timed run needs a single device, since the clocks of several differ"
            )
        self.settings, self.seconds = settings, seconds
        self.configured_steps = batches.steps(settings.steps, settings.epochs)
        epochs = settings.cosine_epochs
        self.cosine_steps = self.configured_steps if epochs is None else batches.steps(None, epochs)
        self.in_tail, self.tail_from = False, 0  # the step at which the tail began
        self._started, self._first_step, self._tail_elapsed = time.monotonic(), 0, 0.0

    @property
    def steps(self) -> int:
        """The number of steps after which the run ends; unlimited if it is timed."""
        return self.configured_steps if self.seconds is None else sys.maxsize

    def start(self, step: int) -> None:
        """Start the clock at a step."""
        self._started, self._first_step, self.in_tail = time.monotonic(), step, False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

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
        pace = self.elapsed / max(1, step - self._first_step)  # seconds per step
        return step + max(0, round((self.seconds - self.elapsed) / max(1e-9, pace)))

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
