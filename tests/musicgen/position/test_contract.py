"""What must be true of every encoding, over the registry: a new one enters these tests by itself."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, fields

import pytest
import torch
from musicgen.layers.step_calls import StepInputs

from musicgen.position import POSITIONS, Position
from tests.musicgen.position.makers import (
    CASES,
    SHAPE,
    Case,
    assert_close,
    build,
    cover,
    generator,
    inputs,
    label,
    part,
    run,
    run_hooks,
    times,
)

DRAWS = {"sine_spe", "conv_spe", "flt"}
LENGTH = 150


@pytest.fixture(params=CASES, ids=label)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def position(case: Case) -> Position:
    name, choice = case
    return build(name, **choice).double()


def test_shapes_are_as_declared(position: Position) -> None:
    for length in (1, 2, 65):
        given = inputs(length)
        found = run(position, given)
        assert found["x"].shape == given["x"].shape
        for name in ("q", "k"):
            assert found[name].shape == (2, length, SHAPE.heads, position.qk_width)
        for name in ("fq", "fk"):
            assert found[name].shape[:3] == (2, length, SHAPE.heads)
        assert all(found[name].dtype == given[name].dtype for name in given)


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (37, 101), (64, 128), (140, 150)])
def test_window_equals_slice_of_whole(
    position: Position, start: int, stop: int, gradients: bool
) -> None:
    given = inputs(LENGTH)
    whole = run(position, given)
    with torch.set_grad_enabled(gradients):
        window = run(position, part(given, start, stop), start)
    assert_close(window, part(whole, start, stop), 1e-10)


@pytest.mark.parametrize("sizes", [[1] * LENGTH, [40, *[1] * 30, 17, 63], [3, 16, 131]])
def test_steps_equal_whole(position: Position, sizes: list[int]) -> None:
    given = inputs(LENGTH)
    whole = run(position, given)
    code, start = position.begin(generator()), 0
    with torch.no_grad():
        for size in sizes:
            code = cover(position, code, start, start + size)
            found = run_hooks(position, code, part(given, start, start + size), start)
            assert_close(found, part(whole, start, start + size), 1e-10)
            start += size
    assert start == LENGTH


@pytest.mark.parametrize("rows", [1, 2])
def test_a_step_places_queries_and_keys_as_a_sequence_does(position: Position, rows: int) -> None:
    given = inputs(10, batch=rows)
    with torch.no_grad():
        code, step_inputs = position.begin(generator()), StepInputs(None)
        codes = [code] * rows
        beside = torch.cat([given[side] for side in "qk"], 2)  # (B, T, 2H, D)
        qk = torch.empty_like(beside[:, 0])
        found = qk.new_empty(*qk.shape[:2], position.qk_width)
        calls = position.for_steps(1, qk, found, step_inputs)
        for at in range(10):  # past what is made ahead
            code, now = cover(position, code, at, at + 1, rows), times(at, at + 1, rows)
            step_inputs.code, codes = position.cover_rows(codes, [at] * rows, now)
            q, k = (given[side][:, at : at + 1] for side in "qk")
            wanted = torch.cat(position.qk(q, k, code, at, 1), 2)[:, 0]
            qk.copy_(beside[:, at])
            for call in calls:
                call()
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_cover_leaves_the_code_it_was_given(position: Position) -> None:
    given, begun = inputs(LENGTH), position.begin(generator())
    with torch.no_grad():
        early = cover(position, begun, 3, 4)
        wanted = run_hooks(position, early, part(given, 3, 4), 3)
        for start in (5, 90):
            cover(position, early, start, start + 1)
        assert_close(run_hooks(position, early, part(given, 3, 4), 3), wanted, 0)
        again = cover(position, begun, 3, 4)
        assert_close(run_hooks(position, again, part(given, 3, 4), 3), wanted, 0)


def test_a_token_is_encoded_from_itself_alone(position: Position) -> None:
    given, other = inputs(LENGTH), inputs(LENGTH, seed=1)
    changed = {name: value.clone() for name, value in given.items()}
    for name, value in changed.items():
        value[:, 70] = other[name][:, 70]
    before, after = run(position, given), run(position, changed)
    for name in before:
        same = (before[name] == after[name]).flatten(2).all(-1).all(0)  # to the last bit
        assert same[:70].all()
        assert same[71:].all()
        assert not same[70]


def test_same_seed_same_code_another_seed_another(case: Case, position: Position) -> None:
    given = inputs(30)
    first, second, other = (run(position, given, seed=seed) for seed in (5, 5, 6))
    assert_close(first, second, 0)
    assert torch.equal(first["q"], other["q"]) == (case[0] not in DRAWS)


def test_gradients_reach_every_parameter(position: Position) -> None:
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


@pytest.mark.parametrize("autocast", [False, True])
def test_finite_forward_and_backward_at_16384(case: Case, autocast: bool) -> None:
    name, choice = case
    position = build(name, **choice)
    given = {k: v.requires_grad_() for k, v in inputs(16_384, 1, dtype=torch.float32).items()}
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        found = run(position, given)
        total = sum(value.float().square().mean() for value in found.values())
    assert isinstance(total, torch.Tensor)
    total.backward()
    gradients = [value.grad for value in [*given.values(), *position.parameters()]]
    for value in [*found.values(), *(g for g in gradients if g is not None)]:
        assert value.isfinite().all()


@pytest.mark.parametrize("start", [1_000_000, 10_000_001])
def test_float32_is_exact_far_out(case: Case, start: int) -> None:
    name, choice = case
    if name == "learned":  # has a maximal length, and its own test of that
        return
    position = build(name, **choice)
    given = inputs(3)
    found = run(position, {key: value.float() for key, value in given.items()}, start)
    wanted = run(copy.deepcopy(position).double(), given, start)
    assert_close({key: value.double() for key, value in found.items()}, wanted, 1e-4)


def test_state_dict_restores_every_bit(case: Case) -> None:
    name, choice = case
    saved, other = build(name, seed=1, **choice), build(name, seed=2, **choice)
    other.load_state_dict(saved.state_dict())
    given = inputs(30, dtype=torch.float32)
    assert_close(run(other, given), run(saved, given), 0)


def test_hooks_follow_the_inputs_type(position: Position) -> None:
    position = position.float()
    given = {name: value.bfloat16() for name, value in inputs(20).items()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(position, given)
    assert {value.dtype for value in found.values()} == {torch.bfloat16}


@pytest.mark.parametrize("gradients", [True, False])
def test_runs_with_parameters_in_bfloat16(position: Position, gradients: bool) -> None:
    given = inputs(4)
    wanted = run(position, given, start=50)
    position = position.bfloat16()
    with torch.set_grad_enabled(gradients):
        found = run(position, {key: value.bfloat16() for key, value in given.items()}, start=50)
    for name, value in found.items():
        assert value.dtype == torch.bfloat16
        assert value.isfinite().all()
        assert value.float().norm().item() == pytest.approx(wanted[name].norm().item(), rel=0.3)


@pytest.mark.parametrize("name", list(POSITIONS))
def test_configs_are_frozen_and_keyword_only(name: str) -> None:
    config = POSITIONS[name][0]
    for field in fields(config):
        assert field.kw_only
        with pytest.raises(FrozenInstanceError):
            setattr(config(), field.name, None)


def test_an_uncovered_position_is_refused() -> None:
    position = build("rope")
    code = position.cover(position.begin(generator()), 10, 20)
    given = inputs(5, dtype=torch.float32)
    with pytest.raises(IndexError, match="positions 18 … 22 are asked for"):
        position.qk(given["q"], given["k"], code, 18, 0)
