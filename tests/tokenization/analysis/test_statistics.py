"""Statistics of excerpts, counted by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluation.scores import BASS, DRUMS, OTHER, piano_of, random_trio, trio
from tokenization.analysis.statistics import GROUPS, LOUDNESS, Measured
from tokenization.score import Meters, Score

BAR = 48
CHORD_AND_DRUM = [(0, 12, 60, OTHER), (0, 24, 64, OTHER), (24, 12, 64, OTHER), (24, 1, 36, DRUMS)]
BARS = [
    (0, 96, 30, BASS),  # before the window; rings into it
    *((BAR * bar + at, *rest) for bar in (1, 2) for at, *rest in CHORD_AND_DRUM),  # two equal bars
    (BAR * 3 + 36, 48, 72, OTHER),  # rings past the end of the window
    (BAR * 4, 12, 90, OTHER),  # after the window
]


def music(rows: list[tuple[int, ...]] = BARS) -> Score:
    """Return a score whose drums are loud."""
    score = trio(rows)
    velocity = np.where(score.on_drums, 100, 80)
    return score.replace(notes=score.notes.replace(velocity=velocity))


def statistics(score: Score, bars: int, *where: int) -> dict[str, float]:
    """Return those of an excerpt that is not silent."""
    found = Measured(score, bars).statistics(*where)
    assert found is not None
    return found


def test_statistics_of_a_window_match_a_count_by_hand():
    found = statistics(music(), 4, 1, 4, 1)
    expected = {
        "rhythm: notes": 9 / 12,
        "rhythm: onsets": 5 / 12,
        "rhythm: place entropy": -(2 * 4 / 9 * np.log2(4 / 9) + 1 / 9 * np.log2(1 / 9)),
        "rhythm: bar deviation": np.std([4, 4, 1]) / 3,
        "rhythm: first of bar": 4 / 9,
        "rhythm: off the beat": 0,
        "rhythm: different bars": 2 / 3,
        "harmony: notes at onset": 7 / 5,
        "harmony: 2 struck": 2 / 5,
        "harmony: struck thirds": 1,
        "harmony: doubled": 0,
        "loudness: commonest": 7 / 9,
        "loudness: deviation": 20 * np.sqrt(7 / 9 * 2 / 9),
        "loudness: levels": 2,
        "loudness: of the top": 0,
        "top: mean": (4 * 64 + 72) / 5,
        "top: deviation": np.std([64, 64, 64, 64, 72]),
        "top: repeated": 3 / 4,
        "top: step": 8 / 4,
        "bass: mean": (60 + 64 + 60 + 64 + 72) / 5,
        "length: mean": (5 * 12 + 2 * 24) / 7 / 12,  # the last is cut to a beat
        "length: commonest": 5 / 7,
        "length: entropy": -(5 / 7 * np.log2(5 / 7) + 2 / 7 * np.log2(2 / 7)),
        "length: sounding": (2 * (12 * 2 + 12 + 12) + 12) / (2 * 36 + 12),
        "form: notes exact": 1 / 3,
        "form: notes best": 1 / 3,
        "form: notes 1 back": 1 / 3,
        "form: notes of the given": 0,
        "parts: number": 1,
        "drums: share": 2 / 9,
        "drums: kinds": 1,
        "change: rhythm notes": 9 / 12 - 1 / 4,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert {name.split(":")[0] for name in found} == {*GROUPS}


CANON = [(12 * n, 12, pitch, OTHER) for n, pitch in enumerate((72, 74, 76, 77))]
DUET = [
    *CANON,
    *((24 + at, long, pitch - 24, BASS) for at, long, pitch, _ in CANON),  # two beats later
    (BAR * 2, 24, 72, OTHER), (BAR * 2, 24, 79, OTHER), (BAR * 2, 24, 60, BASS),
    (BAR * 2 + 24, 24, 81, OTHER), (BAR * 2 + 24, 24, 62, BASS),  # parallel fifths
    (BAR * 3, 24, 55, OTHER), (BAR * 3, 24, 64, BASS),  # they cross
    (BAR * 2, 1, 36, DRUMS), (BAR * 2 + 12, 1, 38, DRUMS),
]  # fmt: skip


def test_statistics_of_parts_match_a_count_by_hand():
    found = statistics(music(DUET), 4, 0, 4, 0)
    expected = {
        "parts: rests": 1 / 8,
        "parts: players deviation": np.std([2, 1, 2, 2]),
        "parts: entries": 2 / 6,
        "parts: most chordal": 1 / 8,
        "parts: least chordal": 0,
        "parts: rhythm in common": 5 / 9,
        "parts: crossing": 24 / (24 + 48 + 24),
        # Moves of both lines: the canon in parallel, then to each other's chords.
        "parts: parallel perfect": 1 / 4,
        "parts: contrary": 1 / 4,
        "parts: imitation": 4 / 8,
        "drums: bass with kick": 1 / 7,
        "drums: kick with bass": 1,
        "drums: backbeat": 1,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_drums_only_and_a_silent_window():
    drums = trio([(at, 1, 36, DRUMS) for at in (0, 12, 24, 36, 48, 60)])
    found = statistics(drums, 2, 0, 2, 0)
    groups = {name.split(":")[0] for name in found}
    assert groups == {"rhythm", LOUDNESS, "drums", "form"}
    assert Measured(trio([]), 2).statistics(0, 2, 0) is None


def test_windows_follow_the_metre():
    score = music().replace(meters=Meters(*np.array([[0, 3, 4]]).T))
    found = Measured(score, 3).excerpt(1, 3)
    assert found.lines.tolist() == [0, 72, 144]
    assert found.notes.onset_ticks.min() == 2 * (BAR - 36)


def test_harmony_of_a_chord():
    """C E G for a bar, then F A C: a fifth down, both major, the bass on the roots."""
    chords = [
        (BAR * bar, BAR, pitch)
        for bar, root in enumerate((48, 53))
        for pitch in (root, root + 4, root + 7)
    ]
    found = statistics(piano_of(chords), 2, 0, 2, 0)
    expected = {
        "harmony: chord fit": 1, "harmony: minor chords": 0, "harmony: bass on root": 1,
        "harmony: chord changes": 1 / 7,
        "harmony: roots by fifths": 1, "harmony: changes on the line": 1, "harmony: in scale": 1,
        "harmony: major thirds": 1 / 3, "harmony: tritones": 0, "harmony: 7 above the bass": 1 / 3,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(1, 60))
def test_what_comes_after_the_window_changes_nothing(seed: int, notes: int):
    score = random_trio(seed, notes, 16)
    found = Measured(score, 4).statistics(1, 3, 1)
    early = score.replace(notes=score.notes[score.notes.onset_ticks < 3 * BAR])
    assert found == pytest.approx(Measured(early, 3).statistics(1, 3, 1), nan_ok=True)
    for value in (found or {}).values():
        assert not np.isinf(value)
