"""Both stochastic encodings against their authors' codes and gates, their definition, and their templates."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from evaluation.attention import code_sides, sine_template, template
from musicgen.parts import Shape
from musicgen.position.spe import sine
from musicgen.position.spe.base import SpeCode
from musicgen.position.spe.convolutional import BLOCK, WhiteNoise, filtered
from musicgen.position.spe.sine import SineSpe
from tests.musicgen.position.makers import build, inputs, run
from tests.musicgen.toys import generator, golden

both_kinds = pytest.mark.parametrize("name", ["sine_spe", "conv_spe"])


@both_kinds
def test_layers_share_one_code_except_for_their_gates(name: str):
    given = inputs(20)
    for gated, shared in [(True, True), (True, False), (False, True), (False, False)]:
        position = build(name, realisations=6, gated=gated, shared=shared)
        first, second = (run(position, given, layer=layer)["q"] for layer in (0, 1))
        assert torch.equal(first, second) == (shared and not gated)


@both_kinds
@pytest.mark.parametrize("realisations", [64, 16_384])
@torch.no_grad()
def test_products_realise_the_template(name: str, realisations: int):
    """The deviation of q̂·k̂ from the template is at most √2·P(0)/√R (Gaussian products); 5 times that is allowed."""
    shape = Shape(layers=2, heads=1, head_width=2, width=2, features=1)
    position = build(name, shape=shape, realisations=realisations)
    code = position.cover(position.begin(generator(1)), 0, 61)
    unit = torch.tensor([1.0, 0.0]).expand(1, 61, 1, 2)
    q, k = position.qk(unit, unit, position.of_layer(code, 1))
    estimate = (q[0, 30, 0] * k[0, :, 0].flip(0)).sum(-1) * (2 / realisations) ** 0.5
    wanted = template(position, torch.arange(-30, 31), layer=1)[0, 0]
    # The larger variance of a query's and a key's code in feature 0, gate included.
    sides = code_sides(position, position.begin(generator(2)).noise[0], 0, 0, 64)
    peak = max(1.0, *(x[:, 0, 0].square().mean().item() / position.scale**2 for x in sides))
    assert (estimate - wanted).abs().max() <= 5 * 2**0.5 * peak / realisations**0.5


BOTH: dict[str, dict[str, Any]] = {"sine_spe": {"sines": 3}, "conv_spe": {"taps": 7}}


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_sine_code_equals_the_authors():
    theirs = golden("sine_spe.npz")
    heads, width, sines = theirs["gains_raw"].shape
    shape = Shape(layers=1, heads=heads, head_width=width, width=1, features=1)
    position = build("sine_spe", shape=shape, sines=sines, realisations=6, gated=False)
    names = {"raw_frequencies": "freqs_raw", "offsets": "offsets", "raw_gains": "gains_raw"}
    position.load_state_dict({own: theirs[name].unsqueeze(0) for own, name in names.items()})
    q, k = code_sides(position, theirs["noise"], 0, 0, 17)
    close(q, theirs["qbar"])
    close(k, theirs["kbar"])
    code = position.cover(SpeCode(noise=(theirs["noise"],), gate_noise=None), 0, 17)
    for feature in range(4):  # and so does the product that never forms a code
        unit = F.one_hot(torch.tensor(feature), 4).float().expand(1, 17, 2, 4)
        q, k = position.qk(unit, unit, position.of_layer(code, 0))
        close(q[0], theirs["qbar"][:, :, feature])
        close(k[0], theirs["kbar"][:, :, feature])


def test_sine_template_equals_the_authors():
    theirs = golden("sine_spe.npz")
    lags = torch.arange(17).view(-1, 1) - torch.arange(17)
    gains = F.softplus(theirs["gains_raw"])
    frequencies = torch.sigmoid(theirs["freqs_raw"]) / 2
    found = sine_template(frequencies, theirs["offsets"], gains, lags.flatten())
    close(found.unflatten(-1, (17, 17)), theirs["templates"])


class GivenNoise(WhiteNoise):
    """Fixed noise, (H, D, length, R)."""

    def __init__(self, noise: Tensor) -> None:
        super().__init__(0, (*noise.shape[:2], noise.shape[3]), like=noise)
        self.noise = noise

    def window(self, start: int, stop: int) -> Tensor:
        return self.noise[:, :, start:stop]


def test_filtered_code_equals_the_authors():
    theirs = golden("conv_spe.npz")
    realisations, _, width, _ = theirs["noise"].shape
    taps = theirs["filter_q"].shape[-1]
    noise = GivenNoise(theirs["noise"].permute(1, 2, 3, 0)[:, :, taps:])  # their code starts there
    filters = torch.stack([theirs["filter_q"], theirs["filter_k"]])
    q, k = filtered(filters * (width * realisations) ** -0.25, noise, 0, 17, torch.float32)
    close(q, theirs["qbar"])
    close(k, theirs["kbar"])


def by_definition(position: Any, code: SpeCode, start: int, stop: int) -> list[Tensor]:
    """Return the codes of queries and keys, (T, H, D, R), computed as by the authors, at once for all positions."""
    noise: Any = code.noise[0]
    if isinstance(position, SineSpe):
        places = torch.arange(start, stop, dtype=torch.float64).view(-1, 1, 1, 1)
        gains = position.gains[0].repeat_interleave(2, -1).unsqueeze(-1) / noise.shape[2] ** 0.5
        scale = (noise.shape[1] * noise.shape[3]) ** 0.25
        sides = []
        for offset in (position.offsets[0], torch.zeros_like(position.offsets[0])):
            angles = 2 * math.pi * position.frequencies[0] * places + offset
            table = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)  # (T, H, D, 2K)
            sides.append(torch.einsum("thdw,hdwr->thdr", table, noise * gains) / scale)
        return sides
    taps = position.filters.shape[-1]
    white = noise.window(start, stop + taps - 1)
    scale = (white.shape[1] * white.shape[3]) ** 0.25
    windows = white.unfold(2, taps, 1)  # (H, D, T, R, P)
    return [torch.einsum("hdp,hdtrp->thdr", own, windows) / scale for own in position.filters[0]]


def gated(code: Tensor, gate: Tensor, noise: Tensor) -> Tensor:
    """Gate a code by δ (H, D) and ε (H, D, R)."""
    scale = (noise.shape[1] * noise.shape[2]) ** 0.25
    delta = torch.sigmoid(gate).unsqueeze(-1)
    return (1 - delta).sqrt() * code + delta.sqrt() * noise / scale


def test_the_gate_of_the_definition_equals_the_authors():
    theirs = golden("spe_gate.npz")
    for side, given in (("q", theirs["queries"]), ("k", theirs["keys"])):
        code = theirs[f"{side}bar"]
        mixed = gated(code, theirs["gate_raw"], theirs["gate_noise"])
        for kind, own in (("ungated", code), ("gated", mixed)):
            close(torch.einsum("bthd,thdr->bthr", given, own), theirs[f"{side}_{kind}"])


@pytest.mark.parametrize(
    ("name", "choice", "batch", "block"),
    [
        ("sine_spe", {}, 2, 1 << 21),
        ("sine_spe", {}, 1, 200),  # in ragged blocks
        ("sine_spe", {}, 1, 1),  # one by one
        ("conv_spe", {}, 1, 0),
        ("conv_spe", {}, 40, 0),  # inputs take more memory than the code
        ("conv_spe", {"taps": 1}, 2, 0),
        ("conv_spe", {"taps": 2 * BLOCK + 1}, 2, 0),
    ],
)
@pytest.mark.parametrize(("start", "length"), [(0, 1), (300, 63), (0, BLOCK), (300, 150)])
def test_values_and_gradients_are_exact(name, choice, batch, block, start, length, monkeypatch):
    monkeypatch.setattr(sine, "_BLOCK", {"cpu": block})
    position, given = (
        build(name, **{"realisations": 6, **BOTH[name], **choice}).double(),
        inputs(length, batch),
    )
    q, k = given["q"].requires_grad_(), given["k"].requires_grad_()
    code = position.begin(generator())
    leaves = [q, k, *position.parameters()]
    covered = position.cover(code, start, start + length)
    naive = by_definition(position, code, start, start + length)
    noise = code.gate_noise[0] / position.scale
    fast, slow = [], []
    for layer in range(3):  # the gradients of the layers add up
        fast += position.qk(q, k, position.of_layer(covered, layer))
        for x, side in zip((q, k), naive, strict=True):
            slow.append((x.unsqueeze(-1) * gated(side, position.gates[layer], noise)).sum(-2))
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    found, again, wanted = (
        torch.autograd.grad(sum(x.sin().sum() for x in each), leaves, retain_graph=True)
        for each in (fast, fast, slow)
    )
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(again, found)  # the second pass does not add to the first
