"""The rules of REMI: what may follow, token by token over a batch.

What may follow depends on three small numbers (the kind of the last token, its sub-beat, whether
the bar has a note yet), which a table answers, and on four memories: the last tempo and chord, the
last key struck in this sub-beat, and until when each key sounds. There is always a way
on: a sub-beat can take a chord whatever sounds, and a bar without notes is entered only where some
key is free before it ends.

Letters: B rows of a batch, V tokens of the vocabulary, K kinds of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenization.analysis.chords import CHORD_INDEX, MOST_A_BAR
from tokenization.grammar import Grammar
from tokenization.remi.spelling import (
    BAR,
    BAR_SUBBEATS,
    BEGIN,
    CHORD,
    DURATION,
    END,
    KEYS,
    PITCH,
    SUBBEAT,
    SUBBEAT_OF,
    SUBBEAT_TICKS,
    SUBBEATS_PER_BEAT,
    TEMPO,
    TICKS_OF,
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
    for number, block in enumerate(blocks, AFTER_SUBBEAT):
        kind[block.start : block.stop] = number
    return kind


def _may_follow() -> np.ndarray:
    """Return what may follow each state, memories aside: (states, V)."""
    kind = KIND
    table = np.zeros((KINDS, BAR_SUBBEATS, 2, len(VOCABULARY)), dtype=bool)
    later = np.arange(BAR_SUBBEATS)[:, None] < SUBBEAT_OF
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


def _next_state() -> np.ndarray:
    """Return the state that each state and token lead to: (states, V).

    A state is the kind of the last token, the sub-beat, and whether the bar has a note.
    """
    state = np.arange(KINDS * BAR_SUBBEATS * 2)[:, None]
    subbeat = np.where(KIND == AFTER_SUBBEAT, SUBBEAT_OF, state // 2 % BAR_SUBBEATS)
    noted = (state % 2) | (KIND == AFTER_PITCH)
    in_bar = KIND != AFTER_BAR
    return (KIND * BAR_SUBBEATS + subbeat * in_bar) * 2 + noted * in_bar


KIND = _kinds()
MAY_FOLLOW = _may_follow()
NEXT_STATE = _next_state()


class RemiGrammar(Grammar):
    """What may follow, over a batch; after `end` nothing may."""

    def __init__(self) -> None:
        """Stand at the start of one sequence, before the begin token."""
        self._state = np.zeros(1, dtype=np.int64)
        self._bars = np.zeros(1, dtype=np.int64)  # begun
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
        return self._state // (2 * BAR_SUBBEATS)

    @property
    def subbeat(self) -> np.ndarray:
        """The sub-beat of its bar that each row stands at: (B,)."""
        return self._state // 2 % BAR_SUBBEATS

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        rows = np.arange(len(self._state))
        mask = MAY_FOLLOW[self._state]
        mask[rows, self._tempo] = False
        mask[rows, self._chord] = False
        free = self._silent_at <= self._now()[:, None]
        free &= np.arange(KEYS) > self._key[:, None]
        mask[:, PITCH.start : PITCH.stop] &= free
        last = self._bar_ticks() + (BAR_SUBBEATS - 1) * SUBBEAT_TICKS
        never_free = np.flatnonzero((self._silent_at.min(axis=1) > last) & (self._state % 2 == 0))
        if len(never_free):
            mask[never_free] &= KIND != AFTER_SUBBEAT
        return mask

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row: (B,) ids that `allowed` allowed."""
        tokens = np.asarray(tokens, dtype=np.int64)
        kind = KIND[tokens]
        self._state = NEXT_STATE[self._state, tokens]
        new = kind == AFTER_BAR
        self._bars = self._bars + new
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
        return self._bar_ticks() + self.subbeat * SUBBEAT_TICKS

    def _bar_ticks(self) -> np.ndarray:
        """Return the tick at which each row's bar begins: (B,)."""
        return np.maximum(self._bars - 1, 0) * BAR_SUBBEATS * SUBBEAT_TICKS


# The rules where a line of chords is kept to. A chord stands where its share of the bar begins, on a beat. It needs no
# training: whatever a model draws that would pass the place of a chord, it goes to that place instead, and there the
# chord is the only one to choose. Between these places no other chord is named.
#
# Letters: B rows of a batch, M chords a bar at most, N bars of the line.

NONE = -1


def _places() -> np.ndarray:
    """Return the sub-beats, on beats, at which each of so many chords stands in a bar: (M + 1, M)."""
    places = np.zeros((MOST_A_BAR + 1, MOST_A_BAR), dtype=np.int64)
    for count in range(1, MOST_A_BAR + 1):
        share = np.arange(count) * BAR_SUBBEATS / count
        places[count, :count] = np.rint(share / SUBBEATS_PER_BEAT) * SUBBEATS_PER_BEAT
    return places


PLACES = _places()


class ChordLine(RemiGrammar):
    """What may follow where a line of chords is kept to from a bar on."""

    def __init__(self, line: Sequence[Sequence[str]], start: int) -> None:
        """Stand at the start of one sequence; the line begins with bar `start`, from 0."""
        super().__init__()
        chords = np.full((len(line), MOST_A_BAR), NONE)
        for bar, names in enumerate(line):
            chords[bar, : len(names)] = [CHORD.start + CHORD_INDEX[name] for name in names]
        self._line = chords[None]  # of each row, by token, NONE past the last of a bar: (B, N, M)
        self._start = start
        self._done = np.zeros(1, dtype=np.int64)  # chords of the bar that stand already

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        plain = super().allowed()
        mask = plain.copy()
        place, chord = self._due()
        inside = self._inside()
        mask[inside, CHORD.start : CHORD.stop] = False
        at = (place == self.subbeat) & np.isin(self.kind, (AFTER_SUBBEAT, AFTER_TEMPO))
        for row in np.flatnonzero(at):
            mask[row] &= KIND == AFTER_TEMPO
            mask[row, chord[row]] = plain[row, chord[row]]
        stuck = ~mask.any(axis=1)  # where every key sounds, a chord is the only way on
        mask[stuck] = plain[stuck]
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return tokens; of one that would pass the place of a chord, the way there."""
        tokens = np.asarray(tokens, dtype=np.int64)
        kind, (place, _) = KIND[tokens], self._due()
        passes = (kind == AFTER_BAR) | (kind == AFTER_END)
        passes |= (kind == AFTER_SUBBEAT) & (SUBBEAT_OF[tokens] > place)
        rows = np.flatnonzero(passes & (place != NONE) & (self.kind != AFTER_END))
        if not len(rows):
            return tokens
        there = SUBBEAT.start + np.maximum(place, 0)
        taken = tokens.copy()
        can = self.allowed()[rows, there[rows]]
        taken[rows[can]] = there[rows[can]]
        return taken

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        super().advance(tokens)
        kind = KIND[np.asarray(tokens, dtype=np.int64)]
        named = (kind == AFTER_CHORD) & self._inside()
        self._done = np.where(kind == AFTER_BAR, 0, self._done + named)
        for _ in range(MOST_A_BAR):  # what sounds already need not be named
            _, chord = self._due()
            self._done = self._done + ((chord != NONE) & (chord == self._chord))

    def _inside(self) -> np.ndarray:
        """Say which rows are in a bar of the line."""
        return self._bars > self._start

    def _due(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the place and the token of the chord that comes next in each row's bar, or NONE: (B,) each."""
        bars = (self._bars - 1 - self._start) % self._line.shape[1]
        chords = self._line[np.arange(len(bars)), bars]
        done = np.minimum(self._done, MOST_A_BAR - 1)[:, None]
        chord = np.take_along_axis(chords, done, axis=1)[:, 0]
        chord = np.where(self._inside() & (self._done < MOST_A_BAR), chord, NONE)
        count = (chords != NONE).sum(axis=1)
        return np.where(chord == NONE, NONE, PLACES[count, done[:, 0]]), chord
