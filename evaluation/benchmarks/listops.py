"""ListOps from its definition: nested operations on digits, whose value is the class (Nangia & Bowman 2018).

An expression is a digit, or an operator with 2 to 10 arguments that are expressions, closed by a bracket. An argument
is an operation with probability 1/4, and never below depth 10. The long form (Tay et al. 2021, Long Range Arena) keeps
expressions of 500 to 2,000 tokens. Operators: the smallest, the largest, the median (rounded down), the sum modulo 10.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np

OPERATORS: dict[str, Callable[[Sequence[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}
CLOSE = "]"
TOKENS = [*map(str, range(10)), *OPERATORS, CLOSE]
"""The vocabulary: a token's number is its id."""

OPERATION = 0.25  # probability that an argument is one
MOST_ARGUMENTS, DEEPEST = 10, 10
CLASSES = 10
_NAMES = list(OPERATORS)


class _TooLong(Exception):
    """The expression has passed the longest length."""


def expression(random: np.random.Generator, shortest: int, longest: int) -> tuple[list[int], int]:
    """Draw an expression of a length between two, and return its ids and its value: drawn again until it fits."""
    while True:
        ids: list[int] = []
        try:
            value = _operation(random, ids, 1, longest)
        except _TooLong:
            continue
        if shortest <= len(ids) <= longest:
            return ids, value


def _operation(random: np.random.Generator, ids: list[int], depth: int, longest: int) -> int:
    operator = int(random.integers(len(_NAMES)))
    ids.append(10 + operator)
    values = []
    for _ in range(int(random.integers(2, MOST_ARGUMENTS + 1))):
        if len(ids) > longest:
            raise _TooLong
        if depth < DEEPEST and random.random() < OPERATION:
            values.append(_operation(random, ids, depth + 1, longest))
        else:
            values.append(int(random.integers(10)))
            ids.append(values[-1])
    ids.append(len(TOKENS) - 1)
    return OPERATORS[_NAMES[operator]](values)


def listops(
    count: int, shortest: int, longest: int, seed: int, progress: Callable[[int, int], None]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return expressions and their values; a number of the set is a function of the seed and its place alone."""
    found = []
    for number in range(count):
        found.append(expression(np.random.default_rng([seed, number]), shortest, longest))
        progress(number + 1, count)
    return [np.array(ids, dtype=np.uint8) for ids, _ in found], np.array([v for _, v in found])


def first_token_rule(ids: np.ndarray) -> int:
    """Say 0 of a minimum, 9 of a maximum, else 4: 37.25 % of the benchmark's test set (Chen 2021, footnote 4)."""
    return {TOKENS.index("[MIN"): 0, TOKENS.index("[MAX"): 9}.get(int(ids[0]), 4)


def read_expression(text: str) -> np.ndarray:
    """Return the ids of an expression as the benchmark's files write it; their round brackets mean nothing."""
    words = text.replace("(", " ").replace(")", " ").split()
    unknown = [word for word in words if word not in TOKENS]
    if unknown or not words:
        raise ValueError(
            f"{unknown[0] if unknown else 'an empty line'!r} is not a token of ListOps"
        )
    return np.array([TOKENS.index(word) for word in words], dtype=np.uint8)
