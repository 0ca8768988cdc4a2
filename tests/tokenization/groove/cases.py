"""Makers for the groove tests: scores, valid sequences, and a simple reference for notes on the grid."""

import json
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from tests.tokenization import grammar_cases
from tokenization.groove.language import Groove
from tokenization.groove.spelling import FAR_TICKS, VOCABULARY, GrooveGrammar
from tokenization.score import Notes, Score, Tempos, Track

TRIO = (Track("Bass", 33), Track("Drums", 0, True), Track("Other", 0))
GOLDEN = Path(__file__).parents[2] / "golden" / "groove_tokens.json"


def golden_cases() -> list[dict]:
    """Return the cases of the reference implementation: notes by track, tokens, and decoded notes."""
    return json.loads(GOLDEN.read_text())["cases"]


def golden_trio(tracks) -> Score:
    """Return the trio of (onset, duration, pitch) rows by track."""
    return trio_of([(*note, 80, track) for track, notes in enumerate(tracks) for note in notes])


def golden_tokens(case: dict) -> list[str]:
    """Return the tokens of a case; the reference has no `begin`, and `eos` instead of `end`."""
    assert case["tokens"][-1] == "eos"
    return ["begin", *case["tokens"][:-1], "end"]


def trio_of(notes, ticks_per_beat=12, tempos=()) -> Score:
    """Return a trio of (onset, duration, pitch, velocity, track) rows."""
    columns = zip(*notes, strict=True) if notes else [[]] * 5
    return Score(
        ticks_per_beat=ticks_per_beat,
        notes=Notes(*columns),
        tracks=TRIO,
        tempos=Tempos(*zip(*tempos, strict=True)) if tempos else Tempos.empty(),
    )


@st.composite
def trios(draw) -> Score:
    """Draw irregular trios with at least one note."""
    ticks_per_beat = draw(st.sampled_from([1, 7, 12, 96, 192, 480]))
    onset = st.integers(0, draw(st.sampled_from([1, 6, 80])) * ticks_per_beat)
    note = st.tuples(
        onset,
        st.one_of(st.integers(0, ticks_per_beat), st.integers(0, 12 * ticks_per_beat)),
        draw(st.sampled_from([st.integers(0, 127), st.integers(60, 62), st.just(127)])),
        st.integers(1, 127),
        draw(st.sampled_from([st.integers(0, 2), st.integers(0, 2), st.just(2)])),
    )
    tempo = st.tuples(onset, st.floats(20, 500))
    notes = draw(st.lists(note, min_size=1, max_size=80))
    return trio_of(notes, ticks_per_beat, draw(st.lists(tempo, max_size=4)))


def walk(seed: int, length: int) -> np.ndarray:
    ways_out = ("note_off", "time_shift", "note_on")
    grammar = GrooveGrammar(prompt_tokens=FAR_TICKS)
    return Groove().close(grammar_cases.walk(grammar, VOCABULARY, seed, length, ways_out))


def slow_notes(score: Score) -> list[tuple[int, int, int, int]]:
    """Return the notes on the grid as (onset, track, pitch, duration), key by key."""

    def on_grid(ticks: int) -> int:
        return floor(Fraction(ticks * 12, score.ticks_per_beat) + Fraction(1, 2))

    keys: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for onset, duration, pitch, _, track in zip(
        *(column.tolist() for column in score.notes.columns), strict=True
    ):
        start, end = on_grid(onset), on_grid(onset + duration)
        keys.setdefault((track, pitch), []).append((start, max(end, start + 1)))
    found = []
    for (track, pitch), spans in keys.items():
        kept: list[tuple[int, int]] = []
        for span in sorted(spans, key=lambda span: (span[0], -span[1])):
            if sum(start == span[0] for start, _ in kept) < 8:
                kept.append(span)
        starts, ends = sorted(s for s, _ in kept), sorted(e for _, e in kept)
        for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
            end = min([end, *starts[i + 8 : i + 9]])
            found.append((start, track, pitch, end - start))
    return sorted(found)


def rows_of(notes: Notes) -> list[tuple[int, ...]]:
    """Return notes as (onset, track, pitch, duration), in order."""
    columns = notes.onset_ticks, notes.track, notes.pitch, notes.duration_ticks
    return sorted(zip(*(c.tolist() for c in columns), strict=True))
