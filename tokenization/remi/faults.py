"""Why a REMI token may not stand where it does, in a sentence."""

from __future__ import annotations

import numpy as np

from tokenization.analysis.metres import LENGTHS, NAMES
from tokenization.remi.grammar import (
    AFTER_BAR,
    AFTER_BEGIN,
    AFTER_CHORD,
    AFTER_DURATION,
    AFTER_END,
    AFTER_METRE,
    AFTER_PITCH,
    AFTER_SUBBEAT,
    AFTER_TEMPO,
    AFTER_VOLUME,
    GOAL,
    NOTHING,
)
from tokenization.remi.reading import Reading
from tokenization.remi.tokens import SUBBEAT_OF, SUBBEAT_TICKS, TICKS_OF, VOCABULARY


def explain(ids: np.ndarray) -> str:
    """Say why the last of these ids may not follow the others, which are a valid prefix."""
    ids = np.asarray(ids, dtype=np.int64)
    token = int(ids[-1])
    name, kind = VOCABULARY.names[token], Reading(ids[-1:]).kind[0]
    before = Reading(ids[:-1])
    previous = VOCABULARY.names[int(ids[-2])] if len(ids) > 1 else "the beginning"
    if fixed := _what_must_follow(before, previous):
        return f"{fixed}, but {name} does"
    if kind in (NOTHING, AFTER_BEGIN):
        return f"{name} may not stand inside a piece"
    if kind == GOAL:
        return f"{name} belongs to a goal, and not into a piece"
    if kind in (AFTER_VOLUME, AFTER_DURATION):
        front = "pitch" if kind == AFTER_VOLUME else "volume"
        return f"{name} must follow a {front}, not {previous}"
    if kind in (AFTER_BAR, AFTER_END):
        return _why_not_close(before, name, previous)
    if kind == AFTER_PITCH:
        return _why_not_pitch(before, token, name, previous)
    if kind == AFTER_SUBBEAT:
        return _why_not_subbeat(before, token, name, previous)
    return _why_no_change(before, token, name, previous, kind)


def _what_must_follow(before: Reading, previous: str) -> str:
    """Return what must follow where only one family may, else nothing."""
    kind = before.kind[-1] if len(before.ids) else NOTHING
    return {
        NOTHING: "a piece starts with begin",
        AFTER_BEGIN: "bar must follow begin",
        AFTER_END: "nothing may follow end",
        AFTER_PITCH: f"volume must follow {previous}",
        AFTER_VOLUME: f"duration must follow {previous}",
    }.get(int(kind), "")


def _why_not_close(before: Reading, name: str, previous: str) -> str:
    if before.kind[-1] == AFTER_SUBBEAT:
        return f"{previous} is empty: a chord, a note or a tempo must follow, not {name}"
    if before.kind[-1] in (AFTER_BAR, AFTER_METRE):
        return f"the last bar of a piece has notes, but {name} follows an empty one"
    return f"bar {before.bar[-1] + 1} has no note yet, so {name} may not follow {previous}"


def _why_not_subbeat(before: Reading, token: int, name: str, previous: str) -> str:
    if before.kind[-1] == AFTER_SUBBEAT:
        return f"{previous} is empty: a chord, a note or a tempo must follow, not {name}"
    metre = int(before.bars.metre[-1])
    if SUBBEAT_OF[token] >= LENGTHS[metre]:
        return f"{name} lies outside bar {before.bar[-1] + 1}, which is in {NAMES[metre]}"
    if before.kind[-1] in (AFTER_BAR, AFTER_METRE):
        return f"every key sounds through bar {before.bar[-1] + 1}, so {name} could get no note"
    return f"{name} must lie after subbeat_{before.subbeat[-1]}, where the bar already is"


def _why_not_pitch(before: Reading, token: int, name: str, previous: str) -> str:
    if before.kind[-1] in (AFTER_BAR, AFTER_METRE):
        return f"{name} needs a sub-beat before it, but follows {previous}"
    notes, now = before.notes, int(before.onset_subbeats[-1])
    here = before.ids[notes][before.onset_subbeats[notes] == now]
    if len(here) and here.max() >= token:
        last = VOCABULARY.names[int(here.max())]
        return f"the notes of a sub-beat stand in ascending order, but {name} follows {last}"
    struck = notes[before.ids[notes] == token][-1]
    ticks = int(TICKS_OF[before.ids[struck + 2]])
    end = int(before.onset_subbeats[struck]) + -(-ticks // SUBBEAT_TICKS)
    bar = int(before.bars.of(np.array(end)))
    start, length = int(before.bars.start[bar]), int(before.bars.length[bar])
    more, place = divmod(end - start, length)  # bars like the last may come
    return f"{name} still sounds until sub-beat {place} of bar {bar + more + 1}"


def _why_no_change(before: Reading, token: int, name: str, previous: str, kind: int) -> str:
    family, places, front = {
        AFTER_METRE: ("metre", (AFTER_BAR,), "a bar"),
        AFTER_TEMPO: ("tempo", (AFTER_SUBBEAT,), "subbeat_0"),
        AFTER_CHORD: ("chord", (AFTER_SUBBEAT, AFTER_TEMPO), "a sub-beat or its tempo"),
    }[kind]
    right_place = before.kind[-1] in places and (kind != AFTER_TEMPO or before.subbeat[-1] == 0)
    past = before.ids[before.kind == kind]
    if right_place and (token in past[-1:] or kind == AFTER_METRE):
        return f"the {family} is {name} already"
    return f"{name} may stand only directly after {front}, not after {previous}"
