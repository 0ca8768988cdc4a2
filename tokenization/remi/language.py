"""REMI, the language of one piano in 4/4: convert a score to tokens and back.

    begin (bar (subbeat tempo? chord? (pitch volume duration)*)*)* end

Tempo and chord are given when they change, the tempo only at the start of a bar. The notes of a sub-beat ascend. A bar
without notes is only a `bar` token; changes of tempo and chord in it move to the next bar with notes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tokenization.analysis.chords import QUALITIES, ROOTS
from tokenization.language import Encoded, Language
from tokenization.remi.grammar import RemiGrammar
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


class Remi(Language):
    """The pop piano language, in bars of 4/4."""

    name = "remi"
    vocabulary = VOCABULARY
    begin = BEGIN
    end = END
    bar = BAR
    onset_steps = SUBBEATS_PER_BEAT
    rules = RemiGrammar
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
