"""What can be said of a Pathfinder picture without following its paths: a model has to beat these.

Logistic regression on statistics of the pixels that know of no path, and on how much of the straight line between the
marks is drawn, which is the answer wherever a path is nearly straight.
"""

from __future__ import annotations

import numpy as np

from evaluation.benchmarks.pathfinder.pictures import MARK

Split = tuple[np.ndarray, np.ndarray]
"""Pictures, (n, size, size), and labels, (n,)."""


def rules(train: Split, test: Split) -> dict[str, float]:
    """Return the accuracy on the test of each rule, fitted to what is trained on."""
    named = {
        "rule by lit pixels, places and distance of marks": statistics,
        "rule by lit pixels on the line between marks": line,
    }
    return {
        name: _accuracy(of(train[0]), train[1], of(test[0]), test[1]) for name, of in named.items()
    }


def statistics(pixels: np.ndarray) -> np.ndarray:
    """Return the pixels that are drawn, those beside marks, and of the marks the distance, its parts, the middle."""
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
    """Return the accuracy of logistic regression on the values and their squares, by Newton's method."""
    mean, deviation = train.mean(0), train.std(0) + 1e-9

    def inputs(values: np.ndarray) -> np.ndarray:
        scaled = (values - mean) / deviation
        return np.concatenate([np.ones((len(values), 1)), scaled, scaled**2], 1)

    x = inputs(train)
    weights = np.zeros(x.shape[1])
    for _ in range(10):
        p = 1 / (1 + np.exp(-x @ weights))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + np.eye(len(weights))
        weights += np.linalg.solve(curvature, x.T @ (labels - p) - weights)
    return float(((inputs(test) @ weights > 0) == answers).mean())
