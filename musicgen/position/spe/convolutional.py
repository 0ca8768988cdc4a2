"""convSPE (Liutkus et al., 2021, equation 22): templates that vanish beyond the length of the filters.

P_d(m − n) is the correlation of two learned filters of P taps, realised by filtering the same white noise with both.
q̄[n] = Σ_p filter_q[p] noise[n + p] uses noise from its position onwards, so that the code is stationary from the start.

B batch, S slots, H heads, D head width, P taps, R realisations, T time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.autograd import Function

from musicgen.position.base import Shape
from musicgen.position.spe.base import SpeConfig, StochasticPosition, contract, working_dtype
from tokenization.records import check_fields

BLOCK = 64  # positions per seeded block of noise


class WhiteNoise:
    """Standard normal noise for all positions n ≥ 0, drawn in blocks seeded by (seed, block).

    The blocks of the latest window are cached, for a window within it, as in the backward pass, or the next one.
    """

    def __init__(self, seed: int, shape: Sequence[int], like: Tensor) -> None:
        self.seed = seed
        self.shape = tuple(shape)  # (..., R)
        self.device = like.device
        self.dtype = torch.promote_types(like.dtype, torch.float32)
        self._first = 0  # number of the first cached block
        self._kept = self._empty(0)  # (..., blocks · BLOCK, R)

    def window(self, start: int, stop: int) -> Tensor:
        """Return the noise of positions start … stop − 1: (..., stop − start, R)."""
        first, last = start // BLOCK, (stop - 1) // BLOCK + 1
        if first < self._first or last > self._first + self._kept.shape[-2] // BLOCK:
            self._keep(first, last)
        return self._kept.narrow(-2, start - self._first * BLOCK, stop - start)

    def forget(self) -> None:
        """Empty the cache."""
        self._first, self._kept = 0, self._empty(0)

    def _keep(self, first: int, last: int) -> None:
        """Cache exactly the blocks first … last − 1."""
        old, old_first = self._kept, self._first
        kept = self._empty(last - first)
        for block in range(first, last):
            place = (block - old_first) * BLOCK
            known = 0 <= place < old.shape[-2]
            drawn = old.narrow(-2, place, BLOCK) if known else self._draw(block)
            kept.narrow(-2, (block - first) * BLOCK, BLOCK).copy_(drawn)
        self._first, self._kept = first, kept

    def _empty(self, blocks: int) -> Tensor:
        size = (*self.shape[:-1], blocks * BLOCK, self.shape[-1])
        return torch.empty(size, device=self.device, dtype=self.dtype)

    def _draw(self, block: int) -> Tensor:
        generator = Generator(self.device).manual_seed(_mixed(self.seed, block))
        size = (*self.shape[:-1], BLOCK, self.shape[-1])
        return torch.randn(size, generator=generator, device=self.device)  # the same for any dtype


def _mixed(seed: int, block: int) -> int:
    """Hash seed and block to a seed (SplitMix64), since generators of neighbouring seeds can be correlated."""
    mask = (1 << 64) - 1
    x = (seed + (block + 1) * 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) >> 1  # a generator takes seeds below 2⁶³


# The code of convSPE: filtered white noise, contracted with queries and keys.
#
# q̄[n] = Σ_p filter_q[p] · noise[n + p], likewise k̄ (equation 22), is computed as products of banded Toeplitz matrices
# with blocks of noise, which is faster than Fourier transforms of many short rows.
#
# The code of a window is formed once and read by all layers. Its gradient is never formed: it is a sum over layers of
# outer products x ⊗ dy, so the layers only store x and dy. At the end of the backward pass, or when these take more
# memory than the code, they are multiplied block by block straight into the gradient of the filters.
#
# A leading dimension of 2 is queries and keys.


def toeplitz(filters: Tensor, rows: int) -> Tensor:
    """Return banded Toeplitz matrices with the taps from the diagonal on: (..., P) → (..., rows, rows + P − 1)."""
    taps = filters.shape[-1]
    columns = rows + taps - 1
    flat = filters.new_zeros(*filters.shape[:-1], rows * columns)
    flat.unfold(-1, taps, columns + 1).copy_(filters.unsqueeze(-2))  # each row shifted by a column
    return flat.unflatten(-1, (rows, columns))


def toeplitz_transposed(matrices: Tensor, taps: int) -> Tensor:
    """Return the sums along the diagonals, the adjoint of `toeplitz`: (..., rows, columns) → (..., P)."""
    return matrices.flatten(-2).unfold(-1, taps, matrices.shape[-1] + 1).sum(-2)


def filtered(
    filters: Tensor, noise: WhiteNoise, start: int, stop: int, dtype: torch.dtype
) -> Tensor:
    """Return the codes of a window, (2, H, D, P) → (2, T, H, D, R), without gradients."""
    taps = filters.shape[-1]
    with torch.no_grad(), torch.autocast(filters.device.type, enabled=False):
        noise.window(start, stop + taps - 1)  # at once, so that all of it is cached
        by_channel = filters.movedim(0, 2).flatten(0, 1).to(noise.dtype)  # (HD, 2, P)
        matrices = toeplitz(by_channel, min(BLOCK, stop - start))  # (HD, 2, rows, columns)
        code = filters.new_empty((2, stop - start, *noise.shape), dtype=dtype)
        for first in range(start, stop, BLOCK):
            rows = min(BLOCK, stop - first)
            columns = rows + taps - 1
            window = noise.window(first, first + columns).flatten(0, 1)  # (HD, columns, R)
            block = torch.bmm(matrices[:, :, :rows, :columns].flatten(1, 2), window)
            block = block.unflatten(0, noise.shape[:2]).unflatten(2, (2, rows))  # (H, D, 2, ·, R)
            code[:, first - start : first - start + rows] = block.permute(2, 3, 0, 1, 4)
    return code


class _Gradient:
    """The gradient of the filters, accumulated from what the layers store."""

    def __init__(self, noise: WhiteNoise, start: int, stop: int, taps: int) -> None:
        self.noise, self.start, self.length, self.taps = noise, start, stop - start, taps
        self.limit = 2 * self.length * math.prod(noise.shape)  # the size of the code
        self.pairs: tuple[list[tuple[Tensor, Tensor]], ...] = ([], [])
        self.size = 0
        self.matrices: Tensor | None = None  # of the Toeplitz matrices, (HD, 2, rows, columns)

    def store(self, side: int, first: int, x: Tensor, dy: Tensor) -> None:
        """Store x (B, T, H, D) and dy (B, T, H, R) of one contraction."""
        padding = (0, 0, 0, 0, first, self.length - first - x.shape[1])
        pair = (_pad(x.detach(), padding), _pad(dy.detach(), padding))
        self.pairs[side].append(pair)
        self.size += pair[0].numel() + pair[1].numel()
        if self.size >= self.limit:
            self._multiply()

    def collect(self) -> Tensor:
        """Return the gradient of the filters, (2, H, D, P), and reset it."""
        self._multiply()
        assert self.matrices is not None
        by_channel = toeplitz_transposed(self.matrices, self.taps)  # (HD, 2, P)
        self.matrices = None
        return by_channel.unflatten(0, self.noise.shape[:2]).movedim(2, 0)

    def _multiply(self) -> None:
        rows = min(BLOCK, self.length)
        if self.matrices is None:
            size = (math.prod(self.noise.shape[:2]), 2, rows, rows + self.taps - 1)
            self.matrices = torch.zeros(size, dtype=self.noise.dtype, device=self.noise.device)
        for first in range(0, self.length, rows):
            self._multiply_block(self.matrices, first, min(first + rows, self.length))
        self.pairs, self.size = ([], []), 0

    def _multiply_block(self, matrices: Tensor, first: int, last: int) -> None:
        rows = last - first
        columns = rows + self.taps - 1
        window = self.noise.window(self.start + first, self.start + first + columns)
        d_code = matrices.new_zeros(*self.noise.shape[:2], 2, rows, self.noise.shape[2])
        for side, pairs in enumerate(self.pairs):
            if pairs:
                x, dy = (torch.cat([pair[i][:, first:last] for pair in pairs]) for i in (0, 1))
                x, dy = x.to(matrices.dtype), dy.to(matrices.dtype)
                d_code[:, :, side] = torch.einsum("bthd,bthr->hdtr", x, dy)
        product = (d_code.flatten(0, 1).flatten(1, 2), window.flatten(0, 1).transpose(1, 2))
        if rows == matrices.shape[2]:
            matrices.flatten(1, 2).baddbmm_(*product)
        else:
            matrices[:, :, :rows, :columns] += torch.bmm(*product).unflatten(1, (2, rows))


class _Anchor(Function):
    """Connects the filters to the contractions of all layers: its backward pass runs after all of theirs."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, filters: Tensor, gradient: _Gradient
    ) -> Tensor:
        ctx.gradient, ctx.dtype = gradient, filters.dtype
        return filters.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        with torch.autocast(ctx.gradient.noise.device.type, enabled=False):
            return ctx.gradient.collect().to(ctx.dtype), None


class _Contract(Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, anchor: Tensor, code: Tensor, store: Any
    ) -> Tensor:
        ctx.save_for_backward(x, code)
        ctx.store = store
        return contract(x, code)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, code = ctx.saved_tensors
        dy = gradients[0].to(code.dtype)
        if ctx.needs_input_grad[1]:
            ctx.store(x, dy)
        with torch.autocast(x.device.type, enabled=False):
            dx = torch.einsum("bthr,thdr->bthd", dy, code).to(x.dtype)
        return dx, dy.new_zeros(()), None, None


class FilteredContraction:
    """The codes of a window, (2, T, H, D, R), whose gradient reaches the filters, (2, H, D, P).

    A plain class, since torch.compile cannot trace the construction of a frozen dataclass here.
    """

    def __init__(
        self, filters: Tensor, noise: WhiteNoise, start: int, stop: int, dtype: torch.dtype
    ) -> None:
        self.gradient = _Gradient(noise, start, stop, filters.shape[-1])
        self.code = filtered(filters, noise, start, stop, dtype)
        self.anchor: Any = _Anchor.apply(filters, self.gradient)

    def __call__(
        self, q: Tensor, k: Tensor, first: int, gains: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Contract queries and keys with the code: (B, T, H, D) each → (B, T, H, R) each."""
        if gains is not None:
            q, k = q * gains, k * gains
        return self._side(0, q, first), self._side(1, k, first)

    def _side(self, side: int, x: Tensor, first: int) -> Tensor:
        store = partial(self.gradient.store, side, first)
        rows = self.code[side, first : first + x.shape[1]]
        with torch.autocast(x.device.type, enabled=False):
            return _Contract.apply(x, self.anchor, rows, store)  # pyright: ignore[reportReturnType]


def _pad(x: Tensor, padding: tuple[int, ...]) -> Tensor:
    return torch.nn.functional.pad(x, padding) if any(padding) else x


@dataclass(frozen=True, kw_only=True)
class ConvSpeConfig(SpeConfig):
    """The paper's music models have 64 realisations, and 128 taps if gated, else 512."""

    taps: int = 128  # P

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "taps")


class ConvSpe(StochasticPosition):
    """Convolutional SPE with two learned filters for each head and feature."""

    def __init__(self, config: ConvSpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        size = (self.slots, 2, shape.heads, shape.head_width, config.taps)
        self.filters = nn.Parameter(torch.rand(size) / (config.taps / 2) ** 0.5)

    def draw(self, generator: Generator) -> WhiteNoise:
        """Draw the seed of the noise; a generator on the CPU avoids a wait for the GPU."""
        seed = torch.randint(2**62, (), generator=generator, device=generator.device)
        size = (self.shape.heads, self.shape.head_width, self.realisations)
        return WhiteNoise(int(seed), size, like=self.filters)

    def long(
        self, noise: WhiteNoise, slot: int, start: int, stop: int, times: Tensor | None
    ) -> FilteredContraction:
        """Return the code of a whole window."""
        filters = self.filters[slot] * self.scale
        contraction = FilteredContraction(filters, noise, start, stop, working_dtype(self.filters))
        if not self.config.shared:
            noise.forget()  # the windows of all layers would not fit in memory
        return contraction

    def materialise(
        self, noise: WhiteNoise, slot: int, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Return q̄ and k̄ of a few positions, (T, H, D, R) each."""
        filters = self.filters[slot] * self.scale
        q, k = filtered(filters, noise, start, stop, self.filters.dtype).unbind()
        return q, k

    def template(self, lags: Tensor, layer: int = 0) -> Tensor:
        """Return the template δ + (1 − δ) P_d that a layer realises at lags m − n: (N,) → (H, D, N)."""
        taps = self.config.taps
        of_queries, of_keys = torch.fft.rfft(
            self.filters[0 if self.config.shared else layer], 2 * taps
        )
        # Σ_p filter_q[p] filter_k[p + lag]: (H, D, 2P), negative lags last
        correlation = torch.fft.irfft(of_keys * of_queries.conj(), 2 * taps)
        template = correlation[..., lags % (2 * taps)] * (lags.abs() < taps)
        return self.gate_template(template, layer)
