"""Data that are made: each answer is found again by another way than the one that made it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evaluation.benchmarks.listops import (
    DEEPEST,
    MOST_ARGUMENTS,
    TOKENS,
    expression,
    first_token_rule,
    listops,
    read_expression,
)
from evaluation.benchmarks.tasks import NEGATIVE, POSITIVE, PROBE, Clouds, clouds, fields

SAMPLES = 10_000


def evaluated(ids: list[int]) -> tuple[int, int, list[int]]:
    """Read an expression with a stack, token by token: its value, its depth and how many arguments operators have."""
    stack: list[list[int]] = [[]]
    operators: list[str] = []
    deepest, counts = 0, []
    for word in (TOKENS[i] for i in ids):
        if word.startswith("["):
            operators.append(word)
            stack.append([])
            deepest = max(deepest, len(operators))
        elif word == "]":
            values, operator = sorted(stack.pop()), operators.pop()
            counts.append(len(values))
            middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2
            means = {"[MIN": values[0], "[MAX": values[-1], "[MED": middle, "[SM": sum(values) % 10}
            stack[-1].append(means[operator])
        else:
            stack[-1].append(int(word))
    assert not operators
    ((value,),) = stack
    return value, deepest, counts


def test_a_second_evaluator_agrees_on_ten_thousand_expressions() -> None:
    """Short ones, so that all depths and counts come up; the definition has no other parameter of length."""
    depths, arguments, operations, inner = set(), set(), 0, 0
    for number in range(SAMPLES):
        ids, value = expression(np.random.default_rng([5, number]), 4, 120)
        found, depth, counts = evaluated(ids)
        assert found == value, [TOKENS[i] for i in ids]
        assert 4 <= len(ids) <= 120
        depths.add(depth)
        arguments |= set(counts)
        operations += len(counts)
        inner += sum(counts)
    assert arguments == set(range(2, MOST_ARGUMENTS + 1))
    assert max(depths) <= DEEPEST
    assert max(depths) > 5


def test_long_expressions_are_as_long_as_they_should_be_and_evaluate() -> None:
    expressions, values = listops(40, 500, 2000, 0, lambda done, total: None)
    deepest = 0
    for ids, value in zip(expressions, values, strict=True):
        assert 500 <= len(ids) <= 2000
        found, depth, _ = evaluated(ids.tolist())
        assert found == value
        deepest = max(deepest, depth)
    assert deepest == DEEPEST


def test_an_expression_is_a_function_of_the_seed_and_its_place() -> None:
    few, many, other = (
        listops(count, 10, 60, seed, lambda done, total: None)[0]
        for count, seed in ((3, 1), (6, 1), (3, 2))
    )
    assert all(np.array_equal(a, b) for a, b in zip(few, many[:3], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(few, other, strict=True))


def test_files_are_read_without_their_round_brackets() -> None:
    ids = read_expression("( ( ( ( [MED 3 ) 9 ) ( ( [SM 7 ) 8 ) ] ) ) ] )".replace(") ]", " ]"))
    assert [TOKENS[i] for i in ids] == ["[MED", "3", "9", "[SM", "7", "8", "]", "]"]
    assert evaluated(ids.tolist())[0] == 5
    with pytest.raises(ValueError, match=r"'\[AVG' is not a token of ListOps"):
        read_expression("( [AVG 3 ) ]")


def test_the_first_token_rule() -> None:
    rule = {word: first_token_rule(read_expression(f"{word} 1 2 ]")) for word in TOKENS[10:14]}
    assert rule == {"[MIN": 0, "[MAX": 9, "[MED": 4, "[SM": 4}


def test_the_field_is_that_of_all_charges() -> None:
    random = np.random.default_rng(0)
    charges = random.choice([-1.0, 1.0], size=(3, 6))
    places, probes = random.random((3, 6, 3)), random.random((3, 3))
    wanted = [
        sum(
            sign * math.exp(-(math.dist(r, probe) ** 2) / (2 * 0.3**2))
            for sign, r in zip(c, rs, strict=True)
        )
        for c, rs, probe in zip(charges, places, probes, strict=True)
    ]
    np.testing.assert_allclose(fields(charges, places, probes), wanted)


def test_clouds_are_balanced_and_only_places_tell_them_apart() -> None:
    made = clouds(2000, 10, 4)
    assert (made.tokens[:, 0] == PROBE).all()
    assert ((made.tokens == POSITIVE).sum(1) == 5).all()
    assert ((made.tokens == NEGATIVE).sum(1) == 5).all()
    assert 0.45 < made.labels.mean() < 0.55
    assert made.places.shape == (2000, 11, 3)
    signs = np.where(made.tokens[:, 1:] == POSITIVE, 1.0, -1.0)
    found = fields(signs, made.places[:, 1:], made.places[:, 0]) > 0
    assert (found == made.labels).mean() > 0.999  # places are stored in float32
    again = clouds(2000, 10, 4)
    assert np.array_equal(made.places, again.places)
    with pytest.raises(ValueError, match="a cloud of 7 charges has no half"):
        clouds(3, 7, 0)


def test_the_nearest_charge_says_most_and_not_all() -> None:
    near = np.array([[[0, 0, 0], [0.1, 0, 0], [0.9, 0.9, 0.9]]], dtype=np.float32)
    tokens = np.array([[PROBE, NEGATIVE, POSITIVE]], dtype=np.uint8)
    for label, accuracy in ((0, 1.0), (1, 0.0)):
        made = Clouds(tokens=tokens, places=near, labels=np.array([label]))
        assert made.by_nearest() == accuracy
    assert 0.7 < clouds(2000, 10, 4).by_nearest() < 0.95
