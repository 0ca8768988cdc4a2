"""Scores on the grid of bars and beats, with their own beats and metres or with estimated beats."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenization.remi.cases import score_of
from tokenization.analysis.beats import (
    FEWEST_ONSETS,
    FOUR_FOUR,
    BeatMap,
    estimated,
    first_seconds,
    has_beats,
    on_four_four,
    on_own_bars,
    remap,
    tempo_map,
    without_rest_in_front,
)
from tokenization.analysis.metres import NAMES, bar_count, bar_lines, bars_of, made_of, pulse_of
from tokenization.score import Marker, Meters, Notes, Pedals, Score, Tempos, Track, sustained


def meters(text: str, ticks_per_beat: int = 1) -> Meters:
    """Return the time signatures of a text with the beat at which each starts: `0:3/4 6.5:2/4`."""
    fields = (re.split("[:/]", each) for each in text.split())
    rows = [(float(at) * ticks_per_beat, int(top), int(low)) for at, top, low in fields]
    return Meters(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


def score(onset_beats, metres: str = "", lengths=1.0, pitches=60, **parts) -> Score:
    """Return a score with notes at the given beats, of 480 ticks; without a tempo, a second has two beats."""
    onset = np.rint(np.array(onset_beats, dtype=float) * 480).astype(np.int64)
    duration, pitch = np.rint(480 * lengths + 0.0 * onset).astype(np.int64), pitches + 0 * onset
    notes = Notes(onset, duration, pitch, 0 * onset + 64, 0 * onset).sorted()
    given = {"tracks": (Track(),), "meters": meters(metres, 480), **parts}
    return Score(ticks_per_beat=480, notes=notes, **given)


def onsets(score: Score) -> list[float]:
    return (score.notes.onset_ticks / 480).tolist()


increasing = st.lists(st.floats(0.05, 3), min_size=2, max_size=20).map(np.cumsum)


@given(increasing, increasing, st.lists(st.floats(-50, 100), max_size=20))
def test_to_seconds_is_the_inverse_of_to_beats(seconds, beats, times):
    size = min(len(seconds), len(beats))
    beat_map = BeatMap(seconds[:size], beats[:size])
    positions = beat_map.to_beats(np.array(times))
    np.testing.assert_allclose(beat_map.to_seconds(positions), times, atol=1e-6)
    assert (np.diff(beat_map.to_beats(np.sort(times))) >= 0).all()
    np.testing.assert_allclose(beat_map.to_beats(seconds[:size]), beats[:size], atol=1e-9)


def test_a_beat_map_is_shifted_by_whole_bars():
    beat_map = BeatMap(np.array([5.0, 5.5, 6.0, 6.5]), np.array([3, 4, 5, 6]))
    moved = beat_map.from_bar_of(1.0)  # 8 beats before the first annotated one, beat 3
    np.testing.assert_allclose(moved.to_beats(np.array([1.0, 5.0, 5.5])), [3, 11, 12])
    early = beat_map.from_bar_of(5.49)  # just before a bar line belongs to the next bar
    np.testing.assert_allclose(early.to_beats(np.array([5.5])), 0, atol=1e-9)


def test_remapping_keeps_times_in_seconds():
    original = score(
        [0.1, 1.1, 2.6],
        "0:3/4",
        lengths=np.array([1, 0.01, 0]),
        tempos=Tempos([0, 480], [60.0, 120.0]),
        pedals=Pedals([48], [480], [0]),
        markers=(Marker(528, "C:maj"),),
    )
    assert first_seconds(original) == pytest.approx(0.1)
    beats = BeatMap(np.array([0.1, 0.6, 1.3]), np.array([0, 1, 2]))
    moved = remap(original, beats, 480)
    before = tempo_map(original).to_seconds(original.notes.onset_ticks / 480)
    after = beats.to_seconds(moved.notes.onset_ticks / 480)
    np.testing.assert_allclose(after, before, atol=0.7 / 480)
    assert moved.markers == (Marker(int(moved.notes.onset_ticks[1]), "C:maj"),)
    assert moved.pedals.onset_ticks[0] == moved.notes.onset_ticks[0]
    assert moved.pedals.duration_ticks[0] == moved.notes.duration_ticks[0]
    assert moved.notes.duration_ticks[2] == 0
    assert not len(moved.meters)
    assert moved.tempos.onset_ticks.tolist() == [0, 480]
    np.testing.assert_allclose(moved.tempos.beats_per_minute, [120, 60 / 0.7])
    assert (remap(original, beats, 1).notes.duration_ticks >= [1, 1, 0]).all()
    upbeat = remap(original, BeatMap(np.array([2.0, 2.5]), np.array([0, 1])), 12)
    assert upbeat.notes.onset_ticks.min() >= 0  # notes before the first beat are not lost


@pytest.mark.parametrize(
    ("beats", "metres", "found", "remark"),
    [
        ([0, 1, 5], "0:1/4 1:4/4", [3, 4, 8], "pickup, preceded by 3 beats of rest"),
        ([0, 1, 5, 9], "1:4/4", [3, 4, 8, 12], "pickup"),
        (
            [0, 1, 2, 6, 10],
            "0:2/4 2:4/4",
            [2, 3, 4, 8, 12],
            "pickup, preceded by 2 beats",
        ),
        ([0, 4, 8, 12, 14], "0:4/4 12:2/4 14:4/4", [0, 4, 8, 12, 14], "Bars of 2/4 are written in"),
        ([0, 3.5, 4.5, 7.5], "0:7/8 3.5:4/4", [0.5, 4, 5, 8], "pickup"),
        # The last of several on a tick counts, and invalid ones are ignored.
        ([0, 1], "0:3/4 0:4/4 0:0/4 0:5/0", [0, 1], "^$"),
        ([0, 1.5, 9], "0:2/2", [0, 1.5, 9], "^$"),  # also has four beats
        ([0, 2.5, 9], "0:7/8 7:3/4", [0, 2.5, 9], "Bars of 7/8 and 3/4 are written in 4/4"),
    ],
)
def test_other_metres_are_written_in_four_four(beats, metres, found, remark):
    result = on_four_four(score(beats, metres))
    assert onsets(result) == found
    assert result.meters == FOUR_FOUR
    assert re.search(remark, " ".join(result.remarks))


ALTERNATING = "0:3/4 3:4/4 7:3/4 10:4/4"


@pytest.mark.parametrize(
    ("beats", "metres", "found", "kept", "remark"),
    [
        ([0, 1, 9], "0:3/4 9:2/4", [0, 1, 9], "0:3/4 9:2/4", "^$"),
        ([0, 1, 5], "0:1/4 1:3/4 4:6/8", [2, 3, 7], "0:3/4 6:6/8", "preceded by 2 beats of rest"),
        # Metres that alternate bar by bar have no pickup.
        ([0, 3, 7, 10], ALTERNATING, [0, 3, 7, 10], ALTERNATING, "^$"),
        # A pickup is recognised even if its metre returns later.
        ([0, 1, 5], "0:1/4 1:4/4 9:1/4", [3, 4, 8], "0:4/4 12:1/4", "preceded by 3 beats of rest"),
        ([0, 4, 9], "0:4/4 4:5/8 9:4/4", [0, 4, 9], None, "Bars of 5/8 .* as bars of 3/8 and 1/4"),
    ],
)
def test_a_score_keeps_its_own_metres(beats, metres, found, kept, remark):
    moved = on_own_bars(score(beats, metres))
    assert onsets(moved) == found
    assert re.search(remark, " ".join(moved.remarks))
    assert kept is None or moved.meters == meters(kept, 480)


def test_empty_bars_at_the_start_are_removed():
    trimmed = without_rest_in_front(score([9, 10], markers=(Marker(0, "N"),)))
    assert (onsets(trimmed), trimmed.markers) == ([1, 2], (Marker(0, "N"),))
    assert trimmed.remarks == ("2 bars of rest are left out at the start.",)
    assert onsets(without_rest_in_front(score([3.9]))) == [0]
    waltz = without_rest_in_front(score([10, 13], "0:3/4 6:2/4 12:3/4"))
    assert (onsets(waltz), waltz.meters) == ([0, 3], meters("0:2/4 2:3/4", 480))
    assert waltz.remarks == ("4 bars of rest are left out at the start.",)


# A bar of accompaniment as (beat, length, pitch): bass on beats one and three, chords on the eighths.
PATTERN = [(0, 2, 36), (2, 1, 43), *((eighth / 2, 0.5, 64) for eighth in range(1, 8))]
STEADY = 0.3 + 0.683 * np.arange(80)


def recording(beat_seconds: np.ndarray, spread_seconds: float = 0.01) -> Score:
    """Return the pattern, played by hand, with beats at the given times."""
    bars = range(len(beat_seconds) // 4)
    rows = np.array([(4 * bar + at, long, pitch) for bar in bars for at, long, pitch in PATTERN])
    seconds = np.interp(rows[:, 0], np.arange(len(beat_seconds)), beat_seconds)
    seconds += np.random.default_rng(0).normal(0, spread_seconds, len(seconds))
    pitches = rows[:, 2].astype(np.int64)
    return score(2 * np.maximum(seconds, 0), lengths=0.8 * rows[:, 1], pitches=pitches)


@pytest.mark.parametrize("tempo", [66, 92, 108])
def test_beats_and_bars_of_a_steady_recording_are_found(tempo):
    beats = 1.3 + 60 / tempo * np.arange(80)
    beat_map = estimated(recording(beats))
    np.testing.assert_allclose(np.median(beat_map.beats_per_minute), tempo, rtol=0.02)
    found = beat_map.to_beats(beats[8:72])
    np.testing.assert_allclose(found - np.rint(found), 0, atol=0.06)
    np.testing.assert_array_equal(np.rint(found[::4]) % 4, 0)


def test_beats_follow_a_drifting_tempo():
    beats = 0.5 + np.cumsum(np.linspace(0.75, 0.6, 100))
    found = estimated(recording(beats)).to_beats(beats[8:90])
    np.testing.assert_allclose(np.diff(found), 1, atol=0.15)


PLAYED = recording(STEADY)


@pytest.mark.parametrize(
    ("score", "known"),
    [
        (PLAYED, False),
        (recording(0.5 * np.arange(80), 0.015), True),
        # Triplets and other exact divisions of a beat.
        (score(np.arange(60) / 3), True),
        (score(np.arange(60) * 5 / 16), True),
        (score(np.arange(60) * 0.3137), False),
        # A score with few or sparse notes is trusted.
        (score(np.random.default_rng(0).uniform(0, 40, FEWEST_ONSETS - 1)), True),
        (Score(ticks_per_beat=480), True),
        (
            PLAYED.replace(notes=PLAYED.notes.replace(onset_ticks=10 * PLAYED.notes.onset_ticks)),
            True,
        ),
    ],
)
def test_whether_notes_follow_the_beats_of_a_score(score: Score, known: bool):
    assert has_beats(score) == known


def test_beats_of_a_written_score_are_not_estimated():
    """Even with quintuplets and septuplets."""
    fives = np.sort(np.concatenate([np.arange(40) / 5, np.arange(56) / 7 + 8]))
    written = score(fives, "0:3/4", beats_known=True)
    assert on_own_bars(written.replace(beats_known=False)).remarks
    assert on_four_four(written).notes == written.notes
    own = on_own_bars(written)
    assert (own.notes, own.meters, own.remarks) == (written.notes, written.meters, ())


SIGNATURE = st.tuples(st.integers(1, 20), st.sampled_from([1, 2, 4, 8, 16, 32]))


def test_unsupported_bars_are_split():
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
    ("metres", "until", "bars"),
    [
        # A change within a bar cuts it short. An eighth is too short for a bar and extends the previous one.
        ("0:4/4 7:3/4", 50, "4/4 3/4 3/4 3/4"),
        ("0:2/4 2:4/4", 40, "2/4 4/4 4/4 4/4"),
        ("0:4/4 8.5:4/4", 36, "4/4 3/4 3/8 4/4"),
        # Without time signatures, or with invalid ones, bars are in 4/4.
        ("", 40, "4/4 4/4 4/4"),
        ("0:0/4 0.75:4/0", 40, "4/4 4/4 4/4"),
        ("1:3/4", 20, "1/4 3/4 3/4"),
        # The last of two on the same tick counts.
        ("0:4/4 8:5/8 8:3/4", 32, "4/4 4/4 3/4"),
    ],
)
def test_bars_follow_from_time_signatures(metres, until, bars):
    result = bars_of(meters(metres, 4), 4, until)
    assert " ".join(NAMES[index] for index in result.metre) == bars


@given(st.lists(st.tuples(st.integers(0, 300), SIGNATURE), max_size=8), st.integers(0, 400))
def test_bars_reach_the_limit_and_do_not_depend_on_it(changes, until):
    signatures = Meters(*np.array([(at, *metre) for at, metre in changes]).reshape(-1, 3).T)
    bars = bars_of(signatures, 4, until)
    assert bars.start[-1] <= until < bars.start[-1] + bars.length[-1]
    longer = bars_of(signatures, 4, until + 500)
    assert longer.metre[: len(bars) - 1].tolist() == bars.metre[:-1].tolist()
    again = bars_of(longer.meters(1), 4, int(longer.start[-1]))
    assert again.metre.tolist() == longer.metre.tolist()


def test_bar_lines_of_a_score():
    score = score_of([(20, 8, 60, 64)], 8, meters=[(0, 3, 4), (24, 2, 4)])
    assert bar_lines(score, 4).tolist() == [0, 24, 40, 56, 72]
    assert (bar_count(score), bar_count(score_of([]))) == (2, 1)


def test_beats_of_other_metres():
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
def test_a_pedal_sustains_notes(notes, pedals):
    """The expected length is found tick by tick."""

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
