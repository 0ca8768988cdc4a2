"""The sustain pedal of a continuation, which goes on as in the bars before it.

Each new bar has the presses of the given bar at its place in a phrase, counted back from the seam. If the given pedal
is released where chords change, so is the new one. Keys are released as early as those of given notes that sound as
long, where the pedal holds the note.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenization.score import merged_spans

PHRASE = 4  # bars
ACROSS = 0.25  # of the given chord changes under a held pedal, from which it does not follow chords
LIFTED = 8  # part of a beat for which the pedal is up where a chord changes

Spans = tuple[np.ndarray, np.ndarray]
"""The ticks at which a pedal is pressed and released: (N,) each."""


def continued(given: Spans, lines: np.ndarray, bars: int, changes: np.ndarray, beat: int) -> Spans:
    """Return the spans of the new bars, from the given ones and the bar lines of both, in ticks.

    `bars` are given; `changes` are the ticks of all chord changes, `beat` those of a beat.
    """
    down, up = merged_spans(*given)
    period = min(PHRASE, bars)
    if not 0 < bars < len(lines):
        return down[:0], up[:0]
    pressed, released = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for bar in range(bars, len(lines) - 1):
        source = bars - period + (bar - bars) % period
        own = (down >= lines[source]) & (down < lines[source + 1])
        pressed.append(down[own] + lines[bar] - lines[source])
        released.append(up[own] + lines[bar] - lines[source])
    new = merged_spans(np.concatenate(pressed), np.minimum(np.concatenate(released), lines[-1]))
    if not follows((down, up), changes[changes < lines[bars]], beat):
        return new
    return split(new, changes[changes >= lines[bars]], beat)


def follows(spans: Spans, changes: np.ndarray, beat: int) -> bool:
    """Return whether a pedal is released where chords change while it is in use."""
    inside = _held(spans, changes, beat)
    near = np.abs(changes[:, None] - spans[0]).min(1, initial=beat) < beat
    return bool(inside.sum() <= ACROSS * max((inside | near).sum(), 1))


def split(spans: Spans, changes: np.ndarray, beat: int) -> Spans:
    """Release the pedal for a moment at each change within a span."""
    at = changes[_held(spans, changes, beat)]
    down, up = np.append(spans[0], at + beat // LIFTED), np.append(spans[1], at)
    return np.sort(down), np.sort(up)


def _held(spans: Spans, ticks: np.ndarray, beat: int) -> np.ndarray:
    """Return whether the pedal is down around each tick."""
    down, up = spans
    margin = beat // LIFTED
    before = (down[:, None] <= ticks - margin) & (up[:, None] > ticks + margin)
    return np.asarray(before.any(0), bool)


def released(
    onset: np.ndarray, end: np.ndarray, spans: Spans, given: Sequence[np.ndarray]
) -> np.ndarray:
    """Return when the keys of new notes are released, (N,).

    `given` are the durations of given notes as their keys were held, and as they sounded. A key is released early only
    if the pedal holds the note for three quarters of its duration.
    """
    held, sounded = given
    down, up = spans
    if not len(held) or not len(down):
        return end
    order = np.argsort(sounded, kind="stable")
    nearest = np.searchsorted(sounded[order], end - onset).clip(max=len(order) - 1)
    early = onset + np.minimum(held[order][nearest], end - onset)
    span = np.searchsorted(down, early, side="right") - 1
    is_held = (span >= 0) & (up[span] > early) & (4 * (up[span] - onset) >= 3 * (end - onset))
    return np.where(is_held, early, end)
