"""Pathfinder by a generator of our own: are two marked ends the ends of one dashed path?

After the task of the Long Range Arena (Linsley et al. 2018; Tay et al. 2021), whose images come as files; this is no
copy of their generator, and accuracies on the two do not compare. Both classes have the same: two long dashed paths,
some short ones, and two marks on ends of long paths. On one path, the class is 1; on one each, it is 0. Lines of
different paths keep a distance wider than the gap between dashes, so that the answer is in the picture: `joined` finds
it by following dashes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

DASH, GAP = 3, 2  # steps of about a pixel that are drawn, and then are not
APART = 4.5  # pixels between any two paths at least; dashes of one are at most 3 steps apart, and rounding adds √2
BEND = 0.25  # radians a step, at most
INK, MARK = 160, 255  # of 0 … 255
CLASSES = 2


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An image, (size, size), where its marks are, and whether they are the ends of one path."""

    pixels: np.ndarray
    marks: tuple[tuple[int, int], tuple[int, int]]
    label: int


def picture(random: np.random.Generator, size: int) -> Picture:
    """Draw a picture; paths that do not fit are drawn again."""
    while True:
        long, short = round(size * 0.9), round(size * 0.25)
        paths: list[np.ndarray] = []
        for steps in (long, long, *[short] * max(1, size // 12)):
            path = _placed(random, size, steps, paths)
            if path is None:
                break
            paths.append(path)
        if len(paths) < 2:
            continue
        label = int(random.integers(2))
        first = paths[0][[0, -1]]
        second = paths[1][[0, -1]]
        ends = first if label else np.stack([first[random.integers(2)], second[random.integers(2)]])
        ends = ends[random.permutation(2)]
        pixels = np.zeros((size, size), dtype=np.uint8)
        for path in paths:
            for step, (row, column) in enumerate(path):
                if step % (DASH + GAP) < DASH or step == len(path) - 1:
                    pixels[row, column] = INK
        marks = tuple((int(row), int(column)) for row, column in ends)
        for row, column in marks:
            pixels[row, column] = MARK
        return Picture(pixels=pixels, marks=(marks[0], marks[1]), label=label)


def _placed(
    random: np.random.Generator, size: int, steps: int, others: list[np.ndarray]
) -> np.ndarray | None:
    """Return the cells of a path that stays inside and away from the others and from itself, (steps, 2), or None."""
    taken = np.concatenate(others) if others else np.empty((0, 2), dtype=np.int64)
    for _ in range(60):
        place = random.uniform(1, size - 2, 2)
        angle, turn = random.uniform(0, 2 * np.pi), 0.0
        cells = []
        for _ in range(steps):
            turn = float(np.clip(turn + random.normal(0, BEND / 2), -BEND, BEND))
            angle += turn
            place = place + np.array([np.sin(angle), np.cos(angle)])
            cells.append(np.rint(place).astype(np.int64))
        path = np.array(cells)
        if path.min() < 1 or path.max() > size - 2:
            continue
        if len(taken) and _distances(path, taken).min() < APART:
            continue
        if _meets_itself(path):
            continue
        return path
    return None


def _distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.sqrt(((one[:, None] - other[None]) ** 2).sum(-1))


def _meets_itself(path: np.ndarray) -> bool:
    apart = np.abs(np.arange(len(path))[:, None] - np.arange(len(path)))
    return bool((_distances(path, path)[apart > 8] < APART).any())


def joined(found: Picture) -> bool:
    """Tell whether the marks are joined by following dashes over gaps: by the pixels alone."""
    inked = {(int(row), int(column)) for row, column in np.argwhere(found.pixels)}
    reached, edge = {found.marks[0]}, [found.marks[0]]
    while edge:
        row, column = edge.pop()
        for other in list(inked - reached):
            if (other[0] - row) ** 2 + (other[1] - column) ** 2 < APART**2:
                reached.add(other)
                edge.append(other)
    return found.marks[1] in reached


def pathfinder(
    count: int, size: int, seed: int, progress: Callable[[int, int], None]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return pictures row by row as sequences of grey values, and their labels."""
    found = []
    for number in range(count):
        found.append(picture(np.random.default_rng([seed, number]), size))
        progress(number + 1, count)
    return [one.pixels.reshape(-1) for one in found], np.array([one.label for one in found])
