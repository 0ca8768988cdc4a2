"""Goals a model can be given: to end in a certain bar, to fill a gap, to write some parts; and the tokens for them.

Several languages share these tokens. A sequence without them is a plain piece. With them, the given notes come first,
the written ones follow, and each written bar counts down to the goal, right after the token that begins it:

    an ending    … bar left_3 … bar left_2 … bar left_1 … end
    a gap        begin after <bars after the gap> before <bars before it> bar seam_2 … bar seam_1 … end

A countdown starts at COUNTED at most: bars further away say nothing. The bars after a gap are given first, closed by
`before` (suffix, prefix, middle: Bavarian et al., "Efficient training of language models to fill in the middle", 2022).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tokenization.grammar import Grammar
from tokenization.logit_bias import LogitBias
from tokenization.wording import counted

COUNTED = 16  # the bars before a goal that say how far it is
PERIOD = 4  # bars: as metric heads look back by 1, 2 and 4, what is given stands in phase with what is written
LEFT, SEAM, MARKER = "left", "seam", "marker"  # the names of these families in a vocabulary
GOAL_FAMILIES: list[tuple[str, list[str]]] = [
    (LEFT, [f"left_{bars}" for bars in range(1, COUNTED + 1)]),  # bars left, this one included
    (SEAM, [f"seam_{bars}" for bars in range(1, COUNTED + 1)]),
    (MARKER, ["after", "before"]),
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Goal:
    """A piece to be completed: what a model is given first, and by which rules it writes the rest.

    Writing goes on until the end token, which the grammar allows where the goal is reached and nowhere else.
    """

    prompt: np.ndarray  # ids before the first one that is drawn
    grammar: Grammar  # stands before the prompt's first token
    whole: Callable[[np.ndarray], np.ndarray]
    """Reads prompt and what was written, also where it is broken off: the plain ids of the whole piece, closed."""
    # What the goal makes likelier beside what the model makes of it.
    logit_bias: LogitBias | None = None
    elsewhere: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """What else of the piece is known, ids that the prompt leaves out; music may recall it."""
    replaced: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """What stood where writing begins, after the prompt's last bar token."""
    tracks: tuple[int, ...] = ()
    """The tracks of the whole piece that are written, where some parts are written to others."""


def given_until(stop: int, bars_before: int) -> int:
    """Return the first bar after a gap that a prompt does not give, of a gap that ends before the bar `stop`.

    As many bars are given as bring what stands before the gap, so many bars, to the same place of the period.
    """
    return stop + PERIOD + -bars_before % PERIOD


def check_gap(start: int, stop: int, bars: int) -> None:
    """Refuse the bars start … stop − 1 of a piece of so many where they cannot be filled."""
    if not 0 <= start < stop <= bars:
        raise ValueError(
            f"bars {start + 1} to {stop} cannot be filled in a piece that has {counted(bars, 'bar')}"
        )
    if stop - start > COUNTED:
        raise ValueError(
            f"bars {start + 1} to {stop} are {stop - start}; {COUNTED} at most can be filled at once"
        )
