"""Why a groove token may not stand where it does, in a sentence."""

from __future__ import annotations

import numpy as np

from tokenization.groove.events import Reading
from tokenization.groove.tokens import (
    BEGIN,
    END,
    LONG_SHIFT,
    MOST_UNISONS,
    NOTE_OFF,
    NOTE_ON,
    SHIFT_BEATS,
    SHIFT_TICK,
    TICKS_PER_BEAT,
    TIME_SHIFT,
    VOCABULARY,
)


def explain(ids: np.ndarray) -> str:
    """Say why the last of these ids may not follow the others, which are a valid prefix."""
    token, before = int(ids[-1]), Reading(ids[:-1])
    name = VOCABULARY.names[token]
    if not len(before.ids):
        return f"a piece starts with begin, but {name} does"
    last = int(before.ids[-1])
    previous = VOCABULARY.names[last]
    if last == END:
        return f"nothing may follow end, but {name} does"
    if token == BEGIN:
        return f"{name} may not stand inside a piece"
    if token == END:
        return _why_not_end(before, previous)
    if _is_shift(token):
        if _is_shift(last) and last != LONG_SHIFT:
            return f"a note-on or note-off must follow {previous}, but {name} does"
        return _why_not_shift(before, token, name)
    return why_not_event(before, token, name, _why_not_here(before, previous))


def _is_shift(token: int) -> bool:
    return TIME_SHIFT.start <= token < TIME_SHIFT.stop


def _why_not_end(before: Reading, previous: str) -> str:
    if _is_shift(int(before.ids[-1])):
        return f"a note-on or note-off must follow {previous}, but end does"
    if not len(before.said):
        return "a piece has notes, but end follows begin"
    sounds = before.said[before.is_on][~np.isin(np.flatnonzero(before.is_on), before.complete[0])]
    names = ", ".join(VOCABULARY.names[int(i)] for i in before.ids[sounds[:3]])
    more = ", …" if len(sounds) > 3 else ""
    return f"end may not come while notes sound: {names}{more}"


def _why_not_shift(before: Reading, token: int, name: str) -> str:
    tick = int(before.time_ticks[-1]) % TICKS_PER_BEAT
    shift = token - TIME_SHIFT.start
    if SHIFT_BEATS[shift] == 0 and SHIFT_TICK[shift] < tick:
        return f"{name} steps back: time is at tick {tick} of the beat already"
    return f"{name} stays where time is, and no note-on may follow there"


def _why_not_here(before: Reading, previous: str) -> str:
    """Say which shift an event off the beat lacks, if it lacks one."""
    tick = int(before.time_ticks[-1]) % TICKS_PER_BEAT
    if not tick or _is_shift(int(before.ids[-1])):
        return ""
    return f"lies off the beat and needs time_shift_0_{tick} before it, but follows {previous}"


def why_not_event(before: Reading, token: int, name: str, misplaced: str = "") -> str:
    """Say why a note may not begin or end after valid ids: it may also be `misplaced`, as this says."""
    is_on = token < NOTE_ON.stop
    key = token - (NOTE_ON.start if is_on else NOTE_OFF.start)
    sounding = int(np.where(before.is_on, 1, -1)[before.key == key].sum())
    if not is_on and not sounding:
        return f"{name} would end a note that does not sound"
    if is_on and sounding == MOST_UNISONS:
        return f"{MOST_UNISONS} notes of {name} sound already"
    if misplaced:
        return f"{name} {misplaced}"
    said = VOCABULARY.names[int(before.ids[before.said[-1]])]
    if is_on:
        order = "the note-ons of one time ascend by pitch, and within a pitch by track"
    elif before.is_on[-1]:
        order = "the note-offs of one time come before its note-ons"
    else:
        order = "of the notes that end at one time the oldest ends first"
    return f"{order}, but {name} follows {said}"
