"""The common base of both stochastic positional encodings (SPE; Liutkus et al., 2021): scale, gate, and data flow.

A code q̄, k̄ of R realisations, whose products q̄_{d,m}·k̄_{d,n} realise a template P_d(m − n), is contracted with queries
and keys: q̂_{m,r} = Σ_d q_{m,d} q̄_{d,m,r} (equations 16, 17). A gate δ per feature mixes in noise ε that does not depend
on the position: √(1 − δ) q̄ + √δ ε (equations 24, 25). As the contraction is linear, a layer's gate scales its q and k,
so that all layers can share one code.

As a tensor, a code has N·H·D·R elements. For a window of positions, sine SPE therefore contracts without forming it,
and convolutional SPE forms one for all layers. The kernel forms the code of each place when it comes to it.

H heads, D head width, R realisations, S slots: 1, or one per layer if layers do not share a code.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from musicgen.parts import Shape, SpeConfig
from musicgen.position.base import Position

Contraction = Callable[..., tuple[Tensor, Tensor]]
"""(q, k, gains) → q̂, k̂: contract queries and keys, (B, T, H, D) each, times the gains, (H, D), if given, with the code
of a window, in whatever form is cheapest: (B, T, H, R) each."""


@dataclass(frozen=True, kw_only=True)
class SpeCode:
    """The noise of a sequence and the code prepared from it, valid for the parameters it was covered with."""

    noise: tuple[Any, ...]  # one per slot
    gate_noise: Tensor | None  # ε, (S, H, D, R)
    mix: tuple[Tensor, ...] = ()  # √(1 − δ) and √δ, (H, 2, D), one per layer
    start: int = 0
    contraction: Contraction | None = None  # of all layers; None if each forms its own
    times: Tensor | None = None  # of the window, in musical time, (2, B, T)


class LayerCode(NamedTuple):
    """A covered code with the slot and the gate of one layer."""

    whole: SpeCode
    slot: int
    mix: Tensor | None  # (H, 2, D)


class StochasticPosition(Position):
    """Contracts queries and keys with a gated code; subclasses draw the noise and form the code."""

    def __init__(self, config: SpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        self.realisations = config.realisations  # can be changed after training
        self.slots = 1 if config.shared else shape.layers
        if config.gated:
            self.gates = nn.Parameter(torch.randn(shape.layers, shape.heads, shape.head_width))

    @abstractmethod
    def draw(self, generator: Generator) -> Any:
        """Draw the noise of one slot."""

    @abstractmethod
    def contraction(
        self, noise: Any, slot: int, start: int, stop: int, times: Tensor | None
    ) -> Contraction:
        """Return the contraction with the code of a window; gradients reach the parameters through it."""

    @property
    def qk_width(self) -> int:
        """The number of realisations, which replaces the head width."""
        return self.realisations

    @property
    def scale(self) -> float:
        """The factor (DR)^-¼ of both q̄ and k̄."""
        return (self.shape.head_width * self.realisations) ** -0.25

    def begin(self, generator: Generator) -> SpeCode:
        """Draw the noise of a sequence and its ε, which is the same for queries, keys and all positions."""
        noise = tuple(self.draw(generator) for _ in range(self.slots))
        if not self.config.gated:
            return SpeCode(noise=noise, gate_noise=None)
        size = (self.slots, self.shape.heads, self.shape.head_width, self.realisations)
        drawn = torch.randn(size, generator=generator, device=generator.device)
        return SpeCode(noise=noise, gate_noise=moved(drawn, self.gates) * self.scale)

    def cover(self, code: SpeCode, start: int, stop: int, times: Tensor | None = None) -> SpeCode:
        """Prepare the code of these positions."""
        times = times if self.musical else None
        code = replace(code, mix=self._mix(), start=start, times=times)
        contraction = None
        if self.config.shared:  # else each layer forms its own: all at once would not fit in memory
            contraction = self.contraction(code.noise[0], 0, start, stop, times)
        return replace(code, contraction=contraction)

    def of_layer(self, code: SpeCode, layer: int) -> LayerCode:
        """Return the code with the layer's slot and gate."""
        slot = 0 if self.config.shared else layer
        return LayerCode(code, slot, code.mix[layer] if code.mix else None)

    def qk(self, q: Tensor, k: Tensor, code: LayerCode) -> tuple[Tensor, Tensor]:
        """Contract with the layer's gated code: (B, T, H, D) → (B, T, H, R)."""
        whole, slot, mix = code
        contraction = whole.contraction
        if contraction is None:
            stop = whole.start + q.shape[1]
            contraction = self.contraction(whole.noise[slot], slot, whole.start, stop, whole.times)
        if whole.gate_noise is None or mix is None:
            return contraction(q, k)
        code_gain, noise_gain = mix.unbind(1)  # (H, D) each
        encoded_q, encoded_k = contraction(q, k, code_gain)
        noise = whole.gate_noise[slot].to(encoded_q.dtype)
        gate_q, gate_k = (
            torch.einsum("bthd,hdr->bthr", (x * noise_gain).to(noise.dtype), noise) for x in (q, k)
        )
        return encoded_q + gate_q, encoded_k + gate_k

    def _mix(self) -> tuple[Tensor, ...]:
        """Return √(1 − δ) and √δ per layer, by logarithms, so that the gradient of a saturated gate is 0, not NaN."""
        if not self.config.gated:
            return ()
        logarithms = torch.stack([F.logsigmoid(-self.gates), F.logsigmoid(self.gates)], 2)
        return torch.exp(logarithms / 2).unbind()


def contract(x: Tensor, code: Tensor) -> Tensor:
    """Sum over the features: (B, T, H, D), (T, H, D, R) → (B, T, H, R)."""
    return (x.to(code.dtype).permute(1, 2, 0, 3) @ code).permute(2, 0, 1, 3)


def moved(drawn: Tensor, like: Tensor) -> Tensor:
    """Move a draw to the type and device of a parameter, to a GPU without waiting for it."""
    return (drawn.pin_memory() if like.is_cuda else drawn).to(like, non_blocking=like.is_cuda)


def working_dtype(parameter: Tensor) -> torch.dtype:
    """Return the type of products: that of autocast if it is on, or else of the parameter."""
    device = parameter.device.type
    enabled = torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if enabled else parameter.dtype
