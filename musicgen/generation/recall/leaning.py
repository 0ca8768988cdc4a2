"""Leads a new phrase to the height that was drawn for it.

A model goes on as high as the music is that it reads: its phrases differed half as much in height as those of songs.
So while a new phrase is written, pitches above the middle of the piece exchange their chances by a bias of λ per
semitone: up to the height that is wanted, if that is above, and from there on if it is below. λ begins in proportion to
how far the phrase before is from it, and changes with each bar by how far this one still is. Whether a high note comes
stays the model's own, and so do all low ones: when all pitches took part, what accompanies a melody rose and vanished
with it. Within a return nothing is led: it is to be like what it repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from typing_extensions import Self

from musicgen.generation.recall.contrast import Contrast
from musicgen.generation.recall.heights import Heights
from musicgen.generation.recall.phrases import UNIT
from tokenization.logit_bias import NoteTokens, exchange

BEGIN = 0.05  # λ per semitone that is wanted beside the phrase before
ADD = 0.02  # with each bar, per semitone that is still wanted
MOST = 0.35  # with 0.07, 0.03 and 0.5 phrases came all the way, and had 0.7 notes a bar less (40 takes)


class Leaning:
    """One sequence, and where its new phrases are led."""

    def __init__(self, contrast: Contrast, tokens: NoteTokens) -> None:
        """Begin before the first bar."""
        self._contrast, self._pitch = contrast, tokens.pitch
        self._heights = Heights(tokens)
        self._seed: tuple[int, ...] = ()
        self._wanted: float | None = None  # of this phrase
        self._lean = 0.0  # λ

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        other = copy(self)
        other._heights = self._heights.copy()
        return other

    def decide(self, seed: Sequence[int]) -> None:
        """Draw from here on; the same with the same seed."""
        self._seed = (*seed,)

    def take(self, token: int, begins: bool, new: bool) -> None:
        """Take one more token, and whether a bar begins with it, of a phrase that is decided to be new."""
        self._heights.take(token, begins)
        if begins:
            self._begin_bar(new)

    def _begin_bar(self, new: bool) -> None:
        heights = self._heights
        if not new:
            self._wanted, self._lean = None, 0.0
        elif heights.bar % UNIT == 0:
            self._wanted, self._lean = None, 0.0
            if known := heights.known:
                random = np.random.default_rng([*self._seed, heights.bar, 1])
                self._wanted = self._contrast.drawn(known, random)
                self._add(BEGIN * (self._wanted - known[-1]))
        elif self._wanted is not None and (here := heights.here) is not None:
            self._add(ADD * (self._wanted - here))

    def _add(self, lean: float) -> None:
        self._lean = min(max(self._lean + lean, -MOST), MOST)

    def apply(self, scores: np.ndarray, allowed: np.ndarray) -> None:
        """Change the scores of what comes next, (V,), as far as it may come: (V,) bool."""
        if self._wanted is None or not self._lean:
            return
        middle = self._heights.middle
        upper = np.flatnonzero(allowed & (self._pitch > middle))
        if not len(upper):
            return
        above = self._pitch[upper] - middle
        wanted = max(self._wanted - middle, 0)
        counted = np.minimum(above, wanted) if self._lean > 0 else np.maximum(above - wanted, 0)
        exchange(scores, upper, self._lean * counted)
