"""Pathfinder's pictures: flood fill finds every answer again, and nothing but a path tells the classes apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from evaluation.benchmarks.pathfinder import (
    INK,
    MARK,
    Paths,
    line,
    pathfinder,
    rules,
    statistics,
    unmarked,
)
from evaluation.benchmarks.recipe import Sizes, recipe
from evaluation.benchmarks.tasks import material

SHORT = recipe("pathfinder-short").data
TINY = Paths(steps=3, short=0, gap=0, apart=2.0, bend=0.5)
INKED = "rule by lit pixels on the line between marks"
MARKED = "rule by lit pixels, places and distance of marks"


def quiet(done: int, total: int) -> None:
    pass


def short(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return pathfinder(count, SHORT.size, SHORT.paths, seed, quiet)


def followed(pixels: np.ndarray, apart: float) -> bool:
    """Tell whether the marks are joined by drawn pixels that are less than `apart` from one another."""
    inked = {(int(row), int(column)) for row, column in np.argwhere(pixels)}
    first, last = map(tuple, np.argwhere(pixels == MARK).tolist())
    reached, edge = {first}, [first]
    while edge:
        row, column = edge.pop()
        near = {(r, c) for r, c in inked - reached if (r - row) ** 2 + (c - column) ** 2 < apart**2}
        reached |= near
        edge += near
    return last in reached


def test_flood_fill_finds_every_answer_of_ten_thousand_short_pictures() -> None:
    pixels, labels = short(10_000, 3)
    touching = np.ones((3, 3))
    for one, label in zip(pixels, labels, strict=True):
        regions, paths = ndimage.label(one > 0, structure=touching)
        assert paths == 2
        first, last = regions[one == MARK]
        assert (first == last) == label, one


def test_following_the_dashes_finds_every_answer_of_large_pictures() -> None:
    paths = Paths()
    pixels, labels = pathfinder(60, 32, paths, 3, quiet)
    assert pixels.shape == (60, 32, 32)
    assert [followed(one, paths.apart) for one in pixels] == labels.tolist()
    assert set(labels) == {0, 1}
    assert set(np.unique(pixels)) == {0, INK, MARK}
    for one, label in zip(pixels, labels, strict=True):
        assert not followed(one, 2.0) or not label, "there are gaps"


def test_pictures_say_nothing_but_by_their_paths() -> None:
    """Both classes mark the same places as often; a rule on ink and marks is at chance, and need not be."""
    (pixels, labels), test = short(6000, 5), short(4000, 6)
    for one, same in ((pixels, labels), test):
        where = [np.argwhere(x == MARK).ravel().tolist() for x in one]
        by_class = [
            sorted(w for w, label in zip(where, same, strict=True) if label == c) for c in (0, 1)
        ]
        assert by_class[0] == by_class[1]
    assert abs(rules((pixels, labels), test)[MARKED] - 0.5) < 0.035
    ink, inked = ((one > 0).sum((1, 2)) for one in (pixels, test[0]))
    limit = np.median(ink)
    assert rules((pixels, ink > limit), (test[0], inked > limit))[MARKED] > 0.95


def test_the_straight_line_between_the_marks_says_some() -> None:
    one = np.zeros((2, 5, 5), dtype=np.uint8)
    one[:, 2, [0, 4]] = MARK
    one[0, 2, 1:4] = INK
    one[1, [0, 4], 2] = INK
    assert line(one)[:, 0] == pytest.approx([1.0, 0.4], abs=0.05)  # the marks alone are two of five
    found = statistics(one)
    assert found[:, 0].tolist() == [5, 4]  # drawn
    assert found[:, 1].tolist() == [4, 2]  # the marks and those beside them
    assert found[:, 2].tolist() == [4, 4]  # how far apart
    train, test = short(3000, 7), short(2000, 8)
    assert 0.6 < rules(train, test)[INKED] < 0.95


def test_pictures_are_a_function_of_the_seed() -> None:
    one, again, other = short(300, 1), short(300, 1), short(300, 2)
    assert np.array_equal(one[0], again[0])
    assert one[1].tolist() == again[1].tolist()
    assert not np.array_equal(one[0], other[0])


def test_no_picture_is_learned_and_tested() -> None:
    """Nor is it with other marks; of pictures so small, two draws share many."""
    sizes = Sizes(train=600, test=200, size=6, paths=TINY)
    data = material("pathfinder", None, sizes, quiet)
    assert data.train is not None
    assert data.test is not None
    learned, tested = ({unmarked(one) for one in split.inputs} for split in (data.train, data.test))
    assert (len(learned), len(tested)) == (600, 200)
    assert not learned & tested
    drawn = {unmarked(one) for one in pathfinder(600, 6, TINY, 9, quiet)[0]}
    assert drawn & tested
    assert data.grid == (6, 6)


def test_one_mark_may_stand_in_the_corner_always() -> None:
    pixels, _ = short(2000, 4)
    assert SHORT.paths.corner
    assert (pixels[:, 0, 0] == MARK).all()
    open_paths, _ = pathfinder(2000, 7, replace(SHORT.paths, corner=False), 4, quiet)
    assert (open_paths[:, 0, 0] == MARK).mean() < 0.2


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ValueError, match="no 5000 different pictures of 4 by 4"):
        pathfinder(5000, 4, TINY, 0, quiet)
    with pytest.raises(ValueError, match=r"apart is 4.5, but dashes of one path are up to 5.66"):
        replace(Paths(), gap=3)
    with pytest.raises(ValueError, match="a path has 2 steps or more"):
        Paths(steps=1)
