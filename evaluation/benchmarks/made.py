"""Generate data with known answers, ListOps, Pathfinder and points in space, and measure simple rules on them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from evaluation.benchmarks.training import Examples

# ListOps, generated from its definition: nested operations on digits; the class is their value (Nangia & Bowman 2018).
#
# An expression is a digit, or an operator with 2 to 10 expressions as arguments and a closing bracket. An argument is
# an operation with probability 1/4, down to depth 10. The long form (Tay et al. 2021, Long Range Arena) keeps
# expressions of 500 to 2,000 tokens. Operators: minimum, maximum, median (rounded down), sum modulo 10.

OPERATORS: dict[str, Callable[[Sequence[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}
CLOSE = "]"
TOKENS = [*map(str, range(10)), *OPERATORS, CLOSE]
"""The vocabulary; a token's id is its index."""

OPERATION = 0.25  # probability that an argument is an operation
MOST_ARGUMENTS, DEEPEST = 10, 10
VALUES = 10  # classes
_NAMES = list(OPERATORS)


class _TooLong(Exception):
    """The expression exceeds the longest length."""


def expression(random: np.random.Generator, shortest: int, longest: int) -> tuple[list[int], int]:
    """Draw expressions until one has a permitted length, and return its ids and its value."""
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
    """Return expressions and their values; each expression depends only on the seed and its index."""
    found = []
    for number in range(count):
        found.append(expression(np.random.default_rng([seed, number]), shortest, longest))
        progress(number + 1, count)
    return [np.array(ids, dtype=np.uint8) for ids, _ in found], np.array([v for _, v in found])


def first_token_rule(ids: np.ndarray) -> int:
    """Guess 0 for a minimum, 9 for a maximum, else 4: 37.25 % right on the benchmark's test (Chen 2021, footnote 4)."""
    return {TOKENS.index("[MIN"): 0, TOKENS.index("[MAX"): 9}.get(int(ids[0]), 4)


# Pathfinder, with our own generator: are two marks the ends of one path?
#
# The task is that of the Long Range Arena (Linsley et al. 2018; Tay et al. 2021), whose pictures are files; accuracies
# on the two cannot be compared. Every picture has two paths without gaps, one of which begins in the upper left corner,
# with a mark; the other mark is on another end. The class is 1 if both marks are on one path, otherwise 0. Each picture
# has a partner of the other class with marks in the same places, so that the marks alone carry no information.
#
# n pictures, S steps of a path.

BLOCK = 1024  # pictures drawn at a time
TRIES = 30  # for a path, before its picture is given up
PATIENCE = 20  # blocks without a new pair before giving up
RASTER = 8  # fields per side; the marks of both classes are in the same fields; single pixels if the size is 8
INK, MARK = 160, 255  # of 0 … 255
# The ends that can be marked besides end 0, by class; ends 0 and 1 belong to the first path, 2 and 3 to the second.
MARKED = np.array([[2, 3], [1, 1]])


@dataclass(frozen=True, kw_only=True)
class Paths:
    """The paths in a picture; the defaults are for 32 by 32 pixels."""

    steps: int = 29  # of one pixel
    apart: float = 4.5  # least distance between the two paths, in pixels
    bend: float = 0.25  # largest turn per step, in radians


def pathfinder(
    count: int,
    size: int,
    paths: Paths,
    seed: int,
    progress: Callable[[int, int], None],
) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures, (n, size, size), and labels, (n,): pairs of both classes, with all paths different."""
    random = np.random.default_rng(seed)
    seen: set[bytes] = set()
    waiting: defaultdict[tuple[int, int], list[np.ndarray]] = defaultdict(list)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []  # of classes 0 and 1
    wanted, failures = -(-count // 2), 0
    while len(pairs) < wanted:
        before = len(pairs)
        for pixels, place, label in _block(random, size, paths):
            plain = np.minimum(pixels, INK).tobytes()  # without the marks
            if plain in seen:
                continue
            seen.add(plain)
            others = waiting[place, 1 - label]
            if others:
                pairs.append((others.pop(), pixels) if label else (pixels, others.pop()))
            else:
                waiting[place, label].append(pixels)
        failures = failures + 1 if len(pairs) == before else 0
        if failures > PATIENCE:
            raise ValueError(
                f"cannot draw {count} different pictures of {size} by {size} pixels with these paths"
            )
        progress(min(len(pairs), wanted), wanted)
    order = random.permutation(len(pairs))[:wanted]  # since common places of marks are paired first
    found = np.stack([pixels for number in order for pixels in pairs[number]])
    return found[:count], np.tile([0, 1], wanted)[:count]


def _block(
    random: np.random.Generator, size: int, paths: Paths
) -> Iterator[tuple[np.ndarray, int, int]]:
    """Draw pictures with the field of the second mark and their labels; those whose paths do not fit are left out."""
    cells = np.empty((BLOCK, 0, 2), dtype=np.int64)
    for in_corner in (True, False):
        curves = partial(_curves, random, paths.steps, size, paths.bend, in_corner)
        path, fits = _placed(curves, paths.steps, size, paths.apart, cells)
        cells = np.concatenate([cells, path], 1)[fits]
    ends = cells[:, [0, paths.steps - 1, paths.steps, 2 * paths.steps - 1]]  # (n, 4, 2)
    labels = random.integers(2, size=len(cells))
    rows = np.arange(len(cells))
    second = ends[rows, MARKED[labels, random.integers(2, size=len(cells))]]  # (n, 2)
    pixels = np.zeros((len(cells), size, size), dtype=np.uint8)
    pixels[rows[:, None], cells[..., 0], cells[..., 1]] = INK
    pixels[:, 0, 0] = MARK
    pixels[rows, second[:, 0], second[:, 1]] = MARK
    fields = (second * RASTER // size) @ [RASTER, 1]
    yield from zip(pixels, fields.tolist(), labels.tolist(), strict=True)


def _placed(
    curves: Callable[[int], np.ndarray], steps: int, size: int, apart: float, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find a path apart from the others in each picture; return its cells, (n, steps, 2), and whether it was found."""
    found = np.zeros((len(others), steps, 2), dtype=np.int64)
    missing = np.arange(len(others))
    later = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps))) > 2 * apart
    for _ in range(TRIES):
        path = curves(len(missing))
        fits: np.ndarray = np.all((path >= 0) & (path < size), axis=(1, 2))
        near = _distances(path[fits], others[missing[fits]]) < apart
        itself = (_distances(path[fits], path[fits]) < apart) & later
        fits[fits] = ~(near.any((1, 2)) | itself.any((1, 2)))
        found[missing[fits]] = path[fits]
        missing = missing[~fits]
    return found, ~np.isin(np.arange(len(others)), missing)


def _curves(
    random: np.random.Generator, steps: int, size: int, bend: float, in_corner: bool, count: int
) -> np.ndarray:
    """Draw curves that turn a little at each step; return their cells, (count, steps, 2)."""
    place = np.zeros((count, 2)) if in_corner else random.uniform(0, size - 1, (count, 2))
    angle = random.uniform(0, np.pi / 2 if in_corner else 2 * np.pi, count)
    turn = np.zeros(count)
    cells = np.empty((count, steps, 2), dtype=np.int64)
    for step in range(steps):
        cells[:, step] = np.rint(place)
        place = place + np.stack([np.sin(angle), np.cos(angle)], -1)
        turn = np.clip(turn + random.normal(0, bend / 2, count), -bend, bend)
        angle = angle + turn
    return cells


def _distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the distances of cells in each picture, (n, S, 2) and (n, T, 2) → (n, S, T)."""
    return np.sqrt(((one[:, :, None] - other[:, None]) ** 2).sum(-1))


Pictures = tuple[np.ndarray, np.ndarray]
"""Pictures, (n, size, size), and labels, (n,)."""


def line_rule(train: Pictures, test: Pictures) -> float:
    """Return the test accuracy of a rule that does not follow the path, fitted to the training pictures.

    It is logistic regression on the drawn fraction of the straight line between the marks and on its square.
    """
    from sklearn.linear_model import LogisticRegression  # takes seconds to import
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def values(pixels: np.ndarray) -> np.ndarray:
        drawn = _drawn_between_marks(pixels)
        return np.stack([drawn, drawn**2], 1)

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return float(model.fit(values(train[0]), train[1]).score(values(test[0]), test[1]))


def _drawn_between_marks(pixels: np.ndarray) -> np.ndarray:
    """Return the drawn fraction of the straight line between the marks, (n,)."""
    count, size, _ = pixels.shape
    marks = np.argwhere(pixels == MARK)[:, 1:].reshape(count, 2, 2)
    along = np.linspace(0, 1, 2 * size)[:, None]
    places = np.rint(marks[:, :1] + along * (marks[:, 1:] - marks[:, :1])).astype(int)
    return (pixels[np.arange(count)[:, None], places[..., 0], places[..., 1]] > 0).mean(1)


# Points in space: is the field of some charges positive at a probe?
#
# Half of the charges are +1 and half −1, at random places r_j in a cube, and the field at the probe's place r is
# E = Σ_j c_j exp(−|r_j − r|² / 2s²). The charges alone carry no information, only their distances from the probe do. It
# replaces the molecules of FourierLearner (Choromanski et al. 2023, section 4.3), whose data are different.

REACH = 0.3  # s, of a cube of side 1
NEGATIVE, POSITIVE, PROBE = range(3)  # tokens


def by_nearest(made: Examples) -> float:
    """Return the accuracy of the sign of the charge that is nearest to the probe."""
    assert made.places is not None, "clouds have places"
    away = ((made.places[:, 1:] - made.places[:, :1]) ** 2).sum(-1)
    nearest = np.stack(made.inputs)[np.arange(len(away)), 1 + away.argmin(1)]
    return float(((nearest == POSITIVE) == made.labels).mean())


def fields(charges: np.ndarray, places: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """Return E of charges ±1 at probes: (n, P), (n, P, 3) and (n, 3) → (n,)."""
    squared = ((places - probes[:, None]) ** 2).sum(-1)
    return (charges * np.exp(-squared / (2 * REACH**2))).sum(-1)


def clouds(count: int, points: int, seed: int) -> Examples:
    """Draw clouds of a probe and `points` charges; both answers have probability 1/2, by the symmetry of signs."""
    if points < 2 or points % 2:
        raise ValueError(f"a cloud cannot have {points} charges; give an even number")
    random = np.random.default_rng(seed)
    signs = np.tile(np.repeat([1.0, -1.0], points // 2), (count, 1))
    charges = random.permuted(signs, axis=1)
    places = random.random((count, 1 + points, 3))
    labels = fields(charges, places[:, 1:], places[:, 0]) > 0
    kinds = np.where(charges > 0, POSITIVE, NEGATIVE)
    tokens = np.pad(kinds, ((0, 0), (1, 0)), constant_values=PROBE).astype(np.uint8)
    return Examples(
        inputs=list(tokens),
        places=places.astype(np.float32),
        labels=labels.astype(np.int64),
    )
