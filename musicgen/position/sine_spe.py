"""sineSPE (Liutkus et al., 2021, equations 18–21): templates that are sums of sinusoids.

P_d(m − n) = Σ_k λ_k² cos(2πf_k(m − n) + θ_k) is realised by q̄ = Ω(f, θ) λZ and k̄ = Ω(f, 0) λZ
with the same Gaussian Z. The offset θ turns cosine into sine, so it may turn Z instead of Ω: over a
whole sequence it does, and queries and keys have their waves in common.

S slots, H heads, D head width, K sines, W = 2K waves, R realisations, T time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from musicgen.position.base import Shape
from musicgen.position.phase import exact, phases, waves
from musicgen.position.spe import SpeConfig, StochasticPosition, working_dtype
from musicgen.position.wave_product import wave_product

AHEAD = 8  # positions made in one go for generation: so few are no hitch among the tokens


@dataclass(frozen=True, kw_only=True)
class SineSpeConfig(SpeConfig):
    """The paper's music models: 64 realisations, 5 sines (pop piano) or 8 (groove), gated."""

    sines: int = 5  # K

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sines < 1:
            raise ValueError(f"sines is {self.sines}; it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class SinePlacement:
    """The waves of a window and the weights of either side."""

    frequencies: Tensor  # (H, K, D)
    waves: Tensor  # (H, T, W, D)
    weights: tuple[Tensor, Tensor]  # queries' and keys', (H, W, D, R) each
    ones: Tensor  # (H, D), the gains where none are given
    start: int

    def __call__(
        self, q: Tensor, k: Tensor, first: int, gains: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Contract with the code: (B, T, H, D) each → (B, T, H, R) each."""
        rows = self.waves[:, first : first + q.shape[1]]
        gains = self.ones if gains is None else gains.to(rows.dtype)
        placed = [
            wave_product(x, gains, self.frequencies, weights, rows, self.start + first)
            for x, weights in zip((q, k), self.weights, strict=True)
        ]
        return placed[0], placed[1]


class SineSpe(StochasticPosition):
    """Sinusoids of learned frequency, offset and gain, for each head and feature."""

    def __init__(self, config: SineSpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        self.ahead = AHEAD
        size = (self.slots, shape.heads, shape.head_width, config.sines)
        # As the authors: low frequencies at first, for long memory, and gains of similar strength.
        self.raw_frequencies = nn.Parameter(torch.randn(size) - 4)
        self.offsets = nn.Parameter(torch.randn(size))
        gains = torch.randn(size)
        self.raw_gains = nn.Parameter(2 * gains / gains.norm(dim=-1, keepdim=True).sqrt())

    @property
    def frequencies(self) -> Tensor:
        """Cycles a token in [0, ½], (S, H, D, K), in float64."""
        return torch.sigmoid(exact(self.raw_frequencies)) / 2

    @property
    def gains(self) -> Tensor:
        """λ > 0, (S, H, D, K)."""
        return F.softplus(self.raw_gains)

    @property
    def _amplitude(self) -> float:
        return self.scale / math.sqrt(2 * self.config.sines)

    def draw(self, generator: Generator) -> Tensor:
        """Draw Z, (H, D, W, R), a cosine's and a sine's row for each k in turn."""
        _, heads, width, sines = self.raw_gains.shape
        size = (heads, width, 2 * sines, self.realisations)
        drawn = torch.randn(size, generator=generator, device=generator.device)
        return drawn.to(self.raw_gains)

    def long(self, noise: Tensor, slot: int, start: int, stop: int) -> SinePlacement:
        """Make waves and weights; the code itself is never formed."""
        dtype = working_dtype(self.raw_gains)
        frequencies = self.frequencies[slot].transpose(1, 2)  # (H, K, D)
        with torch.no_grad():
            both = torch.cat(waves(frequencies, start, stop, self.raw_gains), 2)  # (T, H, W, D)
            both = both.transpose(0, 1).to(dtype).contiguous()
        q, k = (x.transpose(1, 2).to(dtype).contiguous() for x in self._weights(noise, slot))
        ones = both.new_ones(both.shape[0], both.shape[-1])
        return SinePlacement(
            frequencies=frequencies, waves=both, weights=(q, k), ones=ones, start=start
        )

    def materialise(self, noise: Tensor, slot: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return q̄ and k̄ of a few positions, (T, H, D, R) each."""
        angles = phases(self.frequencies[slot], start, stop, self.raw_gains)  # (T, H, D, K)
        angles = torch.stack([angles + self.offsets[slot], angles], 1)  # (T, 2, H, D, K)
        gains = self.gains[slot].unsqueeze(-1) * self._amplitude
        both = (torch.stack([angles.cos(), angles.sin()], -1) * gains).flatten(-2)  # Ω(f, ·) λ
        code = torch.einsum("tshdw,hdwr->tshdr", both, noise.to(both.dtype))
        q, k = code.to(self.raw_gains.dtype).unbind(1)
        return q, k

    def template(self, lags: Tensor, layer: int = 0) -> Tensor:
        """Return what the layer realises at lags m − n, (N,) → (H, D, N): δ + (1 − δ) P_d / 2K."""
        slot = 0 if self.config.shared else layer
        template = sine_template(
            self.frequencies[slot].to(self.gains), self.offsets[slot], self.gains[slot], lags
        )
        return self.gate_template(template / (2 * self.config.sines), layer)

    def _weights(self, noise: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        sides = sine_weights(self.offsets[slot], self.gains[slot], noise)
        return sides[0] * self._amplitude, sides[1] * self._amplitude


def sine_weights(offsets: Tensor, gains: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return λZ turned by the offsets, for queries, and λZ, for keys.

    Offsets and gains (H, D, K), noise (H, D, 2K, R) → (H, D, 2K, R) each, cosines' rows first.
    """
    first, second = (noise[..., i::2, :] * gains.unsqueeze(-1) for i in (0, 1))  # (H, D, K, R)
    cosine, sine = offsets.cos().unsqueeze(-1), offsets.sin().unsqueeze(-1)
    turned = [first * cosine + second * sine, second * cosine - first * sine]
    return torch.cat(turned, 2), torch.cat([first, second], 2)


def sine_template(frequencies: Tensor, offsets: Tensor, gains: Tensor, lags: Tensor) -> Tensor:
    """Return P_d at the lags by equation 18: (..., K) each and (N,) → (..., N)."""
    angles = 2 * math.pi * frequencies.unsqueeze(-1) * lags + offsets.unsqueeze(-1)  # (..., K, N)
    return (gains.square().unsqueeze(-1) * angles.cos()).sum(-2)
