"""A score as the page draws and plays it, as plain data: notes, tracks, tempo, chords, metres and bar lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.language import Language
from tokenization.notation.musicxml.spelling import key_of
from tokenization.score import Columns, Score

Row = list[int]  # onset, duration, pitch, velocity and track of a note, or a tick and a metre


def picture(score: Score, bars: int | None = None) -> dict[str, Any]:
    """Return a score with the lines of `bars` bars, or of as many as its notes begin."""
    counted = max(1, bar_count(score) if bars is None else bars)
    found = columns(score, counted)
    return {
        **found,
        "notes": [number for row in found["notes"] for number in row],
        "tracks": [
            {
                "name": track.name or ("Drums" if track.is_drum else f"Track {number}"),
                "program": track.program,
                "drum": track.is_drum,
            }
            for number, track in enumerate(score.tracks, 1)
        ],
        "ticksPerBeat": score.ticks_per_beat,
        "centre": key_of(score).centre,
    }


def columns(score: Score, bars: int) -> dict[str, list[Any]]:
    """Return what of a score may change as it grows: metres that are written move the lines of later bars."""
    tempos = zip(*(column.tolist() for column in score.tempos.columns), strict=True)
    return {
        "notes": _rows(score.notes),  # in the order of their onsets
        "tempos": [[int(tick), round(float(tempo), 3)] for tick, tempo in tempos],
        "chords": [
            [marker.onset_ticks, marker.text] for marker in score.markers
        ],  # the page spells them by the key
        "meters": _rows(score.meters),
        "lines": bar_lines(score, bars).tolist(),
    }


def _rows(table: Columns) -> list[Row]:
    return np.stack(table.columns, axis=-1).tolist() if len(table) else []


def trained_bars(language: Language, ids: np.ndarray, trained_length: int) -> float | None:
    """Return after how many bars these tokens pass the length of the training's sequences."""
    if not 0 < trained_length < len(ids):
        return None
    starts = np.append(language.bars(ids), len(ids))
    bar = int(np.searchsorted(starts, trained_length, side="right")) - 1
    if bar < 0:
        return 0.0
    return bar + float((trained_length - starts[bar]) / max(1, starts[bar + 1] - starts[bar]))
