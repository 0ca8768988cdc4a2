"""Tests of the interface for every registered encoding, new ones included."""

import copy

import pytest
import torch

from musicgen.position import Position
from tests.musicgen.position.makers import (
    CASES,
    SHAPE,
    Case,
    assert_close,
    build,
    cover,
    inputs,
    label,
    part,
    run,
    run_hooks,
)
from tests.musicgen.toys import generator

DRAWS = {"sine_spe", "conv_spe", "flt"}
LENGTH = 150


@pytest.fixture(params=CASES, ids=label)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def position(case: Case) -> Position:
    name, choice = case
    return build(name, **choice).double()


@pytest.mark.parametrize("gradients", [True, False])
def test_window_equals_slice_of_whole(position: Position, gradients: bool):
    given = inputs(LENGTH)
    whole = run(position, given)
    for start, stop in [(0, 1), (37, 101), (64, 128), (140, 150)]:
        with torch.set_grad_enabled(gradients):
            window = run(position, part(given, start, stop), start)
        assert_close(window, part(whole, start, stop), 1e-10)


def test_steps_equal_whole(position: Position):
    given = inputs(LENGTH)
    whole = run(position, given)
    for sizes in ([40, *[1] * 80, 30], [3, 16, 131]):
        code, start = position.begin(generator()), 0
        for size in sizes:
            with torch.no_grad():
                code = cover(position, code, start, start + size)
                found = run_hooks(position, code, part(given, start, start + size), start)
            assert_close(found, part(whole, start, start + size), 1e-10)
            start += size
        assert start == LENGTH


def test_the_seed_determines_the_code(case: Case, position: Position):
    given = inputs(30)
    first, second, other = (run(position, given, seed=seed) for seed in (5, 5, 6))
    assert_close(first, second, 0)
    assert torch.equal(first["q"], other["q"]) == (case[0] not in DRAWS)


def test_gradients_reach_every_parameter(position: Position):
    given = {name: value.requires_grad_() for name, value in inputs(LENGTH).items()}
    code = cover(position, position.begin(generator()), 0, LENGTH)
    total = torch.zeros((), dtype=torch.float64)
    for layer in range(SHAPE.layers):
        found = run_hooks(position, code, given, layer=layer)
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


def test_float32_is_exact_far_out(case: Case):
    name, choice = case
    if name == "learned":
        return  # it has a maximum length
    position, given, start = build(name, **choice), inputs(3), 10_000_001
    found = run(position, {key: value.float() for key, value in given.items()}, start)
    wanted = run(copy.deepcopy(position).double(), given, start)
    assert_close({key: value.double() for key, value in found.items()}, wanted, 1e-4)


@pytest.mark.parametrize("gradients", [True, False])
def test_runs_in_bfloat16(position: Position, gradients: bool):
    given = inputs(4)
    low = {key: value.bfloat16() for key, value in given.items()}
    wanted = run(position, given, start=50)
    with torch.set_grad_enabled(gradients), torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(position.float(), low)
    assert {value.dtype for value in found.values()} == {torch.bfloat16}
    with torch.set_grad_enabled(gradients):
        found = run(position.bfloat16(), low, start=50)
    for name, value in found.items():
        assert value.dtype == torch.bfloat16
        assert value.isfinite().all()
        assert value.float().norm().item() == pytest.approx(wanted[name].norm().item(), rel=0.3)
