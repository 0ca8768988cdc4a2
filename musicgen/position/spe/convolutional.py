"""convSPE (Liutkus et al., 2021, equation 22): templates that vanish beyond the filters' length.

P_d(m − n) is the correlation of two learned filters of P taps, realised by filtering the same
white noise with both. q̄[n] = Σ_p filter_q[p] noise[n + p] takes noise from ahead of its position,
so that the code is stationary from position 0.

S slots, H heads, D head width, P taps, R realisations, T time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from musicgen.position.base import Shape
from musicgen.position.spe.base import SpeConfig, StochasticPosition, working_dtype
from musicgen.position.spe.filtered_noise import FilteredPlacement, filtered, place_filtered
from musicgen.position.spe.white_noise import WhiteNoise
from tokenization.records import check_fields


@dataclass(frozen=True, kw_only=True)
class ConvSpeConfig(SpeConfig):
    """The paper's music models: 64 realisations, 128 taps gated, 512 ungated."""

    taps: int = 128  # P

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "taps")


class ConvSpe(StochasticPosition):
    """Two learned filters for each head and feature."""

    def __init__(self, config: ConvSpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        size = (self.slots, 2, shape.heads, shape.head_width, config.taps)
        self.filters = nn.Parameter(torch.rand(size) / (config.taps / 2) ** 0.5)

    def draw(self, generator: Generator) -> WhiteNoise:
        """Draw a seed: a generator on the CPU spares a GPU a wait for it."""
        seed = torch.randint(2**62, (), generator=generator, device=generator.device)
        size = (self.shape.heads, self.shape.head_width, self.realisations)
        return WhiteNoise(int(seed), size, like=self.filters)

    def long(
        self, noise: WhiteNoise, slot: int, start: int, stop: int, times: Tensor | None
    ) -> FilteredPlacement:
        """Form the code of a whole window."""
        filters = self.filters[slot] * self.scale
        placement = place_filtered(filters, noise, start, stop, working_dtype(self.filters))
        if not self.config.shared:
            noise.forget()  # the windows of all layers would not fit
        return placement

    def materialise(
        self, noise: WhiteNoise, slot: int, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Return q̄ and k̄ of a few positions, (T, H, D, R) each."""
        filters = self.filters[slot] * self.scale
        q, k = filtered(filters, noise, start, stop, self.filters.dtype).unbind()
        return q, k

    def template(self, lags: Tensor, layer: int = 0) -> Tensor:
        """Return what the layer realises at lags m − n, (N,) → (H, D, N): δ + (1 − δ) P_d."""
        filters = self.filters[0 if self.config.shared else layer]
        return self.gate_template(conv_template(filters[0], filters[1], lags), layer)


def conv_template(filter_q: Tensor, filter_k: Tensor, lags: Tensor) -> Tensor:
    """Return P_d = Σ_p filter_q[p] filter_k[p + lag]: (..., P) each, integers (N,) → (..., N)."""
    taps = filter_q.shape[-1]
    spectrum = torch.fft.rfft(filter_k, 2 * taps) * torch.fft.rfft(filter_q, 2 * taps).conj()
    correlation = torch.fft.irfft(spectrum, 2 * taps)  # (..., 2P), negative lags after
    return correlation[..., lags % (2 * taps)] * (lags.abs() < taps)
