"""sineSPE (Liutkus et al., 2021, equations 18–21): templates that are sums of sinusoids.

P_d(m − n) = Σ_k λ_k² cos(2πf_k(m − n) + θ_k) is realised by q̄ = Ω(f, θ) λZ and k̄ = Ω(f, 0) λZ with the same Gaussian
Z. The offset θ rotates each pair of cosine and sine, so that it can be applied to Z instead of Ω. This is done over
whole sequences, where queries and keys then share their waves.

In musical time (`time: music`) m and n are times, which differ by row of a batch and between queries and keys. The
frequencies are initialised with harmonics of bars (position/base.py), and the offsets with 0.

The products z·z′ of independent rows of Z and ε vanish only on average. With `orthogonal`, rows are drawn orthogonal to
each other, R at a time: the estimate stays unbiased, and has no such error if D · (2K + 1) rows, or 2KD ungated, are at
most R.

B batch, S slots, H heads, D head width, K sines, W = 2K waves (K cosines, K sines), R realisations, T time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.autograd import Function

from musicgen.features import orthogonal_matrices
from musicgen.parts import Shape, SineSpeConfig
from musicgen.position.base import MusicalFrequencies, as_float64, waves
from musicgen.position.spe.base import (
    SpeCode,
    StochasticPosition,
    moved,
    working_dtype,
)

# The product at the core of sineSPE, with gradients: queries times waves times weights.
#
# For each head, y_{t,r} = Σ_{w,d} x_{t,d} g_d Ω_{t,w,d} Z_{w,d,r} is a product (T × 2KD)·(2KD × R), computed in blocks
# of positions that fit the cache. Neither direction stores x·g·Ω, which is 2K times as large as x: the backward pass
# forms it again, and reduces the gradient of the waves Ω to that of their K·D frequencies at once.

# Elements of x·Ω in a block. On a CPU they should stay in its cache; a GPU wants few launches.
_BLOCK = {"cpu": 1 << 19}
_BLOCK_ELSEWHERE = 1 << 28


class _WaveProduct(Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, gains: Tensor, frequencies: Tensor, weights: Tensor, waves: Tensor, places: Tensor,
    ) -> Tensor:  # fmt: skip
        """Compute the product; here the gains are (H, 1, 1, D)."""
        ctx.save_for_backward(x, gains, frequencies, weights, waves, places)
        flat = weights.flatten(1, 2)  # (H, WD, R)
        y = waves.new_empty(*x.shape[:3], flat.shape[2])
        for block in _blocks(x, waves):
            by_head = _by_head(x[:, block], waves) * gains
            modulated = by_head.unsqueeze(3) * waves[:, None, block]
            product = torch.bmm(modulated.flatten(3).flatten(1, 2), flat)  # (H, BT, R)
            y[:, block] = product.unflatten(1, (len(x), -1)).permute(1, 2, 0, 3)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, gains, frequencies, weights, waves, places = ctx.saved_tensors
        flat = weights.flatten(1, 2)
        dx = torch.empty_like(x)
        sums = torch.promote_types(waves.dtype, torch.float32)
        d_weights = torch.zeros_like(flat, dtype=sums)
        d_gains = torch.zeros_like(gains, dtype=sums)
        d_frequencies = torch.zeros_like(frequencies, device=waves.device, dtype=sums)
        for block in _blocks(x, waves):
            rows = waves[:, None, block]  # (H, 1, T, W, D)
            plain = _by_head(x[:, block], waves)  # (H, B, T, D)
            by_head = plain * gains
            dy = _by_head(gradients[0][:, block], waves).flatten(1, 2)  # (H, BT, R)
            modulated = (by_head.unsqueeze(3) * rows).flatten(3).flatten(1, 2)  # (H, BT, WD)
            d_weights += torch.bmm(modulated.transpose(1, 2), dy)
            d_modulated = torch.bmm(dy, flat.transpose(1, 2)).view(
                *by_head.shape[:3], *rows.shape[3:]
            )
            d_by_head = (d_modulated * rows).sum(3)  # (H, B, T, D)
            d_gains += (d_by_head * plain).sum((1, 2), keepdim=True, dtype=sums)
            dx[:, block] = (d_by_head * gains).permute(1, 2, 0, 3)
            if ctx.needs_input_grad[2]:
                d_frequencies += _frequency_gradient(d_modulated, rows, by_head, places[block])
        d_frequencies = (2 * math.pi * d_frequencies).to(frequencies)
        d_weights = d_weights.view_as(weights).to(weights.dtype)
        return dx, d_gains.to(gains.dtype), d_frequencies, d_weights, None, None


def wave_product(
    x: Tensor, gains: Tensor, frequencies: Tensor, weights: Tensor, waves: Tensor, places: Tensor
) -> Tensor:
    """Return y, (B, T, H, R), from x (B, T, H, D), gains g (H, D), weights Z (H, W, D, R) and waves Ω (H, T, W, D).

    Weights and waves are contiguous, and their type is that of the products. `waves` are the cosines and sines of
    2π · frequencies (H, K, D) · places (T,); gradients reach the frequencies, not the waves.
    """
    with torch.autocast(x.device.type, enabled=False):
        return _WaveProduct.apply(  # pyright: ignore[reportReturnType]
            x, gains[:, None, None], frequencies, weights, waves, places
        )


def _blocks(x: Tensor, waves: Tensor) -> Iterator[slice]:
    length = waves.shape[1]
    per_position = len(x) * waves.numel() // length
    size = max(1, _BLOCK.get(x.device.type, _BLOCK_ELSEWHERE) // per_position)
    for first in range(0, length, size):
        yield slice(first, min(first + size, length))


def _by_head(x: Tensor, like: Tensor) -> Tensor:
    """Move the heads to the front, (B, T, H, ·) → (H, B, T, ·), in the type of products."""
    return x.to(like.dtype).permute(2, 0, 1, 3).contiguous()


def _frequency_gradient(d_modulated: Tensor, waves: Tensor, x: Tensor, places: Tensor) -> Tensor:
    """Return the gradient of the frequencies divided by 2π, (H, K, D), from that of x·Ω, (H, B, T, W, D)."""
    cosine, sine = waves.chunk(2, 3)
    d_cosine, d_sine = d_modulated.chunk(2, 3)
    d_phase = (d_sine * cosine).addcmul_(d_cosine, sine, value=-1)  # (H, B, T, K, D)
    sums = torch.promote_types(x.dtype, torch.float32)
    return (d_phase * (x.to(sums) * places.unsqueeze(-1)).unsqueeze(3)).sum((1, 2))


@dataclass(frozen=True, kw_only=True)
class SineContraction:
    """The code of a window as waves and weights; pairs are those of queries and of keys."""

    frequencies: Tensor  # (H, K, D)
    waves: tuple[Tensor, Tensor]  # (H, T, W, D) each; in musical time (H, B, T, W, D)
    weights: tuple[Tensor, Tensor]  # (H, W, D, R) each
    places: tuple[Tensor, Tensor]  # (T,) each; in musical time (B, T)
    ones: Tensor  # (H, D), the default gains

    def __call__(self, q: Tensor, k: Tensor, gains: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Contract queries and keys with the code: (B, T, H, D) each → (B, T, H, R) each."""
        gains = self.ones if gains is None else gains.to(self.ones.dtype)
        return self._side(0, q, gains), self._side(1, k, gains)

    def _side(self, side: int, x: Tensor, gains: Tensor) -> Tensor:
        waves, weights, places = self.waves[side], self.weights[side], self.places[side]
        if places.ndim == 1:
            return wave_product(x, gains, self.frequencies, weights, waves, places)
        # Rows have times of their own, so they are concatenated to one sequence.
        flat, waves = x.flatten(0, 1).unsqueeze(0), waves.flatten(1, 2)
        y = wave_product(flat, gains, self.frequencies, weights, waves, places.flatten())
        return y.view(*x.shape[:3], -1)


class SineSpe(StochasticPosition):
    """Sine SPE with learned frequencies, offsets and gains for each head and feature."""

    def __init__(self, config: SineSpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        size = (self.slots, shape.heads, shape.head_width, config.sines)
        if self.musical:
            slots, _, *waves_of_a_head = size
            self.learned = MusicalFrequencies(shape, *waves_of_a_head, slots=(slots,))
            self.offsets = nn.Parameter(torch.zeros(size))
        else:
            # As in the authors' code: low initial frequencies, for long range.
            self.raw_frequencies = nn.Parameter(torch.randn(size) - 4)
            self.offsets = nn.Parameter(torch.randn(size))
        # As in the authors' code: initial gains of similar strength.
        gains = torch.randn(size)
        self.raw_gains = nn.Parameter(2 * gains / gains.norm(dim=-1, keepdim=True).sqrt())

    @property
    def frequencies(self) -> Tensor:
        """f, in cycles per token in [0, ½], or in cycles per tick: (S, H, D, K), float64."""
        if self.musical:
            return self.learned()
        return torch.sigmoid(as_float64(self.raw_frequencies)) / 2

    @property
    def gains(self) -> Tensor:
        """λ > 0, (S, H, D, K)."""
        return F.softplus(self.raw_gains)

    @property
    def amplitude(self) -> float:
        """The factor of both q̄ and k̄ besides the gains."""
        return self.scale / math.sqrt(2 * self.config.sines)

    def begin(self, generator: Generator) -> SpeCode:
        """Draw the noise of a sequence and its ε, which are orthogonal to each other if `orthogonal` is set."""
        if not self.config.orthogonal:
            return super().begin(generator)
        _, heads, width, sines = self.raw_gains.shape
        counts = [2 * sines, 1 if self.config.gated else 0]
        drawn = [
            moved(
                orthogonal_rows(heads, width * sum(counts), self.realisations, generator),
                self.raw_gains,
            )
            .unflatten(1, (width, -1))
            .split(counts, 2)
            for _ in range(self.slots)
        ]  # (H, D, 2K, R) and (H, D, 1 or 0, R) per slot
        gate = torch.stack([rows[1][:, :, 0] for rows in drawn]) if self.config.gated else None
        return SpeCode(
            noise=tuple(rows[0].contiguous() for rows in drawn),
            gate_noise=None if gate is None else gate * self.scale,
        )

    def draw(self, generator: Generator) -> Tensor:
        """Draw Z, (H, D, W, R), with alternating rows of cosines and sines."""
        _, heads, width, sines = self.raw_gains.shape
        size = (heads, width, 2 * sines, self.realisations)
        return moved(
            torch.randn(size, generator=generator, device=generator.device), self.raw_gains
        )

    def contraction(
        self, noise: Tensor, slot: int, start: int, stop: int, times: Tensor | None
    ) -> SineContraction:
        """Return waves and weights, without forming the code itself."""
        dtype, places = working_dtype(self.raw_gains), self.places(start, stop, times)
        places = places.to(self.raw_gains.device)
        frequencies = self.frequencies[slot].transpose(1, 2)  # (H, K, D)
        with torch.no_grad():
            # Many tokens share a time, so its waves are computed once.
            own, index = (places, None) if times is None else places.unique(return_inverse=True)
            both = torch.cat(waves(frequencies, own, self.raw_gains), -2).to(dtype)  # (*, H, W, D)
            both = both if index is None else both[index]
            both = both.movedim(-3, -both.ndim if times is None else 1).contiguous()
        q, k = (x.transpose(1, 2).to(dtype).contiguous() for x in self._weights(noise, slot))
        return SineContraction(
            frequencies=frequencies,
            waves=(both, both) if times is None else (both[0], both[1]),
            weights=(q, k),
            places=(places, places) if times is None else (places[0], places[1]),
            ones=both.new_ones(q.shape[0], q.shape[2]),
        )

    def _weights(self, noise: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        """Return λZ rotated by the offsets, for queries, and λZ, for keys: (H, D, 2K, R) each, cosines first."""
        gains, offsets = self.gains[slot].unsqueeze(-1), self.offsets[slot].unsqueeze(-1)
        first, second = (noise[..., i::2, :] * gains for i in (0, 1))  # (H, D, K, R)
        cosine, sine = offsets.cos(), offsets.sin()
        rotated = [first * cosine + second * sine, second * cosine - first * sine]
        sides = torch.cat(rotated, 2), torch.cat([first, second], 2)
        return sides[0] * self.amplitude, sides[1] * self.amplitude


def orthogonal_rows(heads: int, rows: int, width: int, generator: Generator) -> Tensor:
    """Draw rows of length √R that are orthogonal within blocks of R: (H, rows, R)."""
    blocks = -(-rows // width)
    directions = orthogonal_matrices(heads * blocks, width, generator)
    return directions.reshape(heads, -1, width)[:, :rows] * math.sqrt(width)
