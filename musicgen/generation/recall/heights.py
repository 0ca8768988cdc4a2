"""How high the phrases of a sequence are, while it is being written.

The height of some bars is the pitch that four in five of the highest notes at their time do not go above, in semitones.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from typing_extensions import Self

from musicgen.generation.recall.phrases import UNIT
from tokenization.logit_bias import NoteTokens

FEW = 3  # times at which something begins; with fewer, bars are a rest and have no height


class Heights:
    """The phrases of one sequence, UNIT bars each."""

    def __init__(self, tokens: NoteTokens) -> None:
        """Begin before the first bar."""
        self._pitch, self._moves = tokens.pitch.tolist(), tokens.moves.tolist()
        self.bar = -1  # which one is being written
        self.over: list[float | None] = []  # the heights of phrases that are over; None of a rest
        self._tops: list[int] = []  # of this phrase: the highest pitch whenever notes begin
        self._sounds = False  # whether a note has begun at this time
        self._pitches = self._notes = 0  # the sum of all pitches, and how many

    def copy(self) -> Self:
        """Return one that goes on for itself."""
        other = copy(self)
        other.over, other._tops = [*self.over], [*self._tops]
        return other

    @property
    def known(self) -> list[float]:
        """The heights of the phrases that are over, without rests."""
        return [height for height in self.over if height is not None]

    @property
    def here(self) -> float | None:
        """The height of the phrase that is being written, as far as it has come; None of a rest."""
        return None if len(self._tops) < FEW else float(np.percentile(self._tops, 80))

    @property
    def middle(self) -> float:
        """The mean pitch of all notes."""
        return self._pitches / max(self._notes, 1)

    def take(self, token: int, begins: bool) -> None:
        """Take one more token, and whether a bar begins with it."""
        if begins:
            self.bar += 1
            self._sounds = False
            if self.bar and self.bar % UNIT == 0:
                self.over.append(self.here)
                self._tops = []
        if (pitch := self._pitch[token]) >= 0:
            if self._sounds:
                self._tops[-1] = max(self._tops[-1], pitch)
            else:
                self._tops.append(pitch)
            self._sounds = True
            self._pitches += pitch
            self._notes += 1
        elif self._moves[token]:
            self._sounds = False
