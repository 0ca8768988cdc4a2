"""Makers for the ensemble tests: scores on the grid, a song, and valid sequences."""

import numpy as np
from hypothesis import strategies as st

from tests.tokenization import grammar_cases
from tokenization.analysis.metres import METRES
from tokenization.ensemble.grammar import FAR, EnsembleGrammar
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.tokens import END, LENGTHS, VOCABULARY
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

LANGUAGE = Ensemble()
RIGHT, LEFT = Track("Right"), Track("Left")
TRACKS = (Track("Lead", 73), RIGHT, LEFT, Track("Bass", 33), Track("Kit", 0, True))


@st.composite
def scores(draw: st.DrawFn) -> Score:
    """Draw a score on the grid, with rests, unisons between parts, long notes, and any metre."""
    count = draw(st.integers(1, 60))
    tracks = draw(st.permutations(TRACKS))[: draw(st.integers(1, len(TRACKS)))]
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    flat = draw(st.booleans())
    onset = np.append(0, random.integers(0, 24 * 24, count - 1) * random.choice([1, 2, 3, 6]))
    notes = Notes(
        onset,
        random.choice(LENGTHS, count),
        random.integers(40, 80, count),
        np.full(count, 72) if flat else 8 * random.integers(0, 16, count) + 4,
        random.integers(0, len(tracks), count),
    )
    numerator, denominator = draw(st.sampled_from(METRES))
    return Score(
        ticks_per_beat=24,
        notes=notes.sorted(),
        tracks=tuple(tracks),
        tempos=Tempos([0], [float(draw(st.integers(30, 250)))]),
        meters=Meters([0], [numerator], [denominator]),
        markers=(Marker(0, "C_M"), Marker(96, "A_m7")) if draw(st.booleans()) else (),
    )


def song() -> Score:
    """Return eight bars of a melody, two hands and drums, with chords and a bar of 3/4."""
    random = np.random.default_rng(5)
    onset = np.append(0, random.integers(0, 8 * 96 // 6, 159) * 6)
    length, pitch = random.choice([6, 12, 24], 160), random.integers(45, 80, 160)
    velocity, track = 8 * random.integers(0, 16, 160) + 4, random.integers(0, 4, 160)
    notes, tracks = Notes(onset, length, pitch, velocity, track).sorted(), (*TRACKS[:3], TRACKS[4])
    meters = Meters([0, 384, 456], [4, 3, 4], [4, 4, 4])
    score = Score(ticks_per_beat=24, notes=notes, tracks=tracks, meters=meters)
    return LANGUAGE.arrange(score.replace(tempos=Tempos([0], [100.0])))


def walk(seed: int, length: int) -> np.ndarray:
    """Return a valid sequence, with tokens of plans and goals."""
    while True:
        ids = grammar_cases.walk(
            EnsembleGrammar(given_bars=FAR), VOCABULARY, seed, length, most=length + 400
        )
        if ids[-1] == END:  # a piece of chords alone does not end
            return ids
        seed += 1
