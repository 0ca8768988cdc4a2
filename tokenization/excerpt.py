"""A part of a score, with what is in force where it begins."""

from __future__ import annotations

import numpy as np

from tokenization.score import Columns, Marker, Pedals, Score


def excerpt(score: Score, start_ticks: int, stop_ticks: int | None = None) -> Score:
    """Return the notes that begin in start … stop − 1, moved to begin at 0.

    The tempo, the meter and the last marker before the start hold at the new beginning.
    """
    stop = np.inf if stop_ticks is None else stop_ticks
    notes = score.notes[(score.notes.onset_ticks >= start_ticks) & (score.notes.onset_ticks < stop)]
    ends = np.minimum(score.pedals.onset_ticks + score.pedals.duration_ticks, stop)
    starts = np.maximum(score.pedals.onset_ticks, start_ticks)
    held = ends > starts
    pedals = Pedals(starts[held] - start_ticks, (ends - starts)[held], score.pedals.track[held])
    return score.replace(
        notes=notes.replace(onset_ticks=notes.onset_ticks - start_ticks),
        tempos=_in_force(score.tempos, start_ticks, stop),
        meters=_in_force(score.meters, start_ticks, stop),
        pedals=pedals,
        markers=_markers_in_force(score.markers, start_ticks, stop),
    )


def _in_force(changes: Columns, start: int, stop: float) -> Columns:
    """Return the changes in start … stop − 1, and the last before them at 0."""
    onsets: np.ndarray = changes.columns[0]
    before = np.flatnonzero(onsets <= start)[-1:]
    inside = np.flatnonzero((onsets > start) & (onsets < stop))
    chosen = changes[np.concatenate([before, inside])]
    return chosen.replace(onset_ticks=np.maximum(chosen.columns[0] - start, 0))


def _markers_in_force(markers: tuple[Marker, ...], start: int, stop: float) -> tuple[Marker, ...]:
    before = [marker for marker in markers if marker.onset_ticks <= start][-1:]
    inside = [marker for marker in markers if start < marker.onset_ticks < stop]
    return tuple(Marker(max(0, m.onset_ticks - start), m.text) for m in before + inside)
