from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from musicgen.layers.step_calls import StepInputs
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from musicgen.position import Shape
from musicgen.position.spe.base import (
    AHEAD,
    SHORT,
    SpeCode,
    SpeConfig,
    StochasticPosition,
    contract,
)
from tests.musicgen.position.makers import SHAPE, build, generator, inputs, run, run_hooks

GOLDEN = Path(__file__).parents[3] / "golden" / "spe_gate.npz"
KINDS = ["sine_spe", "conv_spe"]


def spe(name: str, shape: Shape = SHAPE, **choice: Any) -> StochasticPosition:
    position = build(name, shape=shape, **choice)
    assert isinstance(position, StochasticPosition)
    return position


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
def test_equals_the_authors_gate(gated: bool, size: int) -> None:
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
    with torch.no_grad():
        for start in range(0, length, size):
            stop = start + size
            code = position.cover(code, start, stop)
            queries, keys = (golden[x][:, start:stop] for x in ("queries", "keys"))
            q, k = position.qk(queries, keys, code, start, 0)
            wanted = (golden[f"{side}_{kind}"][:, start:stop] for side in "qk")
            torch.testing.assert_close((q, k), tuple(wanted), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_realisations_change_after_training(name: str) -> None:
    position, given = spe(name, realisations=4), inputs(20)
    state = position.state_dict()
    position.realisations = 9
    assert position.qk_width == 9
    assert run(position, given)["q"].shape[-1] == 9
    assert all(torch.equal(state[key], value) for key, value in position.state_dict().items())


@pytest.mark.parametrize("name", KINDS)
def test_layers_share_one_code_but_for_their_gates(name: str) -> None:
    given = inputs(20)
    for gated, shared in [(True, True), (False, True), (False, False)]:
        position = spe(name, realisations=6, gated=gated, shared=shared)
        first, second = (run(position, given, layer=layer)["q"] for layer in (0, 1))
        assert torch.equal(first, second) == (shared and not gated)


@pytest.mark.parametrize("name", KINDS)
def test_open_gate_knows_no_position(name: str) -> None:
    position, given = spe(name, realisations=6), inputs(20)
    constant = {key: value[:, :1].expand_as(value) for key, value in given.items()}
    with torch.no_grad():
        position.gates.fill_(60.0)  # δ = 1
    found = run(position, constant)["q"]
    torch.testing.assert_close(found, found[:, :1].expand_as(found))
    assert found.abs().max() > 0


@pytest.mark.parametrize("name", KINDS)
def test_shut_gate_keeps_gradients_finite(name: str) -> None:
    position = spe(name, realisations=6)
    with torch.no_grad():
        position.gates.copy_(torch.linspace(-500, 500, position.gates.numel()).view(3, 2, 8))
    run(position, inputs(20))["q"].sum().backward()
    assert position.gates.grad is not None
    assert position.gates.grad.isfinite().all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("realisations", [64, 1024, 16_384])
def test_products_realise_the_template(name: str, realisations: int) -> None:
    """q̂·k̂ → template with a deviation of at most √2·P(0)/√R (Gaussian products), 5 of which are allowed."""
    shape = Shape(layers=2, heads=1, head_width=2, width=2, features=1)
    position = spe(name, shape=shape, realisations=realisations)
    code = position.cover(position.begin(generator(1)), 0, 61)
    unit = torch.tensor([1.0, 0.0]).expand(1, 61, 1, 2)
    with torch.no_grad():
        q, k = position.qk(unit, unit, code, 0, 1)
        lags = torch.arange(-30, 31)
        estimate = (q[0, 30, 0] * k[0, :, 0].flip(0)).sum(-1) * (2 / realisations) ** 0.5
        template = position.template(lags, layer=1)[0, 0]
        peak = spe_variance(position)
    assert (estimate - template).abs().max() <= 5 * 2**0.5 * peak / realisations**0.5


def spe_variance(position: StochasticPosition) -> float:
    """Return the larger variance of a query's and a key's code in feature 0, gate included."""
    code = position.begin(generator(2))
    code_q, code_k = position.materialise(code.noise[0], 0, 0, 64)
    positional = (
        max(x[:, 0, 0].square().mean().item() for x in (code_q, code_k)) / position.scale**2
    )
    return max(1.0, positional)


@pytest.mark.parametrize("name", KINDS)
def test_steps_draw_ahead_and_forget(name: str) -> None:
    position = spe(name, realisations=6)
    code = position.begin(generator())
    with torch.no_grad():
        code = position.cover(code, 0, 1)
        window = code.ahead[0]
        ahead = position.ahead
        assert (window.start, len(window.rows[0])) == (0, ahead)
        assert position.cover(code, ahead - 1, ahead).ahead is code.ahead
        code = position.cover(code, ahead, ahead + 1)
        assert (code.ahead[0].start, len(code.ahead[0].rows[0])) == (ahead, ahead)
        code = position.cover(code, ahead + 1, ahead + 2 + SHORT)
        assert code.ahead == ()


@pytest.mark.parametrize("name", KINDS)
def test_activation_checkpointing_changes_nothing(name: str) -> None:
    gradients = []
    for checkpointed in (False, True):
        position, given = spe(name, realisations=6).double(), inputs(70)
        q = given["q"].requires_grad_()
        code = position.cover(position.begin(generator()), 0, 70)
        x = q
        for layer in range(3):

            def block(x: Tensor, layer: int = layer) -> Tensor:
                found = run_hooks(position, code, {**given, "q": x.tanh()}, layer=layer)  # noqa: B023
                return found["q"].repeat(1, 1, 1, 2)[..., :8] + x * found["k"].sum(-1, keepdim=True)

            x = checkpoint(block, x, use_reentrant=False) if checkpointed else block(x)
        x.sin().sum().backward()
        gradients.append([q.grad, *(p.grad for p in position.parameters())])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, checkpointed)


@pytest.mark.parametrize("name", KINDS)
def test_a_variation_is_the_same_among_others(name: str) -> None:
    position = spe(name, Shape(layers=1, heads=8, head_width=64, width=1, features=1))
    qk = torch.randn(8, 16, 64, generator=generator())
    with torch.no_grad():
        code = position.begin(generator())

        def placed(rows: int) -> Tensor:
            now = StepInputs(position.cover_rows([code] * rows, [5] * rows)[0])
            out = qk.new_empty(rows, 16, position.qk_width)
            for call in position.for_steps(0, qk[:rows], out, now):
                call()
            return out

        wanted = placed(8)
        for rows in range(1, 8):
            assert torch.equal(placed(rows), wanted[:rows])


def test_realisations_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="realisations is 0; it must be at least 1"):
        SpeConfig(realisations=0)
