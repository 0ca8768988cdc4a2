"""Adam, or Muon for the matrices of layers and Adam for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from musicgen.common.learning import decayed
from musicgen.common.machine import multiplies_bfloat16
from musicgen.model.performer import Performer
from training.config import OptimiserConfig

ADAM_KEEPS, MUON_KEEPS = ("step", "exp_avg", "exp_avg_sq"), ("momentum_buffer",)  # of a parameter


TIMES = "times"  # of a group of parameters: what its rate is of that of the others


class Float32Muon(Muon):
    """Muon whose steps are computed in float32, matrices of one shape together.

    torch computes them in bfloat16. A processor that has to imitate that takes ten times longer so than for all else.
    """

    within = torch.float32  # what the iteration is computed in

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
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])  # pyright: ignore[reportPrivateImportUsage]
                torch._foreach_add_(parameters, [*moves.unbind()], alpha=-rate)  # pyright: ignore[reportPrivateImportUsage]

    def _averaged(self, parameters: list[Tensor], momentum: float) -> list[Tensor]:
        """Take in gradients; return the averages with Nesterov's look ahead."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        states = [self.state[parameter] for parameter in parameters]
        for state, gradient in zip(states, gradients, strict=True):
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradient)
        averages = [state["momentum_buffer"] for state in states]
        torch._foreach_lerp_(averages, gradients, 1 - momentum)  # pyright: ignore[reportPrivateImportUsage]
        return [*torch._foreach_lerp(gradients, averages, momentum)]  # pyright: ignore[reportPrivateImportUsage]


class GpuMuon(Float32Muon):
    """Muon as torch computes it, in bfloat16, but matrices of one shape together: a GPU waits for each call."""

    within = torch.bfloat16


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
        self.orthogonal = {id(p) for group in muon.param_groups for p in group["params"]}

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Let both take a step."""
        for part in self.parts:
            part.step()


def optimiser_of(settings: OptimiserConfig, model: Performer) -> Optimizer:
    """Return what moves a model's parameters; weights decay in matrices alone."""
    return {"adam": _adam, "muon": _muon_and_adam}[settings.method](settings, model)


def _muon_and_adam(settings: OptimiserConfig, model: Performer) -> MuonAndAdam:
    """Return Muon for the matrices of layers, and Adam for the rest."""
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    kind = Muon if multiplies_bfloat16() else Float32Muon
    muon = (GpuMuon if matrices[0].is_cuda else kind)(
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
