import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.position import Shape
from musicgen.position.spe.base import SpeCode
from musicgen.position.spe.sine import SineSpe, SineSpeConfig, sine_template
from tests.musicgen.position.makers import SHAPE, build, generator, inputs
from tests.musicgen.position.spe.naive import place, sine_code

GOLDEN = Path(__file__).parents[3] / "golden" / "sine_spe.npz"


def sine(shape: Shape = SHAPE, **choice: Any) -> SineSpe:
    position = build("sine_spe", shape=shape, **choice)
    assert isinstance(position, SineSpe)
    return position


@pytest.fixture
def golden() -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in np.load(GOLDEN).items()}


@pytest.fixture
def authors(golden: dict[str, Tensor]) -> SineSpe:
    heads, width, sines = golden["gains_raw"].shape
    shape = Shape(layers=1, heads=heads, head_width=width, width=1, features=1)
    position = sine(shape, sines=sines, realisations=6, gated=False)
    names = {"raw_frequencies": "freqs_raw", "offsets": "offsets", "raw_gains": "gains_raw"}
    position.load_state_dict({own: golden[name].unsqueeze(0) for own, name in names.items()})
    return position


def test_code_equals_the_authors(authors: SineSpe, golden: dict[str, Tensor]) -> None:
    q, k = authors.materialise(golden["noise"], 0, 0, 17)
    torch.testing.assert_close(q, golden["qbar"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(k, golden["kbar"], rtol=1e-5, atol=1e-5)


def test_factored_product_equals_the_authors(authors: SineSpe, golden: dict[str, Tensor]) -> None:
    code = authors.cover(SpeCode(noise=(golden["noise"],), gate_noise=None), 0, 17)
    for feature in range(4):
        unit = F.one_hot(torch.tensor(feature), 4).float().expand(1, 17, 2, 4)
        q, k = authors.qk(unit, unit, code, 0, 0)
        torch.testing.assert_close(q[0], golden["qbar"][:, :, feature], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(k[0], golden["kbar"][:, :, feature], rtol=1e-5, atol=1e-5)


def test_template_equals_the_authors(authors: SineSpe, golden: dict[str, Tensor]) -> None:
    lags = torch.arange(17).view(-1, 1) - torch.arange(17)
    gains = F.softplus(golden["gains_raw"])
    frequencies = torch.sigmoid(golden["freqs_raw"]) / 2
    found = sine_template(frequencies, golden["offsets"], gains, lags.flatten())
    torch.testing.assert_close(
        found.unflatten(-1, (17, 17)), golden["templates"], rtol=1e-5, atol=1e-5
    )


def test_template_of_a_layer_is_gated() -> None:
    position = sine(sines=3)
    lags = torch.arange(-4, 5)
    share = torch.sigmoid(position.gates[2]).unsqueeze(-1)
    parts = (position.frequencies[0].float(), position.offsets[0], position.gains[0])
    wanted = share + (1 - share) * sine_template(*parts, lags) / 6
    torch.testing.assert_close(position.template(lags, layer=2), wanted)


@pytest.mark.parametrize("start", [0, 300])
@pytest.mark.parametrize("length", [1, 63, 200])
def test_values_and_gradients_equal_the_materialised_code(start: int, length: int) -> None:
    position = sine(sines=3, realisations=6).double()
    given = inputs(length)
    q, k = given["q"].requires_grad_(), given["k"].requires_grad_()
    code = position.begin(generator())
    assert code.gate_noise is not None
    leaves = [q, k, *position.parameters()]

    covered = position.cover(code, start, start + length)
    parts = position.frequencies[0], position.offsets[0], position.gains[0]
    naive = sine_code(*parts, code.noise[0], start, start + length)
    noise = code.gate_noise[0] / position.scale
    fast, slow = [], []
    for layer in range(3):  # the gradients of the layers add up
        fast += position.qk(q, k, covered, start, layer)
        slow += [
            place(x, side, position.gates[layer], noise)
            for x, side in zip((q, k), naive, strict=True)
        ]
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    found = torch.autograd.grad(sum(x.sin().sum() for x in fast), leaves)  # pyright: ignore
    wanted = torch.autograd.grad(sum(x.sin().sum() for x in slow), leaves)  # pyright: ignore
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)


def test_initial_values_are_the_authors() -> None:
    shape = Shape(layers=1, heads=8, head_width=64, width=512, features=1)
    position = sine(shape)
    frequencies = position.frequencies
    assert (frequencies > 0).all()
    assert (frequencies < 0.5).all()
    assert position.raw_frequencies.mean().item() == pytest.approx(-4, abs=0.1)
    raw = position.raw_gains.norm(dim=-1)  # 2·√(norm), norm being √5 or so
    assert raw.mean().item() == pytest.approx(2 * math.sqrt(math.sqrt(5)), rel=0.05)


def test_no_product_of_queries_and_waves_is_kept() -> None:
    position, given = sine(realisations=6, gated=False), inputs(100, dtype=torch.float32)
    x = torch.stack([given["q"], given["k"]]).requires_grad_()
    code = position.cover(position.begin(generator()), 0, 100)
    shared = code.long[0]
    kept: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        for layer in range(3):
            position.qk(*x, code, 0, layer)
    tables = *shared.waves, *shared.weights, *shared.places, shared.frequencies, shared.ones
    for pointer in {tensor.untyped_storage().data_ptr() for tensor in tables}:
        kept.pop(pointer)
    assert sum(kept.values()) == x.untyped_storage().nbytes()


def test_sines_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="sines is 0; it must be at least 1"):
        SineSpeConfig(sines=0)
