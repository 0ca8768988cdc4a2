"""Tests of the interface for every registered encoding, new ones included."""

import copy

import pytest
import torch

from musicgen.position import Position
from tests.musicgen.position import makers
from tests.musicgen.toys import generator

DRAWS = {"sine_spe", "conv_spe", "flt"}
LENGTH = 150


@pytest.fixture(params=makers.CASES, ids=makers.label)
def case(request: pytest.FixtureRequest) -> makers.Case:
    return request.param


@pytest.fixture
def position(case: makers.Case) -> Position:
    name, choice = case
    return makers.build(name, **choice).double()


@pytest.mark.parametrize("gradients", [True, False])
def test_window_equals_slice_of_whole(position: Position, gradients: bool):
    given = makers.inputs(LENGTH)
    whole = makers.run(position, given)
    for start, stop in [(0, 1), (37, 101), (64, 128), (140, 150)]:
        with torch.set_grad_enabled(gradients):
            window = makers.run(position, makers.part(given, start, stop), start)
        makers.assert_close(window, makers.part(whole, start, stop), 1e-10)


def test_steps_equal_whole(position: Position):
    given = makers.inputs(LENGTH)
    whole = makers.run(position, given)
    for sizes in ([40, *[1] * 80, 30], [3, 16, 131]):
        code, start = position.begin(generator()), 0
        for size in sizes:
            with torch.no_grad():
                code = makers.cover(position, code, start, start + size)
                found = makers.run_hooks(
                    position, code, makers.part(given, start, start + size), start
                )
            makers.assert_close(found, makers.part(whole, start, start + size), 1e-10)
            start += size
        assert start == LENGTH


def test_the_seed_determines_the_code(case: makers.Case, position: Position):
    given = makers.inputs(30)
    first, second, other = (makers.run(position, given, seed=seed) for seed in (5, 5, 6))
    makers.assert_close(first, second, 0)
    assert torch.equal(first["q"], other["q"]) == (case[0] not in DRAWS)


def test_gradients_reach_every_parameter(position: Position):
    given = {name: value.requires_grad_() for name, value in makers.inputs(LENGTH).items()}
    code = makers.cover(position, position.begin(generator()), 0, LENGTH)
    total = torch.zeros((), dtype=torch.float64)
    if position.decay is not None:
        total = total + position.decay.sum()
    for layer in range(makers.SHAPE.layers):
        found = makers.run_hooks(position, code, given, layer=layer)
        total = total + sum(value.sin().sum() for value in found.values())
    total.backward()
    for name, parameter in position.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        touched = parameter.grad[:LENGTH] if name == "table" else parameter.grad
        if name == "mask.log_radii":  # f is piecewise constant, but its estimate is not
            assert touched.abs().max() > 0
        else:
            assert (touched != 0).float().mean() > 0.9, name


def test_float32_is_exact_far_out(case: makers.Case):
    name, choice = case
    if name == "learned":
        return  # it has a maximum length
    position, given, start = makers.build(name, **choice), makers.inputs(3), 10_000_001
    found = makers.run(position, {key: value.float() for key, value in given.items()}, start)
    wanted = makers.run(copy.deepcopy(position).double(), given, start)
    makers.assert_close({key: value.double() for key, value in found.items()}, wanted, 1e-4)


@pytest.mark.parametrize("gradients", [True, False])
def test_runs_in_bfloat16(position: Position, gradients: bool):
    given = makers.inputs(4)
    low = {key: value.bfloat16() for key, value in given.items()}
    wanted = makers.run(position, given, start=50)
    with torch.set_grad_enabled(gradients), torch.autocast("cpu", dtype=torch.bfloat16):
        found = makers.run(position.float(), low)
    assert {value.dtype for value in found.values()} == {torch.bfloat16}
    with torch.set_grad_enabled(gradients):
        found = makers.run(position.bfloat16(), low, start=50)
    for name, value in found.items():
        assert value.dtype == torch.bfloat16
        assert value.isfinite().all()
        assert value.float().norm().item() == pytest.approx(wanted[name].norm().item(), rel=0.3)
