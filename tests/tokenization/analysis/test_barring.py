"""Bars of one beat are replaced by bars that are found in the notes."""

import numpy as np
import pytest

from app.web.offered_models import EXAMPLES, example
from tokenization.analysis.barring import with_bars_found
from tokenization.analysis.beats import later, on_own_bars
from tokenization.midi.reading import read_midi
from tokenization.score import Meters, Notes, Score, Track

ONE_FOUR = Meters([0], [1], [4])


def waltz() -> Score:
    """Return sixteen bars of bass, chord, chord under a tune."""
    rows = []
    for bar in range(16):
        root = (48, 53, 55, 48)[bar % 4]
        at = 36 * bar
        rows += [(at, 12, root - 12, 80, 0), (at, 30, root + 24, 80, 0)]
        rows += [
            (at + beat, 10, root + third, 60, 0) for beat in (12, 24) for third in (12, 16, 19)
        ]
    notes = Notes(*np.array(rows).T).sorted()
    return Score(ticks_per_beat=12, notes=notes, tracks=(Track(),), meters=ONE_FOUR)


@pytest.mark.parametrize("pickup", [0, 1])
def test_the_bars_of_the_examples_and_of_a_waltz_are_found(pickup: int):
    pieces = {name: (read_midi(example(name)), 4) for name in EXAMPLES} | {"waltz": (waltz(), 3)}
    for score, beats in pieces.values():
        moved = later(score, pickup * score.ticks_per_beat).replace(meters=ONE_FOUR)
        found = on_own_bars(moved)
        assert [*zip(*(column.tolist() for column in found.meters.columns), strict=True)] == [
            (0, beats, 4)
        ]
        first = found.notes.onset_ticks.min() - score.notes.onset_ticks.min()
        assert first % (beats * score.ticks_per_beat) == 0
        assert any("bars of 1/4" in remark for remark in found.remarks)


def test_other_metres_are_believed():
    for meters in (Meters([0], [4], [4]), Meters([0, 12], [1, 3], [4, 4]), Meters.empty()):
        score = waltz().replace(meters=meters)
        assert with_bars_found(score) is score
