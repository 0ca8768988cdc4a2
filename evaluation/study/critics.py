"""Critics that learn to tell two kinds of windows apart: by statistics, and a network over piano rolls.

N windows, F statistics, C channels, H pitches, W sixteenths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tokenization.analysis.statistics import PITCHES, STEPS, Excerpt

SEED = 0
TREES, LEAVES, RATE, FEWEST_IN_A_LEAF = 200, 6, 0.06, 10
EXTREMES = 0.02, 0.98  # quantiles to which a linear critic clips statistics
SHRINKING = 100.0  # of its weights
LOWEST, HEIGHT, SIXTEENTH, WIDTH = 21, 88, STEPS // 4, 128
EPOCHS, BATCH, WEIGHT_DECAY, SHIFT = (
    14,
    32,
    0.02,
    6,
)  # rolls are transposed by up to SHIFT while learning


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Windows of pieces, on which critics learn and judge."""

    values: np.ndarray  # (N, F) float32; NaN where a statistic is missing
    rolls: np.ndarray  # (N, C, H, W) uint8
    piece: np.ndarray  # (N,) the row of each one's piece
    take: np.ndarray  # (N,) of that piece; −1 for the piece itself
    bar: np.ndarray  # (N,) at which it begins

    def __len__(self) -> int:
        return len(self.piece)

    def __getitem__(self, some: np.ndarray) -> Windows:
        return Windows(**{name: column[some] for name, column in vars(self).items()})

    @property
    def written(self) -> np.ndarray:
        """Whether each is generated: (N,) bool."""
        return self.take >= 0


Judge = Callable[[Windows], np.ndarray]
"""Returns the score of each window, (N,): the higher, the more it is taken for the second kind.

NaN if nothing could be learned.
"""


def boosting(windows: Windows, kind: np.ndarray, columns: np.ndarray) -> Judge:
    """Return the judge that learns kinds, (N,) bool, by boosting over some of the statistics, (F,) bool."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # takes seconds to import

    columns = columns & ~np.isnan(windows.values).all(axis=0)
    trees = HistGradientBoostingClassifier(
        max_iter=TREES, max_leaf_nodes=LEAVES, learning_rate=RATE, min_samples_leaf=FEWEST_IN_A_LEAF,
        l2_regularization=1.0, max_features=0.3, random_state=SEED,
    ).fit(windows.values[:, columns], kind)  # fmt: skip

    def judge(given: Windows) -> np.ndarray:
        return np.asarray(trees.decision_function(given.values[:, columns]))

    # Fewer windows than two leaves need cannot be split.
    return judge if np.ptp(judge(windows)) else lambda given: np.full(len(given), np.nan)


def linear(windows: Windows, kind: np.ndarray, columns: np.ndarray) -> Judge:
    """Return the judge that learns kinds by logistic regression; where there are few pieces, it is the strongest."""
    from sklearn.linear_model import LogisticRegression

    columns = columns & ~np.isnan(windows.values).all(axis=0)
    values = windows.values[:, columns]
    middle = np.nanmedian(values, axis=0)
    low, high = np.nanquantile(values, EXTREMES, axis=0)

    def clipped(values: np.ndarray) -> np.ndarray:
        return np.clip(np.where(np.isnan(values), middle, values), low, high)

    own = clipped(values)
    mean, scale = own.mean(axis=0), np.maximum(own.std(axis=0), 1e-6)
    learned = LogisticRegression(C=1 / SHRINKING, max_iter=500).fit((own - mean) / scale, kind)
    return lambda given: np.asarray(
        learned.decision_function((clipped(given.values[:, columns]) - mean) / scale)
    )


def network(windows: Windows, kind: np.ndarray) -> Judge:
    """Return the judge that learns kinds, (N,) bool, by a convolutional network over the rolls."""
    import torch
    from torch import nn

    torch.manual_seed(SEED)
    channels = windows.rolls.shape[1]
    net = nn.Sequential(
        nn.Conv2d(channels, 24, (13, 9), stride=(3, 4), padding=(6, 4)), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 48, 5, stride=2, padding=2), nn.BatchNorm2d(48), nn.ReLU(),
        nn.Conv2d(48, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, 1),
    )  # fmt: skip
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=WEIGHT_DECAY)
    steps = EPOCHS * -(-len(windows) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    random = np.random.default_rng(SEED)
    for _ in range(EPOCHS):
        for rows in np.array_split(random.permutation(len(windows)), -(-len(windows) // BATCH)):
            shifted = np.roll(windows.rolls[rows], random.integers(-SHIFT, SHIFT + 1), axis=2)
            loss = nn.functional.binary_cross_entropy_with_logits(
                net(torch.from_numpy(shifted).float() / 127).squeeze(1),
                torch.from_numpy(kind[rows]).float(),
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    net.eval()

    def judge(given: Windows) -> np.ndarray:
        with torch.no_grad():
            parts = np.array_split(given.rolls, -(-len(given) // 256))
            return np.concatenate(
                [net(torch.from_numpy(one).float() / 127).squeeze(1).numpy() for one in parts]
            )

    return judge


def roll(excerpt: Excerpt) -> np.ndarray:
    """Return the piano roll of an excerpt: (C, H, W) uint8.

    The channels: the sounding pitches of the highest, the lowest and the other pitched parts, by mean pitch; where
    pitched notes begin, by loudness; where drums do.
    """
    found = np.zeros((5, PITCHES, WIDTH), dtype=np.uint8)
    notes = excerpt.notes
    start = notes.onset_ticks // SIXTEENTH
    stop = np.maximum(-(-notes.end_ticks // SIXTEENTH), start + 1)
    tracks, own, count = np.unique(notes.track, return_inverse=True, return_counts=True)
    height = np.bincount(own, notes.pitch) / count
    height[np.unique(own[excerpt.drum])] = np.nan
    channel = np.full(len(tracks), 2)
    if not np.isnan(height).all():
        channel[np.nanargmin(height)] = 1
        channel[np.nanargmax(height)] = 0
    cells = zip(
        start.tolist(), stop.tolist(), notes.pitch.tolist(), notes.velocity.tolist(), strict=True
    )
    for (first, last, pitch, loud), kind, drum in zip(
        cells, channel[own].tolist(), excerpt.drum.tolist(), strict=True
    ):
        if first >= WIDTH:
            continue
        if drum:
            found[4, pitch, first] = max(found[4, pitch, first], loud)
        else:
            found[kind, pitch, first:last] = 100
            found[3, pitch, first] = max(found[3, pitch, first], loud)
    return found[:, LOWEST : LOWEST + HEIGHT]
