"""Gaps in music that comes back: which are drawn, and how what is written there is compared."""

import numpy as np
import pytest

from evaluation.study.gaps import Gap, compared, compared_section, drawn, f1, of_bars
from tests.evaluation.scores import piano_of
from tokenization.score import Score

MELODY = [60, 62, 64, 65, 70, 72, 74, 75]


def melody(*bars: int, moved: int = 0, length: int = 12) -> Score:
    """Return bars of four notes: 0 and 1 are halves of a melody, and others are far from both."""
    notes = []
    for place, bar in enumerate(bars):
        own = MELODY[4 * bar : 4 * bar + 4] or [90 - 4 * bar + n for n in range(4)]
        notes += [(48 * place + 12 * n + moved, length, pitch) for n, pitch in enumerate(own)]
    return piano_of(notes)


def test_only_music_that_is_elsewhere_is_drawn():
    cells = of_bars(melody(5, 6, 0, 1, 7, 8, 0, 1, 9, 4), 0)
    found = drawn(cells, 2, np.random.default_rng(0))
    assert {(gap.start, gap.best) for gap in found} == {(2, 6), (6, 2)}


@pytest.mark.parametrize(("moved", "f1s"), [(0, (1, 1)), (3, (0, 0))])
def test_written_music_is_compared_with_the_true_bars(moved: int, f1s: tuple[float, float]):
    true, written = melody(0, 0, 1, 0, 1, 1), melody(0, 0, 1, 0, 1, 1, moved=moved)
    found = compared(true, written, 0, Gap(start=2, stop=4, best=0))
    assert (found["note F1"]["written"], found["onset F1"]["written"]) == f1s
    assert (found["note F1"]["before"], found["onset F1"]["before"]) == (0.5, 1)
    assert found["notes a bar"]["written"] == found["notes a bar"]["real"] == 4


def test_notes_at_once_and_notes_that_overlap_are_found():
    gap = Gap(start=1, stop=2, best=0)
    found = compared(melody(0, 1), melody(0, 1, length=13), 0, gap)
    assert found["notes overlap"] == {"written": 1, "real": 0}
    chord = piano_of([(48, 12, 60), (48, 12, 64)])
    assert compared(melody(0, 1), chord, 0, gap)["notes at once"]["written"] == 1
    assert f1([set()], [set()]) == 1


def test_a_rewritten_section_is_compared_with_passages_elsewhere():
    true, written = melody(0, 1, 5, 0, 1, 6), melody(0, 1, 5, 0, 0, 6)
    found = compared_section(true, written, Gap(start=3, stop=5, best=0))
    assert found["similarity to the best passage"] == {"written": 0.5, "real": 1}
    assert found["similarity to what was there"] == {"written": 0.5}
