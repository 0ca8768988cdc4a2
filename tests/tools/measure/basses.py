"""Measures basses that are written to bands: python -m tests.tools.measure.basses FILE… [--bars 40] [--model ensemble].

Their own basses are left out (rewritten.py). Downbeat: bars in which the bass plays that it begins on the bar line.
Same: pairs of bars in a row with the same onsets. Alike: the Jaccard index of their onsets. Rhythms: different onsets
of bars, to all bars in which it plays. Notes: those of a bar in which it plays.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from tests.tools.measure.rewritten import compare
from tokenization.ensemble.arranging import BASSES
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import STEPS_PER_SUBBEAT

MEASURES = "downbeat", "same", "alike", "rhythms", "notes"


def of_bass(sheet: Sheet) -> dict[str, float | None]:
    """Return the measures of the busiest bass of a piece."""
    parts = np.flatnonzero(np.isin(sheet.parts, BASSES))
    counts = np.bincount(sheet.part, minlength=len(sheet.parts))
    own = sheet.part == (max(parts, key=lambda part: counts[part]) if len(parts) else -1)
    place = sheet.onset - (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar]
    onsets = [frozenset(place[own & (sheet.bar == bar)].tolist()) for bar in range(len(sheet.bars))]
    played = [one for one in onsets if one]
    if not played:
        return dict.fromkeys(MEASURES)
    pairs = [(a, b) for a, b in pairwise(onsets) if a or b]
    return {
        "downbeat": float(np.mean([0 in one for one in played])),
        "same": float(np.mean([a == b for a, b in pairs])),
        "alike": float(np.mean([len(a & b) / len(a | b) for a, b in pairs])),
        "rhythms": len({*played}) / len(played),
        "notes": float(own.sum()) / len(played),
    }


if __name__ == "__main__":
    sys.exit(compare(__doc__, "bass", MEASURES, of_bass))
