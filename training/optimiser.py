"""Adam, or Muon for the matrices of layers beside it; and the learning rate as a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from musicgen.common.learning import decayed
from musicgen.model.performer import Performer
from training.config import OptimiserConfig

ADAM_KEEPS, MUON_KEEPS = ("step", "exp_avg", "exp_avg_sq"), ("momentum_buffer",)  # of a parameter


def learning_rate(step: int, *, peak: float, floor: float, warmup: int, total: int) -> float:
    """Rise linearly to `peak` over the first `warmup` steps, then fall to `floor` along half a cosine.

    Step 0 already learns: it has the rate peak / warmup.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


TIMES = "times"  # of a group of parameters: what its rate is of that of the others


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
        self.orthogonal = {id(p) for group in muon.param_groups for p in group["params"]}

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Let both take a step."""
        for part in self.parts:
            part.step()


def optimiser_of(settings: OptimiserConfig, model: Performer) -> Optimizer:
    """Return what moves a model's parameters; weights decay in matrices alone."""
    if settings.method == "adam":
        return _adam(settings, model)
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    muon = Muon(
        matrices,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    return MuonAndAdam(muon, _adam(settings, model, {id(p) for p in matrices}))


def kept_of(optimiser: Optimizer, parameter: Tensor) -> Sequence[str]:
    """Return the names of what an optimiser keeps of a parameter."""
    orthogonal = isinstance(optimiser, MuonAndAdam) and id(parameter) in optimiser.orthogonal
    return MUON_KEEPS if orthogonal else ADAM_KEEPS


def _adam(
    settings: OptimiserConfig, model: Performer, others: Collection[int] = frozenset()
) -> AdamW:
    """Return Adam for the parameters whose ids are not among the others'; goals may learn at a rate of their own."""
    own = [] if model.goals is None or settings.goal_rate == 1 else [*model.goals.parameters()]
    apart = {*others, *map(id, own)}
    groups = decayed([p for p in model.parameters() if id(p) not in apart], settings.weight_decay)
    if own:
        groups.append({"params": own, "weight_decay": 0.0, TIMES: settings.goal_rate})
    return AdamW(
        groups,
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,  # in a third of the time
    )
