"""How much of a passage stands in a collection of music: the closest passage, in any key (after Yin et al. 2022).

A passage is the notes that begin in two whole bars: their places and pitches, not their lengths, loudness or
instruments. Two passages are as alike as the share of all their notes that both have (Jaccard), where one of them may
be moved by up to six semitones; drums stay where they are. Passages of fewer than eight notes are left out, since any
two of them may be alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from evaluation.metrics.window import cut
from tokenization.score import Score

BARS = 2
LEAST_NOTES = 8
SEMITONES = range(-6, 7)
PITCHES = 512  # keys a place: pitches, and drums from DRUMS on
DRUMS = 192
ROOM = 12  # below the lowest pitch, so that a shift leaves a place's own keys to none


@dataclass(frozen=True, kw_only=True)
class Match:
    """The passage of a collection that is most like another one."""

    likeness: float  # 0 to 1, all notes
    piece: str
    bar: int  # from 0


def passages(
    score: Score, start: int, stop: int, step: int = BARS
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the passages of the bars start … stop − 1 by their first bar, as sorted keys of their notes."""
    for bar in range(start, stop - BARS + 1, step):
        window = cut(score, bar, bar + BARS)
        pitches = window.notes.pitch.astype(np.int64)
        of_place = np.where(window.drum, DRUMS + pitches, ROOM + pitches)
        keys = np.unique(window.notes.onset_ticks.astype(np.int64) * PITCHES + of_place)
        if len(keys) >= LEAST_NOTES:
            yield bar, keys


class Collection:
    """Passages of many pieces, found by their notes."""

    def __init__(self, pieces: Iterable[tuple[str, Score, int]]) -> None:
        """Take pieces by name, with how many bars they have."""
        self._where: list[tuple[str, int]] = []
        found = []
        for name, score, bars in pieces:
            for bar, keys in passages(score, 0, bars, 1):
                self._where.append((name, bar))
                found.append(keys)
        self._sizes = np.array([len(keys) for keys in found], dtype=np.int64)
        keys = np.concatenate([np.empty(0, np.int64), *found])
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._passages = np.repeat(np.arange(len(found)), self._sizes)[order]

    def __len__(self) -> int:
        """Return how many passages there are."""
        return len(self._where)

    def closest(self, keys: np.ndarray) -> Match:
        """Return the passage that is most like one of these keys, moved or not."""
        pitched = keys % PITCHES < DRUMS
        best = Match(likeness=0.0, piece="", bar=0)
        for shift in SEMITONES:
            moved = np.where(pitched, keys + shift, keys)
            first, last = (np.searchsorted(self._keys, moved, side) for side in ("left", "right"))
            holders = [self._passages[a:b] for a, b in zip(first, last, strict=True)]
            shared = np.bincount(np.concatenate(holders), minlength=len(self))
            likeness = shared / (self._sizes + len(keys) - shared)
            at = int(likeness.argmax())
            if likeness[at] > best.likeness:
                piece, bar = self._where[at]
                best = Match(likeness=float(likeness[at]), piece=piece, bar=bar)
        return best
