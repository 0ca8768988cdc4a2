"""Why a token of the second groove language may not stand where it does, in a sentence."""

from __future__ import annotations

import numpy as np

from tokenization.groove.faults import why_not_event
from tokenization.groove.tokens import BAR_TICKS, BEGIN, END
from tokenization.groove_2.spelling import BarReading
from tokenization.groove_2.tokens import AT, BAR, GOAL_START, TICK_OF, VOCABULARY


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
