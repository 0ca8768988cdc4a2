"""REMI, the language of one piano in 4/4: convert a score to tokens and back.

    begin (bar (subbeat tempo? chord? (pitch volume duration)*)*)* end

Tempo and chord are given when they change, the tempo only at the start of a bar. The notes of a sub-beat ascend. A bar
without notes is only a `bar` token; changes of tempo and chord in it move to the next bar with notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tokenization.analysis.chords import QUALITIES, ROOTS
from tokenization.grammar import Grammar
from tokenization.language import Encoded, Language
from tokenization.remi.spelling import (
    BAR,
    BAR_BEATS,
    BAR_SUBBEATS,
    BEGIN,
    CHORD,
    DURATION,
    END,
    FASTEST,
    HIGHEST_PITCH,
    KEYS,
    LOWEST_PITCH,
    PITCH,
    SLOWEST,
    SUBBEAT,
    SUBBEAT_OF,
    SUBBEAT_TICKS,
    SUBBEATS_PER_BEAT,
    TEMPO,
    TEMPO_STEP,
    TICKS_OF,
    VOCABULARY,
    VOLUME,
    VOLUMES,
    Gridded,
    arrange,
    to_grid,
)
from tokenization.score import Score

# The grammar: the tokens that can follow each prefix of a batch.
#
# They depend on a small state (the kind of the last token, the sub-beat, and whether the bar has a note), for which
# there is a table, and on four memories: the last tempo and chord, the last key played in this sub-beat, and the end of
# the last note on each key. There is no dead end: a chord can follow in any sub-beat, and a sub-beat of a bar without
# notes is only entered if some key becomes free before the bar ends.
#
# Letters: B rows of a batch, V tokens of the vocabulary.

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
        return self._bar_ticks() + self._state // 2 % BAR_SUBBEATS * SUBBEAT_TICKS

    def _bar_ticks(self) -> np.ndarray:
        """Return the tick at which the current bar starts: (B,)."""
        return np.maximum(self._bars - 1, 0) * BAR_SUBBEATS * SUBBEAT_TICKS


class Remi(Language):
    """The pop piano language, in bars of 4/4."""

    name = "remi"
    vocabulary = VOCABULARY
    begin = BEGIN
    end = END
    bar = BAR
    onset_steps = SUBBEATS_PER_BEAT
    arrange = staticmethod(arrange)
    details: ClassVar = {
        "bar_beats": BAR_BEATS,
        "bar_subbeats": BAR_SUBBEATS,
        "duration_steps_per_subbeat": SUBBEAT_TICKS,
        "pitch_range": [LOWEST_PITCH, HIGHEST_PITCH],
        "volume_levels": VOLUMES,
        "tempo_range_and_step": [SLOWEST, FASTEST, TEMPO_STEP],
        "chord_roots": [*ROOTS],
        "chord_qualities": [*QUALITIES],
    }

    def encode(self, score: Score) -> Encoded:
        """Convert an arranged score to tokens, from `begin` to `end`."""
        gridded, losses = to_grid(score)
        ids = _spell(gridded)
        return Encoded(ids=ids, bars=self.bars(ids), notes=len(gridded.key), losses=losses)

    def decode(self, ids: np.ndarray, setting: Any = None) -> Score:
        """Convert a valid sequence or prefix to a score; an incomplete note at the end is left out."""
        return _read(np.asarray(ids, dtype=np.int64)).score()

    def grammar(self, prompt: Sequence[int] | np.ndarray = (), **asked: Any) -> RemiGrammar:
        """Return the grammar for continuing a prompt, which is that of all valid sequences."""
        return RemiGrammar()

    def clock(self) -> dict[str, Any]:
        """Return how bar and sub-beat tokens move time, in sub-beats."""
        subbeats = [[SUBBEAT.start + place, 0, place] for place in range(BAR_SUBBEATS)]
        moves = [[BAR, 1, 0], *subbeats]
        return {"bar_ticks": BAR_SUBBEATS, "step_ticks": BAR_SUBBEATS, "moves": moves}


def _spell(piece: Gridded) -> np.ndarray:
    """Return the tokens of a piece: (T,) uint16.

    Every item gets a sort key, sub-beat × 8 + its rank within the sub-beat. The cumulative widths of the sorted items
    are their offsets.
    """
    notes = piece.onset_subbeats
    bars = BAR_SUBBEATS * np.arange(notes[-1] // BAR_SUBBEATS + 1)
    tempos = bars[piece.tempo_bar]
    subbeats = np.unique(np.concatenate([notes, tempos, piece.chord_subbeats]))
    parts = [bars, subbeats, tempos, piece.chord_subbeats, notes]
    counts = [len(part) for part in parts]
    place = np.concatenate([part * 8 + rank for rank, part in enumerate(parts)])

    order = np.argsort(place, kind="stable")  # keeps the order of the notes of a sub-beat
    width = np.ones(len(place), dtype=np.int64)
    width[-len(notes) :] = 3
    offset = np.empty_like(width)
    offset[order] = np.cumsum(width[order]) - width[order] + 1  # after begin
    bar_at, subbeat_at, tempo_at, chord_at, note_at = np.split(offset, np.cumsum(counts)[:-1])

    ids = np.empty(width.sum() + 2, dtype=np.uint16)
    ids[0], ids[-1] = BEGIN, END
    ids[bar_at] = BAR
    ids[subbeat_at] = SUBBEAT.start + subbeats % BAR_SUBBEATS
    ids[tempo_at] = TEMPO.start + piece.tempo
    ids[chord_at] = CHORD.start + piece.chord
    ids[note_at] = PITCH.start + piece.key
    ids[note_at + 1] = VOLUME.start + piece.volume
    ids[note_at + 2] = DURATION.start + piece.duration_ticks - 1
    return ids


def _read(ids: np.ndarray) -> Gridded:
    """Return the piece that valid tokens encode, (T,) int64, without incomplete notes."""
    bar = np.cumsum(ids == BAR) - 1  # (T,) −1 before the first bar
    placed = np.where((ids == BAR) | SUBBEAT.holds(ids), np.arange(len(ids)), 0)
    subbeat = SUBBEAT_OF[ids[np.maximum.accumulate(placed)]]
    onset = np.maximum(bar, 0) * BAR_SUBBEATS + subbeat
    tempos, chords, notes = (np.flatnonzero(b.holds(ids)) for b in (TEMPO, CHORD, PITCH))
    notes = notes[notes + 2 < len(ids)]
    return Gridded(
        onset_subbeats=onset[notes],
        key=ids[notes] - PITCH.start,
        volume=ids[notes + 1] - VOLUME.start,
        duration_ticks=TICKS_OF[ids[notes + 2]],
        tempo_bar=bar[tempos],
        tempo=ids[tempos] - TEMPO.start,
        chord_subbeats=onset[chords],
        chord=ids[chords] - CHORD.start,
    )
