import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenization.analysis.pedal import sustained
from tokenization.score import Notes, Pedals, Score, Track

TRACKS = (Track(), Track(), Track(is_drum=True))


def score(notes: list[tuple[int, int, int, int]], pedals: list[tuple[int, int, int]]) -> Score:
    """Notes are (onset, duration, pitch, track)."""
    columns = np.array(notes, dtype=np.int64).reshape(-1, 4).T
    onset, duration, pitch, track = columns
    return Score(
        ticks_per_beat=480,
        tracks=TRACKS,
        notes=Notes(onset, duration, pitch, np.full_like(onset, 64), track),
        pedals=Pedals(*np.array(pedals, dtype=np.int64).reshape(-1, 3).T),
    )


def lengths(notes, pedals) -> list[int]:
    return sustained(score(notes, pedals)).notes.duration_ticks.tolist()


def test_a_note_let_go_under_the_pedal_sounds_until_it_comes_up():
    assert lengths([(0, 10, 60, 0)], [(5, 95, 0)]) == [100]


def test_a_key_struck_again_ends_the_note():
    notes = [(0, 10, 60, 0), (40, 10, 60, 0), (50, 10, 61, 0)]
    assert lengths(notes, [(0, 100, 0)]) == [40, 60, 50]


def test_a_key_struck_again_before_it_is_let_go_shortens_nothing():
    assert lengths([(0, 30, 60, 0), (20, 5, 60, 0)], [(0, 100, 0)]) == [30, 80]


def test_two_notes_of_one_strike_sound_on_together():
    assert lengths([(0, 10, 60, 0), (0, 20, 60, 0)], [(0, 100, 0)]) == [100, 100]


def test_the_pedal_of_another_track_and_the_same_key_elsewhere_do_nothing():
    notes = [(0, 10, 60, 0), (20, 10, 60, 1)]
    assert lengths(notes, [(0, 100, 0)]) == [100, 10]
    assert lengths(notes, [(0, 100, 1)]) == [10, 80]


def test_drums_ring_as_they_are():
    assert lengths([(0, 10, 36, 2)], [(0, 100, 2)]) == [10]


def test_a_pedal_pressed_as_the_key_comes_up_or_lifted_before_holds_nothing():
    assert lengths([(0, 10, 60, 0)], [(10, 90, 0)]) == [10]
    assert lengths([(0, 10, 60, 0)], [(0, 10, 0)]) == [10]


def test_a_pedal_changed_on_one_tick_has_been_up():
    assert lengths([(0, 5, 60, 0)], [(0, 10, 0), (10, 90, 0)]) == [10]


def test_overlapping_spans_are_one():
    assert lengths([(0, 10, 60, 0)], [(5, 20, 0), (0, 100, 0), (90, 60, 0)]) == [150]


def test_the_pedal_is_spent():
    once = sustained(score([(0, 10, 60, 0)], [(0, 100, 0)]))
    assert not len(once.pedals)
    assert sustained(once) == once
    assert sustained(score([], [(0, 100, 0)])) == score([], [])


notes = st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(60, 62), st.integers(0, 2))
spans = st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(0, 2))


@given(st.lists(notes, min_size=1, max_size=25), st.lists(spans, max_size=8))
def test_like_a_pianist_tick_by_tick(notes, pedals):
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

    assert lengths(notes, pedals) == [length(*note) for note in notes]
