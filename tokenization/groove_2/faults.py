"""Whether a sequence of the second groove language is the one spelling of its music, and why a token may not stand.

The order of events at one time is that of the first one (groove/faults.py). Places in a bar ascend, and something
happens at each. The last bar has something in it, be it a note that sounds on: so a piece has one number of bars.
"""

from __future__ import annotations

import numpy as np

from tokenization.groove.faults import why_not_event
from tokenization.groove.tokens import BAR_TICKS, BEGIN, END, MOST_UNISONS
from tokenization.groove_2.spelling import BarReading, spell_bars
from tokenization.groove_2.tokens import AT, BAR, GOAL_START, TICK_OF, VOCABULARY


def is_valid(ids: np.ndarray) -> bool:
    """Say whether a sequence, or a prefix of one, says its events as the encoder would."""
    if not len(ids) or ids[0] != BEGIN:
        return not len(ids)
    begun = ids[:-1] if len(ids) > 1 and (ids[-1] == END or AT.holds(ids[-1:])[0]) else ids
    reading = BarReading(begun)
    sounding, events = reading.sounding, reading.events
    if ((sounding < 0) | (sounding > MOST_UNISONS)).any() or (np.diff(events.time_ticks) < 0).any():
        return False
    spelled = spell_bars(events.sorted(), 0, reading.bars)
    if not np.array_equal(begun[1:], spelled):
        return False
    if len(begun) == len(ids):
        return True
    tick = int(reading.time_ticks[-1]) % BAR_TICKS
    if ids[-1] != END:
        return reading.bars > 0 and tick < int(TICK_OF[ids[-1]])
    return reading.bars > 0 and (
        tick > 0 or 2 * int(reading.is_on.sum()) > len(reading.event_places)
    )


def explain(ids: np.ndarray) -> str:
    """Say why the last of these ids may not follow the others, which are a valid prefix."""
    token, before = int(ids[-1]), BarReading(ids[:-1])
    name = VOCABULARY.names[token]
    if not len(before.ids):
        return f"a piece starts with begin, but {name} does"
    last = int(before.ids[-1])
    previous = VOCABULARY.names[last]
    if last == END:
        return f"nothing may follow end, but {name} does"
    if token == BEGIN or token >= GOAL_START:
        return f"{name} may not stand inside a piece"
    if last == BEGIN:
        return f"a bar must follow begin, but {name} does"
    if token == END and not AT.holds(before.ids[-1:])[0]:
        return "the last bar has something in it, but end follows an empty one"
    if token in (BAR, END) or AT.holds(ids[-1:])[0]:
        if AT.holds(before.ids[-1:])[0]:
            return f"a note-on or note-off must follow {previous}, but {name} does"
        tick = int(before.time_ticks[-1]) % BAR_TICKS
        return f"places in a bar ascend, but tick {TICK_OF[token]} follows tick {tick}"
    return why_not_event(before, token, name)
