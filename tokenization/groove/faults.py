"""Whether a groove sequence is the one spelling of its music, and why a token may not stand where it does.

Of all ways to say the same music one is valid:

- A shift moves time to where an event follows: by two beats as often as that fits, then by what
  is left. Every event that does not lie on a beat has a shift of its own, to its tick: there is no
  shift of (0, 0), and the published encoder puts one wherever there could be one.
- At one time the note-offs come first, the oldest note first; then the note-ons, by pitch, and
  within a pitch by track. Notes that begin together are as old as their note-ons' order says.
- A note lasts a tick or more, and of the notes that sound on one key the first one ends first.

What a model writes by (grammar.py) leaves the order open. Letters: T tokens of a sequence, K = 384 keys.
"""

from __future__ import annotations

import numpy as np

from tokenization.groove.events import Reading, spell_events
from tokenization.groove.tokens import (
    BEGIN,
    END,
    KEYS,
    LONG_SHIFT,
    MOST_UNISONS,
    NOTE_OFF,
    NOTE_ON,
    PITCHES,
    SHIFT_BEATS,
    SHIFT_TICK,
    TICKS_PER_BEAT,
    TIME_SHIFT,
    TRACKS,
    VOCABULARY,
)

# The order of note-ons at one time.
RANK = np.arange(KEYS) % PITCHES * len(TRACKS) + np.arange(KEYS) // PITCHES  # (K,)


def is_valid(ids: np.ndarray) -> bool:
    """Say whether a sequence, or a prefix of one, says its events as the encoder would."""
    if not len(ids):
        return True
    reading = Reading(ids)
    sounding, events = reading.sounding, reading.events
    if ((sounding < 0) | (sounding > MOST_UNISONS)).any() or (np.diff(events.time_ticks) < 0).any():
        return False
    spelled = spell_events(events.sorted())
    return np.array_equal(ids[: len(spelled)], spelled) and _may_close(reading, len(spelled))


def _may_close(reading: Reading, start: int) -> bool:
    """Say whether what follows the last event, from `start` on, may follow it."""
    rest, on = reading.ids[start:], reading.is_on
    if not len(rest):
        return True
    if rest[0] == END:
        return len(rest) == 1 and len(on) > 0 and 2 * on.sum() == len(on)
    if (rest[:-1] != LONG_SHIFT).any() or not TIME_SHIFT.holds(rest[-1]):
        return False
    before, after = reading.time_ticks[start - 1], reading.time_ticks[-1]
    if after != before or not on[-1]:
        return bool(after >= before)
    # A shift to where time is already needs a note-on that can follow it.
    sounding = np.bincount(reading.key, weights=np.where(on, 1, -1), minlength=KEYS)
    may_follow = RANK[reading.key[-1]] <= RANK
    return bool((sounding[may_follow] < MOST_UNISONS).any())


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
    if not len(before.event_places):
        return "a piece has notes, but end follows begin"
    sounds = before.event_places[before.is_on][
        ~np.isin(np.flatnonzero(before.is_on), before.complete[0])
    ]
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
    previous_name = VOCABULARY.names[int(before.ids[before.event_places[-1]])]
    if is_on:
        order = "the note-ons of one time ascend by pitch, and within a pitch by track"
    elif before.is_on[-1]:
        order = "the note-offs of one time come before its note-ons"
    else:
        order = "of the notes that end at one time the oldest ends first"
    return f"{order}, but {name} follows {previous_name}"
