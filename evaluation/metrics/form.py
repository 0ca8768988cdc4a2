"""Measures of form: bars that return, chords that change, bass on the bar line, an ending.

Everything is counted bar by bar, in any metre, of a score on the grid of its language. What a piece does not have is
None. What a model writes is compared with the same bars of real pieces.

    returns     share of bars of which some bar at least 4 before has over half of the cells (Jaccard index of the
                sets of sixteenth and pitch)
    phrases     mean over phrases of 8 bars of the best mean index of their bars with 8 successive earlier ones
    repeats     share of bars that are, cell for cell, a bar before
    circles     bars that go round in circles: the highest count of bars of which one of the 4 before has over three
                quarters of the cells, one up for each of them and one down for every other
    contrast    how differently high the phrases lie, of 8 bars each: the deviation, in semitones, of the pitch that
                four in five of the highest notes at their time do not go above
    swell       how differently full they are: the deviation of the logarithm of their notes
    notes       notes a bar
    changes     chord changes a bar, of chords recognised from the notes
    downbeat    share of bars with a bass note on their line: the lowest note of the bar's first half begins there
    loudness    share of notes of the commonest velocity
    collapses   1 where some phrase has over twice the notes a bar of all before the first, or where the highest note
                is the one before again at over half of its times, else 0
"""

from __future__ import annotations

import math

import numpy as np

from evaluation.metrics.estimates import mean
from evaluation.metrics.window import chord_changes, commonest, tops
from tokenization.analysis.chords import NO_CHORD, ROOTS, recognise, tonic
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.score import Notes, Score

# Whether a piece sounds ended: on the tonic, thinner than before, with notes that last.
#
# Each sign is measured in the last bar of some music; of real pieces in the true last bar and, as a control, in bars
# in the middle of them, where nothing ends.

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


COLLAPSES = "collapses"
FAR = 4  # bars back from which a bar is a return
PHRASE = 8
FEW = 8  # notes of a phrase, below which it is a rest
CIRCLING = 0.75  # index over which a bar says again what one of the FAR before said
CELLS_A_BEAT = 4
Cells = set[tuple[int, int, bool]]


def form(score: Score, start: int, stop: int) -> dict[str, float | None]:
    """Return the measures of the bars start … stop − 1 of a score, which may return to bars before them."""
    bars = cells(score, stop)
    lines = bar_lines(score, stop)
    inside = between(score.notes, *lines[[start, stop]])
    playing = [bar for bar in range(start, stop) if bars[bar]]
    phrases = range(start, stop - PHRASE + 1, PHRASE)
    spans = [lines[[bar, bar + PHRASE]] for bar in phrases]
    return {
        "returns": mean(
            _likest(bars[bar], bars[: bar - FAR + 1]) > 0.5 for bar in playing if bar >= FAR
        ),
        "phrases": mean([_phrase(bars, bar) for bar in phrases]),
        "repeats": mean([bars[bar] in bars[:bar] for bar in playing]),
        "circles": _circles(bars, start),
        "contrast": _deviation([_height(score, *span) for span in spans]),
        "swell": _deviation([_fullness(score, *span) for span in spans]),
        "notes": len(inside) / (stop - start),
        "changes": chord_changes(score, *lines[[start, stop]]) / (stop - start),
        "downbeat": mean([_on_the_line(score, *lines[bar : bar + 2]) for bar in playing]),
        "loudness": commonest(inside.velocity),
        COLLAPSES: _collapses(score, lines, start, spans),
    }


def _collapses(
    score: Score, lines: np.ndarray, start: int, spans: list[np.ndarray]
) -> float | None:
    """Say whether music becomes more than twice as dense as before, or repeats its highest note mostly."""
    before = len(between(score.notes, 0, lines[start])) / max(start, 1)
    if not before or not spans:
        return None
    fullest = max(len(between(score.notes, *span)) / PHRASE for span in spans)
    highest = tops(between(score.pitched, lines[start], lines[-1]))
    again = (np.diff(highest) == 0).mean() if len(highest) > 1 else 0.0
    return float(fullest > 2 * before or again > 0.5)


def between(notes: Notes, start: int, stop: int) -> Notes:
    """Return the notes that begin between two times."""
    return notes[(notes.onset_ticks >= start) & (notes.onset_ticks < stop)]


def cells(score: Score, bars: int) -> list[Cells]:
    """Return what begins in each bar: sets of (sixteenth, pitch, drum or not)."""
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
            place = (onset - int(lines[bar])) * CELLS_A_BEAT // score.ticks_per_beat
            found[bar].add((place, pitch, drum))
    return found


def overlap(a: Cells, b: Cells) -> float | None:
    """Return the Jaccard index of two bars; None where both are silent."""
    together = len(a | b)
    return len(a & b) / together if together else None


def _likest(bar: Cells, others: list[Cells]) -> float:
    """Return a bar's best overlap with one of some others."""
    return max((overlap(bar, other) or 0.0 for other in others), default=0.0)


def _phrase(bars: list[Cells], start: int) -> float | None:
    """Return the best mean overlap of a phrase with as many successive bars that end before it begins."""
    found = []
    for first in range(start - PHRASE + 1):
        pairs = [overlap(bars[start + i], bars[first + i]) for i in range(PHRASE)]
        found.append(mean(pairs) or 0.0)
    playing = any(bars[start : start + PHRASE])
    return max(found) if found and playing else None


def _circles(bars: list[Cells], start: int) -> float | None:
    """Return how far bars go round in circles at most, from one on; None where nothing plays."""
    count, highest = 0, 0
    for bar in range(start, len(bars)):
        again = _likest(bars[bar], bars[max(bar - FAR, 0) : bar]) > CIRCLING
        count = max(count + (1 if again else -1), 0)
        highest = max(highest, count)
    return float(highest) if any(bars[start:]) else None


def _height(score: Score, start: int, stop: int) -> float | None:
    """Return how high the top of pitched music lies between two times; None of a few notes."""
    inside = between(score.pitched, start, stop)
    return float(np.percentile(tops(inside), 80)) if len(inside) >= FEW else None


def _fullness(score: Score, start: int, stop: int) -> float | None:
    """Return the logarithm of how many notes begin between two times; None of a few."""
    count = len(between(score.notes, start, stop))
    return math.log(count) if count >= FEW else None


def _deviation(found: list[float | None]) -> float | None:
    """Return how much phrases differ; None of a single one."""
    values = [value for value in found if value is not None]
    return float(np.std(values)) if len(values) > 1 else None


def _on_the_line(score: Score, line: int, end: int) -> bool | None:
    """Say whether the lowest pitched note of a bar's first half begins on its line; None where there is none."""
    notes = score.pitched
    half = (notes.onset_ticks >= line) & (2 * (notes.onset_ticks - line) < end - line)
    notes = notes[half]
    if not len(notes):
        return None
    lowest = notes.onset_ticks[notes.pitch == notes.pitch.min()].min()
    return bool(CELLS_A_BEAT * (lowest - line) < score.ticks_per_beat)
