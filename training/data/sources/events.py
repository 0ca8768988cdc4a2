"""The events of the pop piano release as a score: pickled lists of {name, value}.

A file holds (bar positions, events); the events are `Bar`, `Beat` 0 … 15, `Tempo`, `Chord`, and
`Note_Pitch`, `Note_Velocity`, `Note_Duration` in a row, durations in 480ths of a beat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tokenization.analysis.grid import FOUR_FOUR
from tokenization.score import Marker, Notes, Score, Tempos, Track

TICKS_PER_BEAT = 480
SUBBEAT_TICKS = TICKS_PER_BEAT // 4
BAR_SUBBEATS = 16
_NOTE = ("Note_Pitch", "Note_Velocity", "Note_Duration")
_IGNORED = {"EOS", "PAD"}


def score_of_events(content: Any) -> Score:
    """Return the score that the content of an event file describes."""
    notes, tempos, markers = [], [], []
    bar, subbeat = -1, 0
    events = _events(content)
    for number, (name, value) in enumerate(events):
        tick = (bar * BAR_SUBBEATS + subbeat) * SUBBEAT_TICKS
        if name == "Bar":
            bar, subbeat = bar + 1, 0
        elif name in _IGNORED:
            continue
        elif bar < 0:
            raise ValueError(f"event {number} is {name} where the first Bar would come")
        elif name == "Beat":
            subbeat = _number(number, name, value, 0, BAR_SUBBEATS - 1)
        elif name == "Tempo":
            tempos.append((tick, _number(number, name, value, 1, 1000)))
        elif name == "Chord":
            markers.append(Marker(tick, str(value)))
        elif name == _NOTE[0]:
            notes.append((tick, *_note(number, events)))
        elif name not in _NOTE:
            raise ValueError(
                f"event {number} is {name!r}; Bar, Beat, Tempo, Chord and notes are read"
            )
    onset, pitch, velocity, duration = _columns(notes, 4)
    return Score(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=Notes(onset, duration, pitch, velocity, np.zeros_like(onset)),
        tracks=(Track(name="Piano"),),
        tempos=Tempos(*_columns(tempos, 2)),
        meters=FOUR_FOUR,
        markers=tuple(markers),
    )


def _events(content: Any) -> list[tuple[str, Any]]:
    pair = isinstance(content, tuple | list) and len(content) == 2
    events = content[1] if pair and isinstance(content[1], list) else content
    if (
        not isinstance(events, list)
        or not events
        or not all(isinstance(event, dict) and {"name", "value"} <= {*event} for event in events)
    ):
        raise ValueError("the pickle holds no (bar positions, [{name, value}, …])")
    return [(str(event["name"]), event["value"]) for event in events]


def _note(number: int, events: list[tuple[str, Any]]) -> Iterator[int]:
    """Yield pitch, velocity and duration from the three events of a note."""
    for offset, (expected, least, most) in enumerate(
        zip(_NOTE, (0, 1, 1), (127, 127, 1 << 20), strict=True)
    ):
        name, value = events[number + offset] if number + offset < len(events) else ("the end", 0)
        if name != expected:
            raise ValueError(f"event {number + offset} is {name} where {expected} would come")
        yield _number(number + offset, name, value, least, most)


def _number(number: int, name: str, value: Any, least: int, most: int) -> int:
    try:
        found = round(float(value))
    except (TypeError, ValueError, OverflowError):
        found = least - 1
    if not least <= found <= most:
        raise ValueError(f"event {number} is {name} {value!r}; {least} to {most} would be read")
    return found


def _columns(rows: list[tuple[int, ...]], count: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, count).T
