"""The rules of REMI: what may follow, token by token over a batch.

What may follow depends on four small numbers (the kind of the last token, its sub-beat, whether
the bar has a note yet, the metre), which two tables answer, and on four memories: the last tempo and
chord, the last key struck in this sub-beat, and until when each key sounds. There is always a way
on: a sub-beat can take a chord whatever sounds, and a bar without notes is entered only where some
key is free before it ends.

Letters: B rows of a batch, V tokens of the vocabulary, K kinds of tokens.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tokenization.analysis.metres import FOUR_FOUR, LENGTHS, LONGEST_BAR
from tokenization.goal import GOAL_FAMILIES
from tokenization.grammar import Grammar
from tokenization.remi.tokens import (
    BAR,
    BEGIN,
    CHORD,
    DURATION_IDS,
    END,
    KEYS,
    METRE,
    PITCH,
    SUBBEAT_IDS,
    SUBBEAT_OF,
    SUBBEAT_TICKS,
    TEMPO,
    TICKS_OF,
    VOCABULARY,
    VOLUME,
)

# What a position is after: nothing, or a token of one of these kinds. A goal's token changes nothing.
NOTHING, AFTER_BEGIN, AFTER_END, AFTER_BAR, AFTER_METRE, AFTER_SUBBEAT = range(6)
AFTER_TEMPO, AFTER_CHORD, AFTER_PITCH, AFTER_VOLUME, AFTER_DURATION, GOAL = range(6, 12)
KINDS = 11


def _kinds() -> np.ndarray:
    """Return the kind of each token: (V,); padding, which nothing allows, counts as nothing."""
    kind = np.full(len(VOCABULARY), NOTHING)
    kind[[BEGIN, END, BAR]] = AFTER_BEGIN, AFTER_END, AFTER_BAR
    kind[SUBBEAT_IDS], kind[DURATION_IDS] = AFTER_SUBBEAT, AFTER_DURATION
    blocks = {AFTER_METRE: METRE, AFTER_TEMPO: TEMPO, AFTER_CHORD: CHORD}
    blocks |= {AFTER_PITCH: PITCH, AFTER_VOLUME: VOLUME}
    for number, block in blocks.items():
        kind[block.start : block.stop] = number
    for name, _ in GOAL_FAMILIES:
        kind[VOCABULARY[name].start : VOCABULARY[name].stop] = GOAL
    return kind


def _may_follow() -> np.ndarray:
    """Return what may follow each state, metre and memories aside: (states, V)."""
    kind = KIND
    table = np.zeros((KINDS, LONGEST_BAR, 2, len(VOCABULARY)), dtype=bool)
    later = np.arange(LONGEST_BAR)[:, None] < SUBBEAT_OF
    later = (later & (kind == AFTER_SUBBEAT))[:, None]  # (24, 1, V)
    pitch, chord = kind == AFTER_PITCH, kind == AFTER_CHORD
    close = (kind == AFTER_BAR) | (kind == AFTER_END)
    table[NOTHING] = kind == AFTER_BEGIN
    table[AFTER_BEGIN] = kind == AFTER_BAR
    table[AFTER_METRE] = (kind == AFTER_BAR) | (kind == AFTER_SUBBEAT)
    table[AFTER_BAR] = table[AFTER_METRE] | (kind == AFTER_METRE)
    table[AFTER_SUBBEAT] = chord | pitch
    table[AFTER_SUBBEAT, 0] |= kind == AFTER_TEMPO
    table[AFTER_TEMPO] = chord | pitch | later
    table[AFTER_CHORD] = pitch | later
    table[AFTER_CHORD, :, 1] |= close
    table[AFTER_PITCH] = kind == AFTER_VOLUME
    table[AFTER_VOLUME] = kind == AFTER_DURATION
    table[AFTER_DURATION] = pitch | later | close
    return table.reshape(-1, len(VOCABULARY))


def number_of(kind: np.ndarray, subbeat: np.ndarray, noted: np.ndarray) -> np.ndarray:
    """Number the states: kind of the last token, sub-beat, whether the bar has a note."""
    return (kind * LONGEST_BAR + subbeat) * 2 + noted


def _next_state() -> np.ndarray:
    """Return the state that each state and token lead to: (states, V)."""
    state = np.arange(KINDS * LONGEST_BAR * 2)[:, None]
    subbeat = np.where(KIND == AFTER_SUBBEAT, SUBBEAT_OF, state // 2 % LONGEST_BAR)
    noted = (state % 2) | (KIND == AFTER_PITCH)
    in_bar = KIND != AFTER_BAR
    after = number_of(np.minimum(KIND, KINDS - 1), subbeat * in_bar, noted * in_bar)
    return np.where(KIND == GOAL, state, after)


KIND = _kinds()
MAY_FOLLOW = _may_follow()
NEXT_STATE = _next_state()
IN_BAR = (KIND != AFTER_SUBBEAT) | (LENGTHS[:, None] > SUBBEAT_OF)  # (metres, V)


@cache
def _tables(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return both tables for the first so many tokens."""
    return MAY_FOLLOW[:, :size].copy(), IN_BAR[:, :size].copy()


class RemiGrammar(Grammar):
    """What may follow, over a batch; after `end` nothing may."""

    def __init__(self, size: int = len(VOCABULARY)) -> None:
        """Stand at the start of one sequence of a vocabulary's size, before the begin token."""
        self._size = size
        self._state = np.zeros(1, dtype=np.int64)
        self._bars = np.zeros(1, dtype=np.int64)  # begun
        self._bar_ticks = np.zeros(1, dtype=np.int64)  # when the bar begins …
        self._metre = np.full(1, FOUR_FOUR)  # … and its metre
        self._tempo = np.zeros(1, dtype=np.int64)  # the last one's id; 0, padding, before it
        self._chord = np.zeros(1, dtype=np.int64)
        self._key = np.full(1, -1)  # the last one struck in this sub-beat
        self._silent_at = np.zeros((1, KEYS), dtype=np.int64)  # ticks

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun: (B,)."""
        return self._bars

    @property
    def kind(self) -> np.ndarray:
        """The kind of each row's last token: (B,)."""
        return self._state // (2 * LONGEST_BAR)

    @property
    def subbeat(self) -> np.ndarray:
        """The sub-beat of its bar that each row stands at: (B,)."""
        return self._state // 2 % LONGEST_BAR

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        rows = np.arange(len(self._state))
        may_follow, in_bar = _tables(self._size)
        mask = may_follow[self._state] & in_bar[self._metre]
        mask[rows, self._tempo] = False
        mask[rows, self._chord] = False
        if METRE.stop <= mask.shape[1]:
            mask[rows, METRE.start + self._metre] = False
        free = self._silent_at <= self._now()[:, None]
        free &= np.arange(KEYS) > self._key[:, None]
        mask[:, PITCH.start : PITCH.stop] &= free
        last = self._bar_ticks + (LENGTHS[self._metre] - 1) * SUBBEAT_TICKS
        never_free = np.flatnonzero((self._silent_at.min(axis=1) > last) & (self._state % 2 == 0))
        if len(never_free):
            mask[never_free] &= KIND[: mask.shape[1]] != AFTER_SUBBEAT
        return mask

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed; those of goals change nothing."""
        tokens = np.asarray(tokens, dtype=np.int64)
        kind = KIND[tokens]
        self._state = NEXT_STATE[self._state, tokens]
        new = kind == AFTER_BAR
        length = LENGTHS[self._metre] * SUBBEAT_TICKS
        self._bar_ticks = self._bar_ticks + np.where(new & (self._bars > 0), length, 0)
        self._bars = self._bars + new
        self._metre = np.where(kind == AFTER_METRE, tokens - METRE.start, self._metre)
        self._tempo = np.where(kind == AFTER_TEMPO, tokens, self._tempo)
        self._chord = np.where(kind == AFTER_CHORD, tokens, self._chord)
        self._key = np.where((kind == AFTER_SUBBEAT) | new, -1, self._key)
        self._key = np.where(kind == AFTER_PITCH, tokens - PITCH.start, self._key)
        rows = np.flatnonzero(kind == AFTER_DURATION)
        if len(rows):
            ends = self._now()[rows] + TICKS_OF[tokens[rows]]
            self._silent_at[rows, self._key[rows]] = ends

    def _now(self) -> np.ndarray:
        """Return the tick of each row's sub-beat: (B,)."""
        return self._bar_ticks + self.subbeat * SUBBEAT_TICKS
