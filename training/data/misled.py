"""Parts written to others whose own earlier bars stand at wrong pitches: what a model meets that draws them itself.

Beside its own true bars a part can nearly be copied: a model learns that, and little of the chords that it is told.
Once it draws, a wrong bar is copied as well, and stays under all chords as a pedal. So in some examples each bar of the
written pitched parts is, by chance, moved by some semitones; its notes are seen and not learned (training/loss.py).
Then what was written tells figure and rhythm, and the chords alone tell the pitch. It is a cheap form of learning from
one's own mistakes (Ross et al. 2011, arXiv:1011.0686).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tokenization.groove.tokens import BAR_TICKS, DRUMS, NOTE_ON, PITCHES, TRACKS
from tokenization.groove_2 import layouts
from tokenization.groove_2.spelling import bars_of
from tokenization.groove_2.tokens import BAR, GIVEN, WRITE
from tokenization.score import Notes
from training.loss import only_shown

MOST = 6  # semitones


def misled_accompaniment(
    notes: Notes, given: Collection[int], random: np.random.Generator
) -> np.ndarray:
    """Return a piece laid out to have parts written to given ones, about half of whose bars are moved: (T,) int64.

    All are as they were where no pitched part is given, which would tell what is right.
    """
    if not np.isin(notes.track, [t for t in given if t != DRUMS]).any():
        return layouts.accompaniment(notes, given)
    shift = random.choice(np.delete(np.arange(-MOST, MOST + 1), MOST), size=bars_of(notes))
    shift[random.random(len(shift)) < 0.5] = 0
    written = ~np.isin(notes.track, [*given, DRUMS])
    moved = np.where(written, shift[notes.onset_ticks // BAR_TICKS], 0)
    wrong = notes.replace(pitch=notes.pitch + moved)
    # What leaves the range, or would sound on a key that sounds already, stays as it is, with the whole bar.
    at_fault = (wrong.pitch < 0) | (wrong.pitch >= PITCHES) | _on_a_key_that_sounds(wrong)
    shift[np.unique(notes.onset_ticks[at_fault] // BAR_TICKS)] = 0
    moved = np.where(written, shift[notes.onset_ticks // BAR_TICKS], 0)
    wrong = notes.replace(pitch=notes.pitch + moved)
    if _on_a_key_that_sounds(wrong).any():
        return layouts.accompaniment(notes, given)
    ids = layouts.accompaniment(wrong.sorted(), given)
    return np.where(_written_notes(ids) & (shift[_bar(ids)] != 0), only_shown(ids), ids)


def _on_a_key_that_sounds(notes: Notes) -> np.ndarray:
    """Return which notes begin before another one of the same key, that began earlier, has ended: (N,) bool."""
    key = notes.track * PITCHES + notes.pitch
    order = np.lexsort((notes.onset_ticks, key))
    same = np.append(False, np.diff(key[order]) == 0)
    begins_in = notes.onset_ticks[order] < np.append(0, notes.end_ticks[order][:-1])
    found = np.zeros(len(notes), dtype=bool)
    found[order] = same & begins_in
    return found


def _bar(ids: np.ndarray) -> np.ndarray:
    """Return the bar of the piece that each token of an accompaniment's layout is in: two bar tokens make one."""
    return np.maximum(np.cumsum(ids == BAR) - 1, 0) // 2


def _written_notes(ids: np.ndarray) -> np.ndarray:
    """Return which tokens begin a note of a pitched part that is written: (T,) bool."""
    marks = np.where(ids == WRITE, 1, np.where(GIVEN.holds(ids), -1, 0))
    last = np.maximum.accumulate(np.arange(len(ids)) * (marks != 0))
    pitched = np.isin(
        (ids - NOTE_ON.start) // PITCHES, [t for t in range(len(TRACKS)) if t != DRUMS]
    )
    return (marks[last] > 0) & NOTE_ON.holds(ids) & pitched
