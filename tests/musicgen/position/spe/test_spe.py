"""What both stochastic encodings share: gates, layers and templates; and the noise that one of them filters."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.position import Shape
from musicgen.position.spe.base import AHEAD, SpeCode, SpeConfig, StochasticPosition, contract
from musicgen.position.spe.convolutional import BLOCK, WhiteNoise
from tests.musicgen.position.makers import build, inputs, run
from tests.musicgen.toys import generator

GOLDEN = Path(__file__).parents[3] / "golden" / "spe_gate.npz"
both_kinds = pytest.mark.parametrize("name", ["sine_spe", "conv_spe"])


class GivenCode(StochasticPosition):
    """An encoding whose code is given, (T, H, D, R) a side."""

    def give(self, q: Tensor, k: Tensor) -> None:
        self.sides = tuple(F.pad(x, (0, 0, 0, 0, 0, 0, 0, AHEAD)) for x in (q, k))

    def draw(self, generator: torch.Generator) -> None:
        return None

    def long(self, noise: None, slot: int, start: int, stop: int, times: Any) -> Any:
        q_code, k_code = self.materialise(noise, slot, start, stop)
        return lambda q, k, first, gains=1.0: (
            contract(q * gains, q_code),
            contract(k * gains, k_code),
        )

    def materialise(self, noise: None, slot: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        return self.sides[0][start:stop], self.sides[1][start:stop]


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("size", [17, 1])
@torch.no_grad()
def test_equals_the_authors_gate(gated: bool, size: int):
    golden = {name: torch.from_numpy(value) for name, value in np.load(GOLDEN).items()}
    length, heads, width, realisations = golden["qbar"].shape
    shape = Shape(layers=1, heads=heads, head_width=width, width=1, features=1)
    position = GivenCode(SpeConfig(realisations=realisations, gated=gated), shape)
    position.give(golden["qbar"], golden["kbar"])
    gate_noise = None
    if gated:
        position.load_state_dict({"gates": golden["gate_raw"].unsqueeze(0)})
        gate_noise = golden["gate_noise"].unsqueeze(0) * position.scale
    code = SpeCode(noise=(None,), gate_noise=gate_noise)
    kind = "gated" if gated else "ungated"
    for start in range(0, length, size):
        stop = start + size
        code = position.cover(code, start, stop)
        queries, keys = (golden[x][:, start:stop] for x in ("queries", "keys"))
        q, k = position.qk(queries, keys, code, start, 0)
        wanted = (golden[f"{side}_{kind}"][:, start:stop] for side in "qk")
        torch.testing.assert_close((q, k), tuple(wanted), rtol=1e-5, atol=1e-5)


@both_kinds
def test_layers_share_one_code_but_for_their_gates(name: str):
    given = inputs(20)
    for gated, shared in [(True, True), (True, False), (False, True), (False, False)]:
        position = build(name, realisations=6, gated=gated, shared=shared)
        first, second = (run(position, given, layer=layer)["q"] for layer in (0, 1))
        assert torch.equal(first, second) == (shared and not gated)


@both_kinds
@pytest.mark.parametrize("realisations", [64, 16_384])
@torch.no_grad()
def test_products_realise_the_template(name: str, realisations: int):
    """q̂·k̂ → template with a deviation of at most √2·P(0)/√R (Gaussian products), 5 of which are allowed."""
    shape = Shape(layers=2, heads=1, head_width=2, width=2, features=1)
    position = build(name, shape=shape, realisations=realisations)
    code = position.cover(position.begin(generator(1)), 0, 61)
    unit = torch.tensor([1.0, 0.0]).expand(1, 61, 1, 2)
    q, k = position.qk(unit, unit, code, 0, 1)
    estimate = (q[0, 30, 0] * k[0, :, 0].flip(0)).sum(-1) * (2 / realisations) ** 0.5
    template = position.template(torch.arange(-30, 31), layer=1)[0, 0]
    # The larger variance of a query's and a key's code in feature 0, gate included.
    sides = position.materialise(position.begin(generator(2)).noise[0], 0, 0, 64)
    peak = max(1.0, *(x[:, 0, 0].square().mean().item() / position.scale**2 for x in sides))
    assert (estimate - template).abs().max() <= 5 * 2**0.5 * peak / realisations**0.5


def white(seed: int = 1, dtype: torch.dtype = torch.float64) -> WhiteNoise:
    return WhiteNoise(seed, (2, 4, 3), like=torch.zeros((), dtype=dtype))


def test_windows_agree_whatever_was_asked_before():
    whole, asked = white().window(0, 5 * BLOCK), white()
    for start, stop in [(0, 1), (70, 200), (63, 65), (5, 300), (128, 192)]:
        assert torch.equal(asked.window(start, stop), whole[:, :, start:stop])
    asked.forget()
    assert asked._kept.numel() == 0
    assert torch.equal(asked.window(10, 200), whole[:, :, 10:200])
    # Far positions need no near ones, and the numbers are the same in any type.
    far = white().window(10**12, 10**12 + 3)
    assert torch.equal(far, white().window(10**12, 10**12 + 3))
    assert far.dtype == torch.float64
    assert torch.equal(far, white(dtype=torch.float32).window(10**12, 10**12 + 3).double())


def test_keeps_no_more_than_the_latest_window():
    asked = white()
    for start in range(0, 2000, 50):
        asked.window(start, start + 100)
        assert asked._kept.shape[-2] <= 3 * BLOCK


def test_is_standard_normal_and_uncorrelated_between_blocks_and_seeds():
    found, other = (white(seed).window(0, 64 * BLOCK) for seed in (3, 4))
    count = found.numel()
    assert found.mean().item() == pytest.approx(0, abs=5 / count**0.5)
    assert found.var().item() == pytest.approx(1, abs=5 * (2 / count) ** 0.5)
    for shifted in (found.roll(BLOCK, 2), found.roll(1, 2), other):
        assert (found * shifted).mean().item() == pytest.approx(0, abs=5 / count**0.5)
