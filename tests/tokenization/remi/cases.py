"""Makers for the tests of REMI: scores, valid sequences, and a simple reference for notes on the grid."""

from fractions import Fraction
from math import floor

import numpy as np
from hypothesis import strategies as st

from tests.tokenization import grammar_cases
from tokenization.analysis.chords import CHORDS
from tokenization.analysis.metres import METRES
from tokenization.remi.language import Remi
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

REMI = Remi()


def score_of(notes, ticks_per_beat=4, tempos=(), markers=(), meters=()) -> Score:
    """Return a one-track score of (onset, duration, pitch, velocity) rows."""
    columns = zip(*notes, strict=True) if notes else [[]] * 4
    return Score(
        ticks_per_beat=ticks_per_beat,
        notes=Notes(*columns, np.zeros(len(notes))),
        tracks=(Track(),),
        tempos=Tempos(*zip(*tempos, strict=True)) if tempos else Tempos.empty(),
        meters=Meters(*zip(*meters, strict=True)) if meters else Meters.empty(),
        markers=tuple(Marker(onset, text) for onset, text in markers),
    )


@st.composite
def scores(draw) -> Score:
    """Draw irregular scores with at least one note in the range of a piano."""
    ticks_per_beat = draw(st.sampled_from([1, 3, 8, 12, 96, 480]))
    onset = st.integers(0, draw(st.sampled_from([4, 40, 200])) * ticks_per_beat)
    low, high = draw(st.sampled_from([(0, 127), (58, 64)]))
    note = st.tuples(
        onset,
        st.one_of(st.integers(0, ticks_per_beat), st.integers(0, 40 * ticks_per_beat)),
        st.integers(low, high),
        st.integers(0, 127),
    )
    sure = draw(st.tuples(onset, st.just(1), st.integers(21, 108), st.just(64)))
    tempo = st.tuples(onset, st.floats(1, 1000))
    marker = st.tuples(onset, st.sampled_from(["Verse", "C_M", *CHORDS[:3], CHORDS[-1]]))
    numbers = st.tuples(st.integers(0, 13), st.sampled_from([1, 2, 4, 8, 16, 0, 7]))
    metre = st.one_of(st.sampled_from(METRES), numbers)
    meter = st.tuples(onset, metre).map(lambda pair: (pair[0], *pair[1]))
    notes, tempos = [*draw(st.lists(note, max_size=60)), sure], draw(st.lists(tempo, max_size=6))
    markers, meters = draw(st.lists(marker, max_size=12)), draw(st.lists(meter, max_size=6))
    return score_of(notes, ticks_per_beat, tempos, markers, meters)


def walk(seed: int, length: int) -> np.ndarray:
    """Return a valid sequence: a random walk through the grammar, then the shortest way to the end."""
    ways_out = ("duration", "volume", "pitch", "subbeat", "chord", "bar")
    return grammar_cases.walk(REMI.grammar(), REMI.vocabulary, seed, length, ways_out)


def slow_notes(score: Score) -> list[tuple[int, int, int, int]]:
    """Return the notes on the grid as (onset, track, pitch, duration) in eighths of a beat."""
    longest: dict[tuple[int, int], int] = {}
    for onset, duration, pitch in zip(*(c.tolist() for c in score.notes.columns[:3]), strict=True):
        if 21 <= pitch <= 108:
            subbeat = floor(Fraction(onset * 4, score.ticks_per_beat) + Fraction(1, 2))
            ticks = floor(Fraction(duration * 8, score.ticks_per_beat) + Fraction(1, 2))
            place = (2 * subbeat, pitch)
            longest[place] = max(longest.get(place, 1), min(ticks, 32))
    found = []
    for (onset, pitch), duration in sorted(longest.items()):
        later = [other for other, same in longest if same == pitch and other > onset]
        found.append((onset, 0, pitch, min([duration, *(other - onset for other in later)])))
    return found
