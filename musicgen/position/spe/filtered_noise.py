"""The code of convSPE: white noise, filtered, and contracted with queries and keys.

q̄[n] = Σ_p filter_q[p] · noise[n + p], likewise k̄ (equation 22), as products of banded Toeplitz
matrices with blocks of noise: matrix products run at the machine's full speed, which Fourier
transforms of this many short rows do not.

The code of a window is formed once and read by all layers. Its gradient, as large and different in
every layer, is never formed: dL/dcode is a sum over layers of outer products x ⊗ dy, so the layers
only store x and dy. At the end of the backward pass (or when they outweigh the code) all are
multiplied out, block by block, straight into the filters' gradient.

B batch, T time, H heads, D head width, R realisations, P taps; a leading 2 is queries, keys.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from musicgen.position.spe.base import contract
from musicgen.position.spe.white_noise import BLOCK, WhiteNoise


def toeplitz(filters: Tensor, rows: int) -> Tensor:
    """Return matrices with the taps from the diagonal on: (..., P) → (..., rows, rows + P − 1)."""
    taps = filters.shape[-1]
    columns = rows + taps - 1
    flat = filters.new_zeros(*filters.shape[:-1], rows * columns)
    flat.unfold(-1, taps, columns + 1).copy_(filters.unsqueeze(-2))  # a row on is a column on
    return flat.unflatten(-1, (rows, columns))


def toeplitz_transposed(matrices: Tensor, taps: int) -> Tensor:
    """Sum along the diagonals, the adjoint of `toeplitz`: (..., rows, columns) → (..., P)."""
    return matrices.flatten(-2).unfold(-1, taps, matrices.shape[-1] + 1).sum(-2)


def filtered(
    filters: Tensor, noise: WhiteNoise, start: int, stop: int, dtype: torch.dtype
) -> Tensor:
    """Return the codes of a window, (2, H, D, P) → (2, T, H, D, R), without gradients."""
    taps = filters.shape[-1]
    with torch.no_grad(), torch.autocast(filters.device.type, enabled=False):
        noise.window(start, stop + taps - 1)  # all at once, so that all is kept
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
    """What the layers stored for the filters' gradient."""

    def __init__(self, noise: WhiteNoise, start: int, stop: int, taps: int) -> None:
        self.noise, self.start, self.length, self.taps = noise, start, stop - start, taps
        self.limit = 2 * self.length * math.prod(noise.shape)  # the size of the code
        self.left: tuple[list[tuple[Tensor, Tensor]], ...] = ([], [])
        self.size = 0
        self.matrices: Tensor | None = None  # (HD, 2, rows, columns), of dL/dToeplitz

    def leave(self, side: int, first: int, x: Tensor, dy: Tensor) -> None:
        """Take x (B, T, H, D) and dy (B, T, H, R) of one contraction."""
        around = (0, 0, 0, 0, first, self.length - first - x.shape[1])
        pair = (_pad(x.detach(), around), _pad(dy.detach(), around))
        self.left[side].append(pair)
        self.size += pair[0].numel() + pair[1].numel()
        if self.size >= self.limit:
            self._multiply()

    def collect(self) -> Tensor:
        """Return the gradient of the filters, (2, H, D, P), and forget everything."""
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
        self.left, self.size = ([], []), 0

    def _multiply_block(self, matrices: Tensor, first: int, last: int) -> None:
        rows = last - first
        columns = rows + self.taps - 1
        window = self.noise.window(self.start + first, self.start + first + columns)
        d_code = matrices.new_zeros(*self.noise.shape[:2], 2, rows, self.noise.shape[2])
        for side, pairs in enumerate(self.left):
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
    """Ties the filters to the layers' contractions: autograd comes back here after all of them."""

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
        ctx: Any, x: Tensor, anchor: Tensor, code: Tensor, leave: Any
    ) -> Tensor:
        ctx.save_for_backward(x, code)
        ctx.leave = leave
        return contract(x, code)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, code = ctx.saved_tensors
        dy = gradients[0].to(code.dtype)
        if ctx.needs_input_grad[1]:
            ctx.leave(x, dy)
        with torch.autocast(x.device.type, enabled=False):
            dx = torch.einsum("bthr,thdr->bthd", dy, code).to(x.dtype)
        return dx, dy.new_zeros(()), None, None


class FilteredPlacement:
    """The codes of a window, (2, T, H, D, R), and the way of their gradient to the filters.

    A plain class, as torch.compile cannot follow the construction of a frozen dataclass here.
    """

    def __init__(self, code: Tensor, anchor: Tensor, gradient: _Gradient) -> None:
        self.code, self.anchor, self.gradient = code, anchor, gradient

    def __call__(
        self, q: Tensor, k: Tensor, first: int, gains: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Contract with the code: (B, T, H, D) each → (B, T, H, R) each."""
        if gains is not None:
            q, k = q * gains, k * gains
        return self._side(0, q, first), self._side(1, k, first)

    def _side(self, side: int, x: Tensor, first: int) -> Tensor:
        leave = partial(self.gradient.leave, side, first)
        rows = self.code[side, first : first + x.shape[1]]
        with torch.autocast(x.device.type, enabled=False):
            return _Contract.apply(x, self.anchor, rows, leave)  # pyright: ignore[reportReturnType]


def place_filtered(
    filters: Tensor, noise: WhiteNoise, start: int, stop: int, dtype: torch.dtype
) -> FilteredPlacement:
    """Form the codes of a window so that gradients reach the filters, (2, H, D, P)."""
    gradient = _Gradient(noise, start, stop, filters.shape[-1])
    return FilteredPlacement(
        code=filtered(filters, noise, start, stop, dtype),
        anchor=_Anchor.apply(filters, gradient),  # pyright: ignore[reportArgumentType]
        gradient=gradient,
    )


def _pad(x: Tensor, around: tuple[int, ...]) -> Tensor:
    return torch.nn.functional.pad(x, around) if any(around) else x
