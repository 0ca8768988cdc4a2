"""Measures drums that are written to pieces: python -m tests.tools.measure.drums FILE… [--bars 16] [--model ensemble].

Its own drums are left out (rewritten.py). Backbeat: bars of 4/4 with a snare, rim or clap on beats two and four, or
the pedal hi-hat in swung music. Feel: onsets of the drums between the beats that are where those of the other parts
are, if these are clearly straight or swung. Fills: notes of toms in bars that end a phrase, and in the other bars. Kit:
bars of 4/4 with a bass drum, a snare or side stick, and hats or rides on three beats. Open hats: their share of all
hats and rides.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.tools.measure.rewritten import compare
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.arranging import phrases_of
from tokenization.ensemble.drumming import (
    COMPOUND,
    FOOT,
    FRAMES,
    KICKS,
    OPEN_HAT,
    SNARES,
    SWUNG,
    TOMS,
    Groove,
    feel_of,
)
from tokenization.ensemble.fitting import first_downbeat
from tokenization.ensemble.given_returns import returns_of
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    DRUMS,
    LONGEST_BAR,
    LOWEST_DRUM,
    STEPS_PER_BEAT,
    STEPS_PER_SUBBEAT,
)

MEASURES = (
    "backbeat", "kick and snare", "kit", "feel", "toms in fills", "toms elsewhere", "open hats",
)  # fmt: skip
FRAME = 3  # beats of a bar


def of_drums(sheet: Sheet) -> dict[str, float | None]:
    """Return the measures of the drums of a piece, which are compared with its other parts."""
    hits = sheet.instrument == DRUMS
    given = Sheet(**{
        **{name: getattr(sheet, name) for name in ("bars", "parts", "tempo", "flat")},
        **{name: getattr(sheet, name)[~hits] for name in ("bar", "part", "onset", "length", "loudness", "value")},
    })  # fmt: skip
    feel, bars = feel_of(given), len(sheet.bars)
    bar, drum = sheet.bar[hits], sheet.value[hits] + LOWEST_DRUM
    step = sheet.onset[hits] - (sheet.bars.start * STEPS_PER_SUBBEAT)[bar]
    backs = [*SNARES, *([FOOT] if feel == SWUNG else [])]
    struck = np.isin(drum, backs)
    both = [np.bincount(bar[struck & (step == at)], minlength=bars) > 0 for at in (24, 72)]
    counted = (sheet.bars.metre == FOUR_FOUR) & (np.bincount(bar, minlength=bars) > 0)
    has_both = np.logical_and(
        *(np.bincount(bar[np.isin(drum, one)], minlength=bars) > 0 for one in (KICKS, SNARES))
    )
    frame = np.zeros((bars, LONGEST_BAR // STEPS_PER_BEAT), bool)
    is_frame = np.isin(drum, (*FRAMES, FOOT, OPEN_HAT))
    framed = is_frame & (step % STEPS_PER_BEAT == 0)
    frame[bar[framed], step[framed] // STEPS_PER_BEAT] = True
    has_all = has_both & (frame.sum(1) >= FRAME)
    within = step % STEPS_PER_BEAT
    between = within[(within > 0) & ~np.array(COMPOUND)[sheet.bars.metre[bar]]]
    agree = between % (8 if feel == SWUNG else 6) == 0
    phrases = phrases_of(returns_of(given), first_downbeat(given))
    ends = Groove.of(given, phrases).fills
    toms = np.bincount(bar[np.isin(drum, TOMS)], minlength=bars)
    return {
        "backbeat": float((both[0] & both[1])[counted].mean()) if counted.any() else None,
        "kick and snare": float(has_both[counted].mean()) if counted.any() else None,
        "kit": float(has_all[counted].mean()) if counted.any() else None,
        "feel": float(agree.mean()) if feel and len(agree) else None,
        "toms in fills": float(toms[ends].mean()) if ends.any() else None,
        "toms elsewhere": float(toms[~ends].mean()) if (~ends).any() else None,
        "open hats": float(np.mean(drum[is_frame] == OPEN_HAT)) if is_frame.any() else None,
    }


if __name__ == "__main__":
    sys.exit(compare(__doc__, "drums", MEASURES, of_drums))
