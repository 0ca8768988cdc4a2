"""Whether a piece sounds ended: on the tonic, thinner than before, with notes that last.

Each sign is measured in the last bar of some music; of real pieces in the true last bar and, as a control, in
bars in the middle of them, where nothing ends.
"""

from __future__ import annotations

import numpy as np

from tokenization.analysis.chord_names import NO_CHORD, ROOTS
from tokenization.analysis.chords import recognise
from tokenization.analysis.keys import tonic
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.score import Notes, Score

SIGNS = ("tonic", "thinner", "longer", "all")


def signs(score: Score, last: int) -> dict[str, bool] | None:
    """Return the signs of an end that bar number `last`, from 0, of a score shows; None where it is silent.

    tonic    its last chord, or without one its lowest note, is on the tonic of the key of all up to it
    thinner  fewer notes begin in it than on average in the bars before
    longer   its notes last longer on average, to the bar's end at most, than those before to the end of theirs
    """
    notes = score.pitched
    lines = bar_lines(score, last + 1)
    bar = np.searchsorted(lines, notes.onset_ticks, side="right") - 1
    now, before = notes[bar == last], notes[bar < last]
    if not len(now) or not len(before):
        return None
    played = notes[bar <= last]
    lasts = np.minimum(notes.end_ticks, lines[np.minimum(bar + 1, last + 1)]) - notes.onset_ticks
    found = {
        "tonic": _last_root(score, now, int(lines[last + 1]))
        == tonic(played.pitch, played.duration_ticks),
        "thinner": len(now) < len(before) / last,
        "longer": float(lasts[bar == last].mean()) > float(lasts[bar < last].mean()),
    }
    return {**found, "all": all(found.values())}


def last_bar(score: Score) -> int:
    """Return the number of the last bar in which a note begins, from 0: a last note that rings on makes none."""
    lines = bar_lines(score, bar_count(score))
    return int(np.searchsorted(lines, score.notes.onset_ticks.max(initial=0), side="right")) - 1


def _last_root(score: Score, notes: Notes, stop: int) -> int:
    """Return the root of the last chord before a time, as recognised; else that of the bar's lowest note."""
    named = [m.text for m in recognise(score) if m.onset_ticks < stop and m.text != NO_CHORD]
    root = named[-1].split("_")[0] if named else "N"
    return ROOTS.index(root) if root in ROOTS else int(notes.pitch.min()) % 12
