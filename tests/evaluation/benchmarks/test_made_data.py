"""Generated data: an independent method finds the same answers."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import ndimage

from evaluation.benchmarks import made as made_data
from evaluation.benchmarks.made import (
    DEEPEST,
    INK,
    MARK,
    MOST_ARGUMENTS,
    NEGATIVE,
    POSITIVE,
    PROBE,
    TOKENS,
    Paths,
    by_nearest,
    clouds,
    fields,
)
from evaluation.benchmarks.tasks import Sizes, data_of, recipe


def quiet(done: int, total: int) -> None:
    pass


expressions = partial(made_data.listops, progress=quiet)
pictures = partial(made_data.pathfinder, progress=quiet)


def evaluated(ids: list[int]) -> tuple[int, int, list[int]]:
    """Evaluate an expression with a stack; return its value, its depth and the operators' numbers of arguments."""
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


@pytest.mark.parametrize(("number", "shortest", "longest"), [(1500, 4, 120), (30, 500, 2000)])
def test_a_second_evaluator_agrees_on_expressions(number: int, shortest: int, longest: int) -> None:
    found, values = expressions(number, shortest, longest, 5)
    depths, arguments = set(), set()
    for ids, value in zip(found, values, strict=True):
        assert shortest <= len(ids) <= longest
        again, depth, counts = evaluated(ids.tolist())
        assert again == value, [TOKENS[i] for i in ids]
        depths.add(depth)
        arguments |= set(counts)
    assert arguments == set(range(2, MOST_ARGUMENTS + 1))
    assert max(depths) == DEEPEST if longest == 2000 else 5 < max(depths) <= DEEPEST
    data = data_of("listops", None, Sizes(train=3, test=2, shortest=4, longest=60), quiet)
    assert (len(data.train.inputs), len(data.test.inputs)) == (3, 2)
    few, other = (expressions(3, shortest, longest, seed)[0] for seed in (5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(few, found[:3], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(few, other, strict=True))


def test_clouds_are_balanced_and_only_the_field_of_all_charges_gives_the_answer() -> None:
    made = clouds(2000, 10, 4)
    tokens = np.stack(made.inputs)
    assert (tokens[:, 0] == PROBE).all()
    for sign in (POSITIVE, NEGATIVE):
        assert ((tokens == sign).sum(1) == 5).all()
    assert 0.45 < made.labels.mean() < 0.55
    assert made.places.shape == (2000, 11, 3)
    assert np.array_equal(made.places, clouds(2000, 10, 4).places)
    signs = np.where(tokens[:, 1:] == POSITIVE, 1.0, -1.0)
    found = fields(signs, made.places[:, 1:], made.places[:, 0])
    assert ((found > 0) == made.labels).mean() > 0.999  # places are stored in float32
    for n in range(3):
        probe, *places = made.places[n]
        weights = [math.exp(-(math.dist(r, probe) ** 2) / (2 * 0.3**2)) for r in places]
        assert found[n] == pytest.approx(signs[n] @ weights)
    with pytest.raises(ValueError, match="a cloud cannot have 7 charges; give an even number"):
        clouds(3, 7, 0)
    # The nearest charge gives most answers, but not all.
    distances = np.linalg.norm(made.places[:, 1:] - made.places[:, :1], axis=2)
    nearest = signs[np.arange(2000), distances.argmin(1)] > 0
    assert 0.7 < by_nearest(made) == (nearest == made.labels).mean() < 0.95


def followed(pixels: np.ndarray) -> bool:
    """Return whether drawn pixels connect the marks."""
    first, last = ndimage.label(pixels, np.ones((3, 3)))[0][pixels == MARK]
    return first == last


def test_following_the_paths_finds_every_answer_of_small_and_large_pictures() -> None:
    short = recipe("pathfinder-short").data
    for count, size, paths in ((1500, short.size, short.paths), (40, 32, Paths())):
        pixels, labels = pictures(count, size, paths, 3)
        assert pixels.shape == (count, size, size)
        assert [followed(one) for one in pixels] == labels.tolist()
        assert (pixels[:, 0, 0] == MARK).all()
        assert set(labels) == {0, 1}
        assert set(np.unique(pixels)) == {0, INK, MARK}
