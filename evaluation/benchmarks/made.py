"""Data that are made with known answers: ListOps, Pathfinder and points in space, and simple rules to beat."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from evaluation.benchmarks.training import Examples

# ListOps from its definition: nested operations on digits, whose value is the class (Nangia & Bowman 2018).
#
# An expression is a digit, or an operator with 2 to 10 arguments that are expressions, closed by a bracket. An argument
# is an operation with probability 1/4, and never below depth 10. The long form (Tay et al. 2021, Long Range Arena)
# keeps expressions of 500 to 2,000 tokens. Operators: minimum, maximum, median (rounded down), sum modulo 10.

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
VALUES = 10  # so many classes
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


# Pathfinder by a generator of our own: are two marks the ends of one path?
#
# After the task of the Long Range Arena (Linsley et al. 2018; Tay et al. 2021), whose pictures come as files;
# accuracies on the two do not compare. Every picture has two long paths, perhaps some short ones, and marks on two ends
# of the long ones: on both ends of one the class is 1, on an end of each it is 0. Each picture is paired with one of
# the other class whose marks stand in the same places, so that the marks alone say nothing. Paths keep a distance wider
# than the gap between dashes, so that following them gives the answer.
#
# n pictures, S steps of a path.

BLOCK = 1024  # pictures that are drawn at a time
TRIES = 30  # of a path, before its picture is given up
PATIENCE = 20  # blocks without a picture that is new
RASTER = 8  # fields a side, in which the marks of both classes stand equally often; in 8 by 8 pixels these are pixels
INK, MARK = 160, 255  # of 0 … 255
# Ends 0 and 1 are of the first long path, 2 and 3 of the second: by class, which may be marked.
MARKED = np.array([[[0, 2], [0, 3], [1, 2], [1, 3]], [[0, 1], [0, 1], [2, 3], [2, 3]]])
WITH_END_0 = 2  # of each come first


@dataclass(frozen=True, kw_only=True)
class Paths:
    """What is drawn: as it stands, on 32 by 32 pixels, two dashed paths among short ones, as the benchmark has them."""

    steps: int = 29  # of a pixel's length, of either long path
    short: int = 2  # paths without marks
    short_steps: int = 8
    dash: int = 3  # steps that are drawn, and then
    gap: int = 2  # steps that are not
    apart: float = 4.5  # pixels between any two paths at least
    bend: float = 0.25  # radians a step at most
    corner: bool = False  # whether the first begins in the upper left corner, with a mark

    def __post_init__(self) -> None:
        if min(self.steps, self.short_steps) < 2 or min(self.short, self.gap) < 0 or self.dash < 1:
            raise ValueError("a path has 2 steps or more, and a dash 1 or more")
        if self.apart <= self.widest:
            raise ValueError(
                f"apart is {self.apart}, but dashes of one path are up to {self.widest:.2f} pixels apart"
            )

    @property
    def widest(self) -> float:
        """Pixels between dashes of one path at most: of gap + 1 steps, each moves either coordinate by up to 1."""
        return (self.gap + 1) * math.sqrt(2)

    @property
    def all_steps(self) -> list[int]:
        """How many steps each path has, the long ones first."""
        return [self.steps, self.steps, *[self.short_steps] * self.short]

    @property
    def drawn(self) -> np.ndarray:
        """Which steps of all paths, one after the other, are drawn: dashes, and the last one."""
        return np.concatenate(
            [
                (np.arange(steps) % (self.dash + self.gap) < self.dash)
                | (np.arange(steps) == steps - 1)
                for steps in self.all_steps
            ]
        )


def pathfinder(
    count: int,
    size: int,
    paths: Paths,
    seed: int,
    progress: Callable[[int, int], None],
) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures, (n, size, size), and labels, (n,): pairs of both classes, no two alike but for the marks."""
    random = np.random.default_rng(seed)
    seen: set[bytes] = set()
    waiting: defaultdict[tuple[bytes, int], list[np.ndarray]] = defaultdict(list)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []  # of classes 0 and 1
    wanted, failures = -(-count // 2), 0
    while len(pairs) < wanted:
        before = len(pairs)
        for pixels, places, label in _block(random, size, paths):
            plain = np.minimum(pixels, INK).tobytes()  # but for the marks
            if plain in seen:
                continue
            seen.add(plain)
            others = waiting[places, 1 - label]
            if others:
                pairs.append((others.pop(), pixels) if label else (pixels, others.pop()))
            else:
                waiting[places, label].append(pixels)
        failures = failures + 1 if len(pairs) == before else 0
        if failures > PATIENCE:
            raise ValueError(
                f"there are no {count} different pictures of {size} by {size} pixels with such paths"
            )
        progress(min(len(pairs), wanted), wanted)
    order = random.permutation(len(pairs))[:wanted]  # marks in common places find a pair first
    found = np.stack([pixels for number in order for pixels in pairs[number]])
    return found[:count], np.tile([0, 1], wanted)[:count]


def _block(
    random: np.random.Generator, size: int, paths: Paths
) -> Iterator[tuple[np.ndarray, bytes, int]]:
    """Draw some pictures, with the fields of their marks and their labels; where paths find no room, there is none."""
    cells = np.empty((BLOCK, 0, 2), dtype=np.int64)
    for number, steps in enumerate(paths.all_steps):
        curves = partial(_curves, random, steps, size, paths.bend, paths.corner and number == 0)
        path, fits = _placed(curves, steps, size, paths.apart, cells)
        cells = np.concatenate([cells, path], 1)[fits]
    second = paths.steps
    ends = cells[:, [0, second - 1, second, 2 * second - 1]]  # (n, 4, 2)
    labels = random.integers(2, size=len(cells))
    rows = np.arange(len(cells))[:, None]
    choices = WITH_END_0 if paths.corner else MARKED.shape[1]
    marks = ends[rows, MARKED[labels, random.integers(choices, size=len(cells))]]  # (n, 2, 2)
    pixels = np.zeros((len(cells), size, size), dtype=np.uint8)
    for places, value in ((cells[:, paths.drawn], INK), (marks, MARK)):
        pixels[rows, places[..., 0], places[..., 1]] = value
    fields = np.sort((marks * RASTER // size) @ [RASTER, 1], axis=1)  # (n, 2)
    for one, places, label in zip(pixels, fields, labels.tolist(), strict=True):
        yield one, places.tobytes(), label


def _placed(
    curves: Callable[[int], np.ndarray], steps: int, size: int, apart: float, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each picture the cells of a path away from its others, (n, steps, 2), and whether one was found."""
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
    random: np.random.Generator, steps: int, size: int, bend: float, corner: bool, count: int
) -> np.ndarray:
    """Return the cells of curves that turn a little at each step, (count, steps, 2)."""
    place = np.zeros((count, 2)) if corner else random.uniform(0, size - 1, (count, 2))
    angle = random.uniform(0, np.pi / 2 if corner else 2 * np.pi, count)
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


# Rules for Pathfinder that follow no path: logistic regression on statistics of the pixels, and on how much of the
# straight line between the marks is drawn, which is the answer wherever a path is nearly straight.

Pictures = tuple[np.ndarray, np.ndarray]
"""Pictures, (n, size, size), and labels, (n,)."""


def rules(train: Pictures, test: Pictures) -> dict[str, float]:
    """Return the accuracy on the test of each rule, fitted to what is trained on."""
    named = {
        "rule by lit pixels, places and distance of marks": counts,
        "rule by lit pixels on the line between marks": line,
    }
    return {
        name: _accuracy(of(train[0]), train[1], of(test[0]), test[1]) for name, of in named.items()
    }


def counts(pixels: np.ndarray) -> np.ndarray:
    """Return the pixels that are drawn, those next to marks, and of the marks the distance, its parts, the middle."""
    count, size, _ = pixels.shape
    marks = marks_of(pixels)
    apart = np.abs(marks[:, 1] - marks[:, 0])  # (n, 2)
    middle = np.abs(marks.mean(1) - (size - 1) / 2)
    from_middle = np.abs(marks - (size - 1) / 2).max(-1)  # (n, 2)
    around = np.pad(pixels > 0, ((0, 0), (1, 1), (1, 1)))
    beside = sum(
        around[np.arange(count), marks[:, end, 0] + row, marks[:, end, 1] + column].astype(float)
        for end in range(2)
        for row in range(3)
        for column in range(3)
    )
    columns = [
        (pixels > 0).sum((1, 2)), beside, np.hypot(*apart.T), apart.min(1), apart.max(1),
        middle.min(1), middle.max(1), from_middle.min(1), from_middle.max(1),
    ]  # fmt: skip
    return np.stack(columns, 1).astype(float)


def line(pixels: np.ndarray) -> np.ndarray:
    """Return the share of the straight line between the marks that is drawn, (n, 1)."""
    count, size, _ = pixels.shape
    marks = marks_of(pixels)
    share = np.linspace(0, 1, 2 * size)[:, None]
    places = np.rint(marks[:, :1] + share * (marks[:, 1:] - marks[:, :1])).astype(int)
    drawn = pixels[np.arange(count)[:, None], places[..., 0], places[..., 1]] > 0
    return drawn.mean(1, keepdims=True)


def marks_of(pixels: np.ndarray) -> np.ndarray:
    """Return the rows and columns of both marks, (n, 2, 2)."""
    return np.argwhere(pixels == MARK)[:, 1:].reshape(len(pixels), 2, 2)


def _accuracy(
    train: np.ndarray, labels: np.ndarray, test: np.ndarray, answers: np.ndarray
) -> float:
    """Return the accuracy of logistic regression on the values and their squares."""
    from sklearn.linear_model import LogisticRegression  # takes seconds to import
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    squared = FunctionTransformer(lambda values: np.hstack([values, values**2]))
    model = make_pipeline(StandardScaler(), squared, LogisticRegression(max_iter=1000))
    return float(model.fit(train, labels).score(test, answers))


# Points in space with a known answer: is the field of some charges positive where a probe stands?
#
# As many charges are +1 as are −1, at random places r_j of a cube, and the field at the probe's place r is E = Σ_j
# c_j exp(−|r_j − r|² / 2s²). So the charges alone say nothing, and only their distances from the probe do. It stands
# for FourierLearner's molecules (Choromanski et al. 2023, section 4.3), whose data it is not.

REACH = 0.3  # s, of a cube of side 1
NEGATIVE, POSITIVE, PROBE = range(3)  # tokens


def by_nearest(made: Examples) -> float:
    """Return the accuracy of taking the sign of the charge that is nearest to the probe."""
    assert made.places is not None, "clouds have places"
    away = ((made.places[:, 1:] - made.places[:, :1]) ** 2).sum(-1)
    nearest = np.stack(made.inputs)[np.arange(len(away)), 1 + away.argmin(1)]
    return float(((nearest == POSITIVE) == made.labels).mean())


def fields(charges: np.ndarray, places: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """Return E of charges ±1 at probes: (n, P), (n, P, 3) and (n, 3) → (n,)."""
    squared = ((places - probes[:, None]) ** 2).sum(-1)
    return (charges * np.exp(-squared / (2 * REACH**2))).sum(-1)


def clouds(count: int, points: int, seed: int) -> Examples:
    """Draw clouds of so many charges after a probe; either answer is as likely, since changing all signs changes it."""
    if points < 2 or points % 2:
        raise ValueError(f"a cloud of {points} charges has no half; give an even number")
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
