"""How good an accompaniment is: one part of a real piece is hidden, written anew to the others, and compared with it.

The likeness is that of style profiles (style.py): of drums by onset and drum, of a pitched part by onset and duration
and by time and pitch. Beside it stands how like the hidden part are parts that nobody wrote for these bars:

    next     the same piece's own part in the bars that follow
    same     the part of another piece of the style: to play the style's usual figure, whatever the others do
    other    the part of a piece of another style

Where a written part has no notes of the kind that a profile counts, its likeness is 0; the others have no value there.

And how well it keeps to the piece's harmony (metrics/statistics.py): the share of a pitched part's notes that are tones
of the chord where they begin. There the hidden part has a value of its own, `real`. So it has in how many notes there
are a bar, and how many sound at a time: a part may be like another and half as busy; notes that nobody ends drone.

A style is one value, the mean over its pieces; means and intervals are over styles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from evaluation.metrics.estimates import estimate, mean
from evaluation.metrics.statistics import HARMONY, NOTES_A_BAR, SOUNDING, in_harmony
from evaluation.metrics.style import cosine, onset_drum, onset_duration, time_pitch
from musicgen.completion import WholeIds, accompaniment_goal
from musicgen.options import Options
from musicgen.playable import Playable
from tokenization.groove.language import Groove
from tokenization.groove.spelling import BAR_TICKS, DRUMS, TICKS_PER_BEAT
from tokenization.score import Notes

WRITTEN = "written"
REAL = "real"
BESIDE = (REAL, "next", "same", "other")
Row = dict[str, Any]


def first_bars(notes: Notes, bars: int, start: int = 0) -> Notes:
    """Return what begins in some bars, moved to begin at 0; what sounds at their end ends there."""
    line, end = start * BAR_TICKS, (start + bars) * BAR_TICKS
    notes = notes[(notes.onset_ticks >= line) & (notes.onset_ticks < end)]
    return notes.replace(
        onset_ticks=notes.onset_ticks - line,
        duration_ticks=np.minimum(notes.end_ticks, end) - notes.onset_ticks,
    )


def accompany(model: Playable, language: Groove, piece: Notes, part: int, *, seed: int) -> WholeIds:
    """Return the work to write one part of a piece anew, by a model of this language."""
    ids, write = language.spell(piece), [language.parts[part]]
    goal = accompaniment_goal(model, ids, write, TICKS_PER_BEAT)
    return WholeIds(model, goal, Options(seed=seed))


def hidden_parts(piece: Notes) -> list[int]:
    """Return the parts that can be hidden: those that play, where another one plays too."""
    playing = np.unique(piece.track).tolist()
    return playing if len(playing) > 1 else []


def compared(piece: Notes, part: int, others: Mapping[str, Notes | None]) -> list[Row]:
    """Return the likeness of a part in other music to that of a piece, a row a metric, and its share in harmony."""
    return [*_likeness(piece, part, others), *_harmony(piece, part, others)]


def _likeness(piece: Notes, part: int, others: Mapping[str, Notes | None]) -> list[Row]:
    true = _profiles(piece, part)
    found = {
        name: {} if notes is None else _profiles(notes, part) for name, notes in others.items()
    }
    rows = [
        {
            "metric": metric,
            **{
                name: cosine(histogram, own[metric]) if metric in own else None
                for name, own in found.items()
            },
        }
        for metric, histogram in true.items()
    ]
    for row in rows:
        if row.get(WRITTEN, 0) is None and true[row["metric"]].any():
            row[WRITTEN] = 0.0
    return rows


def _harmony(piece: Notes, part: int, others: Mapping[str, Notes | None]) -> list[Row]:
    if part == DRUMS:
        return []
    pitched = piece[piece.track != DRUMS]

    def share(notes: Notes | None) -> float | None:
        if notes is None:
            return None
        return in_harmony(notes[notes.track == part], pitched, TICKS_PER_BEAT)

    shares = {name: share(notes) for name, notes in others.items()}
    row = {"metric": HARMONY, REAL: share(piece), **shares}
    if row.get(WRITTEN, 0) is None and row[REAL] is not None:
        row[WRITTEN] = 0.0
    return [row]


def density(piece: Notes, part: int, bars: int, others: Mapping[str, Notes | None]) -> list[Row]:
    """Return how many notes a part has a bar and at a time, in a piece of so many bars and in other music as long."""
    found = {
        name: None if notes is None else notes[notes.track == part]
        for name, notes in {REAL: piece, **others}.items()
    }
    measures = {
        NOTES_A_BAR: lambda own: len(own) / bars,
        SOUNDING: lambda own: float(own.duration_ticks.sum()) / (bars * BAR_TICKS),
    }
    return [
        {"metric": metric}
        | {name: None if own is None else measure(own) for name, own in found.items()}
        for metric, measure in measures.items()
    ]


def _profiles(notes: Notes, part: int) -> dict[str, np.ndarray]:
    own = notes[notes.track == part]
    if part == DRUMS:
        return {"onset_drum": onset_drum(own, TICKS_PER_BEAT)}
    return {
        "onset_duration": onset_duration(own, TICKS_PER_BEAT),
        "time_pitch": time_pitch(own, TICKS_PER_BEAT),
    }


def summary(rows: Iterable[Row]) -> list[Row]:
    """Return for each part and metric the estimates over styles, and in how many styles the written one is likest."""
    rows = list(rows)
    result = []
    for part, metric in dict.fromkeys((row["part"], row["metric"]) for row in rows):
        own = [row for row in rows if (row["part"], row["metric"]) == (part, metric)]
        styles = sorted({row["style"] for row in own})
        by_style = {
            name: [mean(row.get(name) for row in own if row["style"] == style) for style in styles]
            for name in (WRITTEN, *BESIDE)
        }
        pairs = zip(by_style[WRITTEN], by_style["same"], strict=True)
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        result.append(
            {
                "part": part,
                "metric": metric,
                "pieces": len(own),
                **{name: asdict(estimate(values)) for name, values in by_style.items()},
                "above_same": sum(a > b for a, b in both),
                "of": len(both),
            }
        )
    return result
