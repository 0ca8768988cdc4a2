"""The rules of REMI: token by token over a batch, and over a whole sequence at once.

What may follow depends on three small numbers (the kind of the last token, its sub-beat, whether
the bar has a note yet), which one table answers, and on four memories: the last tempo and chord,
the last key struck in this sub-beat, and until when each key sounds. There is always a way on: a
sub-beat can take a chord whatever sounds, and at sub-beat 15 of a bar without notes every key is
free, since no note rings longer than a bar.

Letters: B rows of a batch, T tokens of a sequence, V tokens of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenization.language import Grammar
from tokenization.remi_tokens import (
    BAR,
    BAR_SUBBEATS,
    BAR_TICKS,
    BEGIN,
    CHORD,
    DURATION,
    END,
    KEYS,
    PITCH,
    SUBBEAT,
    SUBBEAT_TICKS,
    TEMPO,
    VOCABULARY,
    VOLUME,
)

# What a position is after: nothing, or a token of one of these kinds.
NOTHING, AFTER_BEGIN, AFTER_END, AFTER_BAR, AFTER_SUBBEAT = range(5)
AFTER_TEMPO, AFTER_CHORD, AFTER_PITCH, AFTER_VOLUME, AFTER_DURATION = range(5, 10)
KINDS = 10


def _kinds() -> np.ndarray:
    """Return the kind of each token: (V,); padding, which nothing allows, counts as nothing."""
    kind = np.full(len(VOCABULARY), NOTHING)
    kind[[BEGIN, END, BAR]] = AFTER_BEGIN, AFTER_END, AFTER_BAR
    blocks = (SUBBEAT, TEMPO, CHORD, PITCH, VOLUME, DURATION)
    for number, block in enumerate(blocks, start=AFTER_SUBBEAT):
        kind[block.start : block.stop] = number
    return kind


def _may_follow() -> np.ndarray:
    """Return what may follow each state, the four memories aside: (states, V)."""
    kind = KIND
    table = np.zeros((KINDS, BAR_SUBBEATS, 2, len(VOCABULARY)), dtype=bool)
    later = np.arange(len(VOCABULARY)) - SUBBEAT.start > np.arange(BAR_SUBBEATS)[:, None]
    later = (later & (kind == AFTER_SUBBEAT))[:, None]  # (16, 1, V)
    pitch, chord = kind == AFTER_PITCH, kind == AFTER_CHORD
    close = (kind == AFTER_BAR) | (kind == AFTER_END)
    table[NOTHING] = kind == AFTER_BEGIN
    table[AFTER_BEGIN] = kind == AFTER_BAR
    table[AFTER_BAR] = (kind == AFTER_BAR) | (kind == AFTER_SUBBEAT)
    table[AFTER_SUBBEAT] = chord | pitch
    table[AFTER_SUBBEAT, 0] |= kind == AFTER_TEMPO
    table[AFTER_TEMPO] = chord | pitch | later
    table[AFTER_CHORD] = pitch | later
    table[AFTER_CHORD, :, 1] |= close
    table[AFTER_PITCH] = kind == AFTER_VOLUME
    table[AFTER_VOLUME] = kind == AFTER_DURATION
    table[AFTER_DURATION] = pitch | later | close
    return table.reshape(-1, len(VOCABULARY))


def _state(kind: np.ndarray, subbeat: np.ndarray, noted: np.ndarray) -> np.ndarray:
    """Number the states: kind of the last token, sub-beat, whether the bar has a note."""
    return (kind * BAR_SUBBEATS + subbeat) * 2 + noted


def _next_state() -> np.ndarray:
    """Return the state that each state and token lead to: (states, V)."""
    state = np.arange(KINDS * BAR_SUBBEATS * 2)[:, None]
    token = np.arange(len(VOCABULARY))
    subbeat = np.where(KIND == AFTER_SUBBEAT, token - SUBBEAT.start, state // 2 % BAR_SUBBEATS)
    noted = (state % 2) | (KIND == AFTER_PITCH)
    in_bar = KIND != AFTER_BAR
    return _state(KIND, subbeat * in_bar, noted * in_bar)


KIND = _kinds()
MAY_FOLLOW = _may_follow()
NEXT_STATE = _next_state()


class RemiGrammar(Grammar):
    """What may follow, over a batch; behind `end` nothing may."""

    def __init__(self, batch: int) -> None:
        """Stand at the start of `batch` sequences, before the begin token."""
        self._state = np.zeros(batch, dtype=np.int64)
        self._bars = np.zeros(batch, dtype=np.int64)  # begun
        self._tempo = np.zeros(batch, dtype=np.int64)  # the last one's id; 0, padding, before it
        self._chord = np.zeros(batch, dtype=np.int64)
        self._key = np.full(batch, -1)  # the last one struck in this sub-beat
        self._silent_at = np.zeros((batch, KEYS), dtype=np.int64)  # ticks

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun: (B,)."""
        return self._bars

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        rows = np.arange(len(self._state))
        mask = MAY_FOLLOW[self._state]
        mask[rows, self._tempo] = False
        mask[rows, self._chord] = False
        free = self._silent_at <= self._now()[:, None]
        free &= np.arange(KEYS) > self._key[:, None]
        mask[:, PITCH.start : PITCH.stop] &= free
        return mask

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed."""
        tokens = np.asarray(tokens, dtype=np.int64)
        kind = KIND[tokens]
        self._state = NEXT_STATE[self._state, tokens]
        self._bars = self._bars + (kind == AFTER_BAR)
        self._tempo = np.where(kind == AFTER_TEMPO, tokens, self._tempo)
        self._chord = np.where(kind == AFTER_CHORD, tokens, self._chord)
        self._key = np.where(kind == AFTER_SUBBEAT, -1, self._key)
        self._key = np.where(kind == AFTER_PITCH, tokens - PITCH.start, self._key)
        rows = np.flatnonzero(kind == AFTER_DURATION)
        if len(rows):
            ends = self._now()[rows] + tokens[rows] - DURATION.start + 1
            self._silent_at[rows, self._key[rows]] = ends

    def _now(self) -> np.ndarray:
        """Return the tick of each row's sub-beat: (B,)."""
        subbeat = self._state // 2 % BAR_SUBBEATS
        return (self._bars - 1) * BAR_TICKS + subbeat * SUBBEAT_TICKS


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
        """The number of the bar that each token stands in, from 0: (T,)."""
        return np.cumsum(self.ids == BAR) - 1

    @cached_property
    def subbeat(self) -> np.ndarray:
        """The sub-beat that each token stands in: (T,)."""
        last = self._last((self.kind == AFTER_BAR) | (self.kind == AFTER_SUBBEAT))
        return np.where(self.kind[last] == AFTER_SUBBEAT, self.ids[last] - SUBBEAT.start, 0)

    @cached_property
    def onset_subbeats(self) -> np.ndarray:
        """The sub-beat that each token stands in, from the start of the piece: (T,)."""
        return self.bar * BAR_SUBBEATS + self.subbeat

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
        faults = np.concatenate([self._out_of_order(), self._repeated(), self._key_in_use()])
        return int(faults.min()) if len(faults) else None

    def _out_of_order(self) -> np.ndarray:
        """Return the positions that the table forbids."""
        noted = self._last(self.kind == AFTER_PITCH) > self._last(self.kind == AFTER_BAR)
        state = _state(self.kind, self.subbeat, noted)
        before = np.concatenate([[0], state[:-1]])
        return np.flatnonzero(~MAY_FOLLOW[before, self.ids])

    def _repeated(self) -> np.ndarray:
        """Return the positions of tempos and chords that change nothing."""
        repeats = []
        for kind in (AFTER_TEMPO, AFTER_CHORD):
            positions = np.flatnonzero(self.kind == kind)
            repeats.append(positions[1:][np.diff(self.ids[positions]) == 0])
        return np.concatenate(repeats)

    def _key_in_use(self) -> np.ndarray:
        """Return the positions of pitches out of order in their sub-beat, or still sounding."""
        position = np.flatnonzero(self.kind == AFTER_PITCH)
        onset, pitch = self.onset_subbeats[position], self.ids[position]
        descends = (np.diff(onset) == 0) & (np.diff(pitch) <= 0)

        order = np.argsort(pitch, kind="stable")
        until = onset * SUBBEAT_TICKS
        until[: len(self.notes)] += self.ids[self.notes + 2] - DURATION.start + 1
        sounds = np.diff(pitch[order]) == 0
        sounds &= until[order[:-1]] > onset[order[1:]] * SUBBEAT_TICKS
        return np.concatenate([position[1:][descends], position[order[1:]][sounds]])
