"""Bars of every metre and their beats; what the pedal holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenization.remi.cases import score_of
from tokenization.analysis.metres import (
    LENGTHS,
    METRES,
    NAMES,
    bar_count,
    bar_lines,
    bars_of,
    made_of,
    pulse_of,
    uniform,
)
from tokenization.score import Meters, Notes, Pedals, Score, Track, sustained

SIGNATURE = st.tuples(st.integers(1, 20), st.sampled_from([1, 2, 4, 8, 16, 32]))


def meters(*rows) -> Meters:
    return Meters(*zip(*rows, strict=True)) if rows else Meters.empty()


def laid(*rows, until: int = 40) -> str:
    """Return the names of the bars; a tick is a sub-beat."""
    return " ".join(NAMES[index] for index in bars_of(meters(*rows), 4, until).metre)


def test_a_metre_of_the_language_is_itself():
    for numerator, denominator in METRES:
        assert made_of(numerator, denominator) == (f"{numerator}/{denominator}",)
        bars = bars_of(meters((0, numerator, denominator)), 4, 100)
        assert bars.start.tolist() == list(range(0, 101, 16 * numerator // denominator))
        assert bars.meters(2) == meters((0, numerator, denominator))


def test_another_bar_is_made_of_these():
    made = {
        (5, 8): "3/8 1/4",
        (7, 4): "4/4 3/4",
        (4, 2): "4/4 4/4",
        (1, 8): "1/4",  # two bars
        (5, 16): "3/8 1/4",  # two bars
        (3, 7): "3/8",  # 6.9 sub-beats: the nearest
    }
    assert {metre: " ".join(made_of(*metre)) for metre in made} == made


@pytest.mark.parametrize(
    ("rows", "until", "bars"),
    [
        # A change within a bar cuts it short; an eighth alone can be no bar and joins the one before.
        ([(0, 4, 4), (28, 3, 4)], 50, "4/4 3/4 3/4 3/4"),
        ([(0, 2, 4), (8, 4, 4)], 40, "2/4 4/4 4/4 4/4"),
        ([(0, 4, 4), (34, 4, 4)], 36, "4/4 3/4 3/8 4/4"),
        # Without signatures, or with impossible ones, bars are in 4/4.
        ([], 40, "4/4 4/4 4/4"),
        ([(0, 0, 4), (3, 4, 0)], 40, "4/4 4/4 4/4"),
        ([(4, 3, 4)], 20, "1/4 3/4 3/4"),
        # Of two at one time the later one holds.
        ([(0, 4, 4), (32, 5, 8), (32, 3, 4)], 32, "4/4 4/4 3/4"),
    ],
)
def test_bars_are_laid(rows, until, bars):
    assert laid(*rows, until=until) == bars


@given(st.lists(st.tuples(st.integers(0, 300), SIGNATURE), max_size=8), st.integers(0, 400))
def test_bars_reach_as_far_as_asked_and_do_not_depend_on_it(changes, until):
    rows = [(at, *metre) for at, metre in changes]
    bars = bars_of(meters(*rows), 4, until)
    assert bars.start[-1] <= until < bars.start[-1] + bars.length[-1]
    longer = bars_of(meters(*rows), 4, until + 500)
    assert longer.metre[: len(bars) - 1].tolist() == bars.metre[:-1].tolist()
    again = bars_of(longer.meters(1), 4, int(longer.start[-1]))
    assert again.metre.tolist() == longer.metre.tolist()


def test_bar_lines_of_a_score():
    score = score_of([(20, 8, 60, 64)], 8, meters=[(0, 3, 4), (24, 2, 4)])
    assert bar_lines(score, 4).tolist() == [0, 24, 40, 56, 72]
    assert (bar_count(score), bar_count(score_of([]))) == (2, 1)
    assert uniform(3).start.tolist() == [0, 16, 32]
    assert sorted(set(LENGTHS.tolist())) == [4, 6, 8, 12, 16, 18, 20, 24]


def test_beats_follow_the_bars_of_other_metres():
    plain = pulse_of(score_of([(0, 4, 60, 64)], 8))
    assert plain.to_ticks(np.array([0, 1, 5])).tolist() == [0, 8, 40]
    assert plain.place(np.array([0, 1, 2, 3, 4])).tolist() == [0, 1, 2, 3, 0]
    metres = [(0, 3, 4), (12, 6, 8), (36, 9, 8), (54, 2, 4)]
    pulse = pulse_of(score_of([(0, 100, 60, 64)], 4, meters=metres))
    assert pulse.ticks[:11].tolist() == [0, 4, 8, 12, 18, 24, 30, 36, 42, 48, 54]
    assert pulse.places[:11].tolist() == [0, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0]
    onset, length = pulse.spans(score_of([(15, 6, 60, 64)]).notes)
    assert (onset.tolist(), length.tolist()) == ([3.5], [1.0])


TRACKS = (Track(), Track(), Track(is_drum=True))
NOTE = st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(60, 62), st.integers(0, 2))
SPAN = st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(0, 2))


@given(st.lists(NOTE, min_size=1, max_size=25), st.lists(SPAN, max_size=8))
def test_a_pedal_holds_notes_as_a_pianist_would_tick_by_tick(notes, pedals):
    def length(onset: int, duration: int, pitch: int, track: int) -> int:
        end = onset + duration
        strikes = {o for o, _, p, t in notes if (p, t) == (pitch, track) and o > onset}
        spans = [(at, at + long) for at, long, t in pedals if t == track]
        while (
            not TRACKS[track].is_drum
            and any(down < end < up for down, up in spans)
            and not any(strike <= end for strike in strikes)
        ):
            end += 1
        return end - onset

    onset, duration, pitch, track = np.array(notes).T
    score = Score(
        ticks_per_beat=480,
        tracks=TRACKS,
        notes=Notes(onset, duration, pitch, 0 * pitch + 64, track),
        pedals=Pedals(*np.array(pedals, dtype=np.int64).reshape(-1, 3).T),
    )
    once = sustained(score)
    assert once.notes.duration_ticks.tolist() == [length(*note) for note in notes]
    assert not len(once.pedals)
    assert sustained(once) == once
