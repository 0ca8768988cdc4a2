"""Where the music is at each token of a REMI sequence, and the first token that may not stand there.

Letters: T tokens of a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenization.analysis.metres import FOUR_FOUR, Bars
from tokenization.remi.grammar import (
    AFTER_BAR,
    AFTER_CHORD,
    AFTER_METRE,
    AFTER_PITCH,
    AFTER_SUBBEAT,
    AFTER_TEMPO,
    IN_BAR,
    KIND,
    KINDS,
    MAY_FOLLOW,
    number_of,
)
from tokenization.remi.tokens import BAR, KEYS, METRE, SUBBEAT_OF, SUBBEAT_TICKS, TICKS_OF


@dataclass(frozen=True)
class Reading:
    """A sequence of ids, and at each position where the music is; right up to the first fault."""

    ids: np.ndarray  # (T,) int64

    @cached_property
    def kind(self) -> np.ndarray:
        """The kind of each token: (T,)."""
        return KIND[self.ids]

    @cached_property
    def bar(self) -> np.ndarray:
        """The number of the bar that each token stands in, from 0; −1 before the first: (T,)."""
        return np.cumsum(self.ids == BAR) - 1

    @cached_property
    def bars(self) -> Bars:
        """The bars begun."""
        named = np.flatnonzero((self.kind[1:] == AFTER_METRE) & (self.ids[:-1] == BAR)) + 1
        metre = np.full(int(self.bar[-1]) + 1 if len(self.ids) else 0, FOUR_FOUR)
        at, value = self.bar[named], self.ids[named] - METRE.start
        metre[:] = np.append(FOUR_FOUR, value)[
            np.searchsorted(at, np.arange(len(metre)), side="right")
        ]
        return Bars(metre)

    @cached_property
    def subbeat(self) -> np.ndarray:
        """The sub-beat that each token stands in: (T,)."""
        last = self._last((self.kind == AFTER_BAR) | (self.kind == AFTER_SUBBEAT))
        return np.where(self.kind[last] == AFTER_SUBBEAT, SUBBEAT_OF[self.ids[last]], 0)

    @cached_property
    def onset_subbeats(self) -> np.ndarray:
        """The sub-beat that each token stands in, from the start of the piece: (T,)."""
        return np.append(0, self.bars.start)[self.bar + 1] + self.subbeat

    @cached_property
    def notes(self) -> np.ndarray:
        """The positions of the pitches whose notes are complete."""
        pitches = np.flatnonzero(self.kind == AFTER_PITCH)
        return pitches[pitches + 2 < len(self.ids)]

    def _last(self, of: np.ndarray) -> np.ndarray:
        """Return at each position the last position that is one `of`, 0 before the first."""
        return np.maximum.accumulate(np.where(of, np.arange(len(of)), 0))

    def fault(self) -> int | None:
        """Return the first position whose token may not stand there."""
        if not len(self.ids):
            return None
        faults = np.concatenate(
            [self._out_of_order(), self._repeated(), self._key_in_use(), self._without_a_free_key()]
        )
        return int(faults.min()) if len(faults) else None

    def _out_of_order(self) -> np.ndarray:
        """Return the positions that the tables forbid."""
        noted = self._last(self.kind == AFTER_PITCH) > self._last(self.kind == AFTER_BAR)
        state = number_of(np.minimum(self.kind, KINDS - 1), self.subbeat, noted)
        before = np.concatenate([[0], state[:-1]])
        metre = np.append(FOUR_FOUR, self.bars.metre)[self.bar + 1]
        return np.flatnonzero(~MAY_FOLLOW[before, self.ids] | ~IN_BAR[metre, self.ids])

    def _repeated(self) -> np.ndarray:
        """Return the positions of metres, tempos and chords that change nothing."""
        repeats = []
        for kind in (AFTER_METRE, AFTER_TEMPO, AFTER_CHORD):
            positions = np.flatnonzero(self.kind == kind)
            before = METRE.start + FOUR_FOUR if kind == AFTER_METRE else -1
            repeats.append(positions[np.diff(self.ids[positions], prepend=before) == 0])
        return np.concatenate(repeats)

    def _key_in_use(self) -> np.ndarray:
        """Return the positions of pitches out of order in their sub-beat, or still sounding."""
        position = np.flatnonzero(self.kind == AFTER_PITCH)
        onset, pitch = self.onset_subbeats[position], self.ids[position]
        descends = (np.diff(onset) == 0) & (np.diff(pitch) <= 0)

        order = np.argsort(pitch, kind="stable")
        until = onset * SUBBEAT_TICKS
        until[: len(self.notes)] += TICKS_OF[self.ids[self.notes + 2]]
        sounds = np.diff(pitch[order]) == 0
        sounds &= until[order[:-1]] > onset[order[1:]] * SUBBEAT_TICKS
        return np.concatenate([position[1:][descends], position[order[1:]][sounds]])

    def _without_a_free_key(self) -> np.ndarray:
        """Return the positions where a bar is entered that every key sounds through."""
        if len(self.notes) < KEYS:
            return self.notes[:0]
        start, length = self.bars.start, self.bars.length
        last = (start + length - 1) * SUBBEAT_TICKS  # of each bar
        ends = self.onset_subbeats[self.notes] * SUBBEAT_TICKS + TICKS_OF[self.ids[self.notes + 2]]
        begins = self.bar[self.notes] + 1  # each note sounds through the bars begins … until − 1
        until = np.maximum(np.searchsorted(last, ends, side="left"), begins)
        size = len(start) + 1
        through = np.cumsum(
            np.bincount(begins, minlength=size) - np.bincount(until, minlength=size)
        )
        full = np.flatnonzero(through[:-1] >= KEYS)
        entered = np.flatnonzero(self.kind == AFTER_SUBBEAT)
        entered = entered[np.isin(self.bar[entered], full)]
        return entered[:1]
