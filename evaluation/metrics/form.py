"""Measures of form: returning bars, chord changes, bass notes on the downbeat, and endings.

All measures work bar by bar, in any metre, on a score quantised to the grid of its language. A measure that a piece
lacks the notes for is None. Bars are compared by the Jaccard index of their cells, pairs of sixteenth and pitch.

    returns     fraction of bars with an index over 0.5 with some bar at least 4 bars earlier
    phrases     mean over phrases of 8 bars of the best mean index of their bars with those of 8 successive earlier bars
    repeats     fraction of bars equal to an earlier bar
    circles     length of the longest loop: a counter goes up at each bar with an index over 0.75 with one of the 4
                bars before it and down at every other bar; this is its maximum
    collapses   1 if a phrase has over twice as many notes per bar as the music before `start`, or if over half of its
                top notes repeat the previous one; else 0
    contrast    standard deviation over phrases of their register: the 80th percentile, in semitones, of the top notes
    swell       standard deviation over phrases of the logarithm of their number of notes
    notes       notes per bar
    loudness    fraction of notes with the most frequent velocity
    changes     chord changes per bar, of chords recognised from the notes
    downbeat    fraction of bars in whose first half the lowest note begins on the bar line
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evaluation.metrics.estimates import mean
from tokenization.analysis.chords import NO_CHORD, ROOTS, tonic
from tokenization.analysis.hearing import recognise
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.shares import commonest
from tokenization.score import Notes, Score

# Signs of an ending: on the tonic, fewer notes than before, longer notes.
#
# Each sign is measured in the last bar of the music, and for real pieces also in a bar in the middle as a control.

SIGNS = ("tonic", "thinner", "longer", "all")


def signs(score: Score, last: int) -> dict[str, bool] | None:
    """Return the signs of an ending in bar `last`, counted from 0; None if that bar or all earlier ones are silent.

    tonic    the root of its last chord, or else its lowest note, is the tonic of the key of the music up to it
    thinner  fewer notes begin in it than in an average earlier bar
    longer   its notes are longer on average than the earlier notes, both cut at the bar line
    """
    notes = score.pitched
    lines = bar_lines(score, last + 1)
    bar = np.searchsorted(lines, notes.onset_ticks, side="right") - 1
    now, before = notes[bar == last], notes[bar < last]
    if not len(now) or not len(before):
        return None
    played = notes[bar <= last]
    bar_ends = lines[np.minimum(bar + 1, last + 1)]
    duration = np.minimum(notes.end_ticks, bar_ends) - notes.onset_ticks
    found = {
        "tonic": _last_root(score, now, int(lines[last + 1]))
        == tonic(played.pitch, played.duration_ticks),
        "thinner": len(now) < len(before) / last,
        "longer": float(duration[bar == last].mean()) > float(duration[bar < last].mean()),
    }
    return {**found, "all": all(found.values())}


def last_bar(score: Score) -> int:
    """Return the last bar in which a note begins, counted from 0."""
    lines = bar_lines(score, bar_count(score))
    return int(np.searchsorted(lines, score.notes.onset_ticks.max(initial=0), side="right")) - 1


def _last_root(score: Score, notes: Notes, stop: int) -> int:
    """Return the root of the last recognised chord before `stop`, or else the pitch class of the lowest note."""
    chords = [m.text for m in recognise(score) if m.onset_ticks < stop and m.text != NO_CHORD]
    root = chords[-1].split("_")[0] if chords else "N"
    return ROOTS.index(root) if root in ROOTS else int(notes.pitch.min()) % 12


FAR = 4  # least distance of a return, in bars
PHRASE = 8  # bars
FEW = 8  # notes below which a phrase has no register or fullness
LOOPED = 0.75  # index above which a bar continues a loop
CELLS_A_BEAT = 4
Cells = set[tuple[int, int, bool]]  # sixteenth, pitch, is_drum


def form(score: Score, start: int, stop: int) -> dict[str, float | None]:
    """Return the measures of bars start … stop − 1; returns to bars before them count too."""
    bars = cells(score, stop)
    lines = bar_lines(score, stop)
    inside = between(score.notes, *lines[[start, stop]])
    playing = [bar for bar in range(start, stop) if bars[bar]]
    phrases = range(start, stop - PHRASE + 1, PHRASE)
    spans = [lines[[bar, bar + PHRASE]] for bar in phrases]
    return {
        "returns": mean(
            _best_overlap(bars[bar], bars[: bar - FAR + 1]) > 0.5 for bar in playing if bar >= FAR
        ),
        "phrases": mean([_phrase_overlap(bars, bar) for bar in phrases]),
        "repeats": mean([bars[bar] in bars[:bar] for bar in playing]),
        "circles": _circles(bars, start),
        "collapses": _collapses(score, [lines[[0, start]], *spans]) if start else None,
        "contrast": _deviation([_register(score, *span) for span in spans]),
        "swell": _deviation([_fullness(score, *span) for span in spans]),
        "notes": len(inside) / (stop - start),
        "loudness": commonest(inside.velocity) if len(inside) else None,
        "changes": chord_changes(score, *lines[[start, stop]]) / (stop - start),
        "downbeat": mean([_on_the_line(score, *lines[bar : bar + 2]) for bar in playing]),
    }


def between(notes: Notes, start: int, stop: int) -> Notes:
    """Return the notes with onsets in [start, stop)."""
    return notes[(notes.onset_ticks >= start) & (notes.onset_ticks < stop)]


def chord_changes(score: Score, start: int, stop: int) -> int:
    """Return the number of chord changes strictly between two times."""
    return sum(start < marker.onset_ticks < stop for marker in recognise(score))


def tops(notes: Notes) -> np.ndarray:
    """Return the highest pitch at each distinct onset."""
    times, begins = np.unique(notes.onset_ticks, return_inverse=True)
    top = np.zeros(len(times), dtype=np.int64)
    np.maximum.at(top, begins, notes.pitch)
    return top


def cells(score: Score, bars: int) -> list[Cells]:
    """Return the cells of each bar: sets of (sixteenth, pitch, is_drum)."""
    lines = bar_lines(score, bars)
    found: list[Cells] = [set() for _ in range(bars)]
    for onset, pitch, drum in zip(
        score.notes.onset_ticks.tolist(),
        score.notes.pitch.tolist(),
        score.on_drums.tolist(),
        strict=True,
    ):
        bar = int(np.searchsorted(lines, onset, side="right")) - 1
        if 0 <= bar < bars:
            sixteenth = (onset - int(lines[bar])) * CELLS_A_BEAT // score.ticks_per_beat
            found[bar].add((sixteenth, pitch, drum))
    return found


def overlap(a: Cells, b: Cells) -> float | None:
    """Return the Jaccard index of two bars; None if both are silent."""
    together = len(a | b)
    return len(a & b) / together if together else None


def _best_overlap(bar: Cells, others: list[Cells]) -> float:
    """Return the largest overlap of a bar with one of several others."""
    return max((overlap(bar, other) or 0.0 for other in others), default=0.0)


def _phrase_overlap(bars: list[Cells], start: int) -> float | None:
    """Return the largest mean overlap of a phrase with an equally long passage that ends before it."""
    found = []
    for first in range(start - PHRASE + 1):
        pairs = [overlap(bars[start + i], bars[first + i]) for i in range(PHRASE)]
        found.append(mean(pairs) or 0.0)
    playing = any(bars[start : start + PHRASE])
    return max(found) if found and playing else None


def _circles(bars: list[Cells], start: int) -> float | None:
    """Return the length of the longest loop from bar `start` on; None if these bars are silent."""
    count, highest = 0, 0
    for bar in range(start, len(bars)):
        again = _best_overlap(bars[bar], bars[max(bar - FAR, 0) : bar]) > LOOPED
        count = max(count + (1 if again else -1), 0)
        highest = max(highest, count)
    return float(highest) if any(bars[start:]) else None


def _collapses(score: Score, spans: Sequence[np.ndarray]) -> float | None:
    """Return 1 if a phrase is hammered or overcrowded, compared with the first span, else 0; None if that is silent."""
    density = [len(between(score.notes, *span)) / (span[1] - span[0]) for span in spans]
    steps = (np.diff(tops(between(score.pitched, *span))) for span in spans[1:])
    hammered = any(len(step) >= FEW and (step == 0).mean() > 0.5 for step in steps)
    return float(hammered or max(density[1:], default=0) > 2 * density[0]) if density[0] else None


def _register(score: Score, start: int, stop: int) -> float | None:
    """Return the 80th percentile of the top notes in [start, stop); None if it has fewer than FEW notes."""
    inside = between(score.pitched, start, stop)
    return float(np.percentile(tops(inside), 80)) if len(inside) >= FEW else None


def _fullness(score: Score, start: int, stop: int) -> float | None:
    """Return the logarithm of the number of notes in [start, stop); None if there are fewer than FEW."""
    count = len(between(score.notes, start, stop))
    return math.log(count) if count >= FEW else None


def _deviation(found: list[float | None]) -> float | None:
    """Return the standard deviation over phrases; None if n < 2."""
    values = [value for value in found if value is not None]
    return float(np.std(values)) if len(values) > 1 else None


def _on_the_line(score: Score, line: int, end: int) -> bool | None:
    """Return whether the lowest pitched note of a bar's first half begins on the bar line; None if there is none."""
    notes = score.pitched
    half = (notes.onset_ticks >= line) & (2 * (notes.onset_ticks - line) < end - line)
    notes = notes[half]
    if not len(notes):
        return None
    lowest = notes.onset_ticks[notes.pitch == notes.pitch.min()].min()
    return bool(CELLS_A_BEAT * (lowest - line) < score.ticks_per_beat)
