"""The grammar of REMI: the tokens that can follow each prefix of a batch.

They depend on a small state (the kind of the last token, the sub-beat, and whether the bar has a note), for which there
is a table, and on four memories: the last tempo and chord, the last key played in this sub-beat, and the end of the
last note on each key. There is no dead end: a chord can follow in any sub-beat, and a sub-beat of a bar without notes
is only entered if some key becomes free before the bar ends.

Letters: B rows of a batch, V tokens of the vocabulary.
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

# The kind of the last token; NOTHING before the first one.
NOTHING, AFTER_BEGIN, AFTER_END, AFTER_BAR, AFTER_SUBBEAT = range(5)
AFTER_TEMPO, AFTER_CHORD, AFTER_PITCH, AFTER_VOLUME, AFTER_DURATION = range(5, 10)
KINDS = 10


def _kinds() -> np.ndarray:
    """Return the kind of each token, (V,); padding, which is never allowed, has NOTHING."""
    kind = np.full(len(VOCABULARY), NOTHING)
    kind[[BEGIN, END, BAR]] = AFTER_BEGIN, AFTER_END, AFTER_BAR
    blocks = (SUBBEAT, TEMPO, CHORD, PITCH, VOLUME, DURATION)
    for number, block in enumerate(blocks, AFTER_SUBBEAT):
        kind[block.start : block.stop] = number
    return kind


def _may_follow() -> np.ndarray:
    """Return the mask of the tokens that can follow each state, before the memories apply: (states, V)."""
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
    """Return the state after each state and token: (states, V)."""
    state = np.arange(KINDS * BAR_SUBBEATS * 2)[:, None]
    subbeat = np.where(KIND == AFTER_SUBBEAT, SUBBEAT_OF, state // 2 % BAR_SUBBEATS)
    noted = (state % 2) | (KIND == AFTER_PITCH)
    in_bar = KIND != AFTER_BAR
    return (KIND * BAR_SUBBEATS + subbeat * in_bar) * 2 + noted * in_bar


KIND = _kinds()
MAY_FOLLOW = _may_follow()
NEXT_STATE = _next_state()


class RemiGrammar(Grammar):
    """The rules above for a batch; nothing follows `end`."""

    def __init__(self) -> None:
        """Start one sequence, before the begin token."""
        self._state = np.zeros(1, dtype=np.int64)
        self._bars = np.zeros(1, dtype=np.int64)
        self._tempo = np.zeros(1, dtype=np.int64)  # id of the last tempo; 0 (padding) before it
        self._chord = np.zeros(1, dtype=np.int64)
        self._key = np.full(1, -1)  # the last one played in this sub-beat
        self._silent_at = np.zeros((1, KEYS), dtype=np.int64)  # ticks

    @property
    def bars(self) -> np.ndarray:
        """The number of bars so far, including the current one: (B,)."""
        return self._bars

    @property
    def kind(self) -> np.ndarray:
        """The kind of each row's last token: (B,)."""
        return self._state // (2 * BAR_SUBBEATS)

    @property
    def subbeat(self) -> np.ndarray:
        """The current sub-beat of each row: (B,)."""
        return self._state // 2 % BAR_SUBBEATS

    def allowed(self) -> np.ndarray:
        """Return the mask of the tokens that can come next: (B, V) bool."""
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
        """Append one token to each row: (B,) allowed ids."""
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
        """Return the tick of the current sub-beat: (B,)."""
        return self._bar_ticks() + self.subbeat * SUBBEAT_TICKS

    def _bar_ticks(self) -> np.ndarray:
        """Return the tick at which the current bar starts: (B,)."""
        return np.maximum(self._bars - 1, 0) * BAR_SUBBEATS * SUBBEAT_TICKS


# The grammar for a given chord progression. The chords of a bar divide it evenly, rounded to beats. The model needs no
# training for this: a token that would skip the position of a chord is replaced by the token for this position, where
# only the chord is allowed. Other chords are masked.
#
# Letters: B rows of a batch, M chords per bar at most, N bars of the progression.

NONE = -1


def _places() -> np.ndarray:
    """Return the sub-beat of each chord of a bar, by the number of chords: (M + 1, M)."""
    places = np.zeros((MOST_A_BAR + 1, MOST_A_BAR), dtype=np.int64)
    for count in range(1, MOST_A_BAR + 1):
        share = np.arange(count) * BAR_SUBBEATS / count
        places[count, :count] = np.rint(share / SUBBEATS_PER_BEAT) * SUBBEATS_PER_BEAT
    return places


PLACES = _places()


class ChordLine(RemiGrammar):
    """A grammar that follows a chord progression from a bar on."""

    def __init__(self, line: Sequence[Sequence[str]], start: int) -> None:
        """Start one sequence; the progression `line` starts in bar `start`, counted from 0."""
        super().__init__()
        chords = np.full((len(line), MOST_A_BAR), NONE)
        for bar, names in enumerate(line):
            chords[bar, : len(names)] = [CHORD.start + CHORD_INDEX[name] for name in names]
        self._line = chords[None]  # (B, N, M) ids, NONE after the last chord of a bar
        self._start = start
        self._done = np.zeros(1, dtype=np.int64)  # chords of the bar so far

    def allowed(self) -> np.ndarray:
        """Return the mask of the tokens that can come next: (B, V) bool."""
        plain = super().allowed()
        mask = plain.copy()
        place, chord = self._due()
        inside = self._inside()
        mask[inside, CHORD.start : CHORD.stop] = False
        at = (place == self.subbeat) & np.isin(self.kind, (AFTER_SUBBEAT, AFTER_TEMPO))
        for row in np.flatnonzero(at):
            mask[row] &= KIND == AFTER_TEMPO
            mask[row, chord[row]] = plain[row, chord[row]]
        stuck = ~mask.any(axis=1)  # if all keys sound, only another chord can follow
        mask[stuck] = plain[stuck]
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return the tokens, with one that would skip the position of a chord replaced by that position."""
        tokens = np.asarray(tokens, dtype=np.int64)
        kind, (place, _) = KIND[tokens], self._due()
        passes = (kind == AFTER_BAR) | (kind == AFTER_END)
        passes |= (kind == AFTER_SUBBEAT) & (SUBBEAT_OF[tokens] > place)
        rows = np.flatnonzero(passes & (place != NONE) & (self.kind != AFTER_END))
        if not len(rows):
            return tokens
        position = SUBBEAT.start + np.maximum(place, 0)
        replaced = tokens.copy()
        rows = rows[self.allowed()[rows, position[rows]]]
        replaced[rows] = position[rows]
        return replaced

    def advance(self, tokens: np.ndarray) -> None:
        """Append one token to each row."""
        super().advance(tokens)
        kind = KIND[np.asarray(tokens, dtype=np.int64)]
        named = (kind == AFTER_CHORD) & self._inside()
        self._done = np.where(kind == AFTER_BAR, 0, self._done + named)
        for _ in range(MOST_A_BAR):  # the current chord is not repeated
            _, chord = self._due()
            self._done = self._done + ((chord != NONE) & (chord == self._chord))

    def _inside(self) -> np.ndarray:
        """Return the mask of the rows that have reached the progression."""
        return self._bars > self._start

    def _due(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sub-beat and the id of the next chord in the current bar, or NONE: (B,) each."""
        bars = (self._bars - 1 - self._start) % self._line.shape[1]
        chords = self._line[np.arange(len(bars)), bars]
        done = np.minimum(self._done, MOST_A_BAR - 1)[:, None]
        chord = np.take_along_axis(chords, done, axis=1)[:, 0]
        chord = np.where(self._inside() & (self._done < MOST_A_BAR), chord, NONE)
        count = (chords != NONE).sum(axis=1)
        return np.where(chord == NONE, NONE, PLACES[count, done[:, 0]]), chord
