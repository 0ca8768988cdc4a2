"""Lines go on with figures that they had, at any pitch."""

import numpy as np
import pytest

from tests.tokenization.ensemble.test_habits import LANGUAGE, nats, write
from tokenization.ensemble.figures import PAST, next_of
from tokenization.ensemble.tokens import PITCH, VOCABULARY


def line(*pitches: int) -> np.ndarray:
    """Return a line of these pitches, the earliest first."""
    return np.array([*reversed(pitches), *[-1] * (PAST - len(pitches))])


@pytest.mark.parametrize(
    ("pitches", "expected"),
    [
        ((60, 62, 64, 60, 67, 69, 71), 67),  # a third down, as before
        ((60, 62, 64, 60, 60, 62, 64, 65, 70, 72, 74), 75),  # as it last did
        ((60, 62, 64, 60, 67, 69, 70), -1),  # another figure
        ((60, 60, 60, 64, 67, 67, 67), -1),  # repeated notes
        ((60, 62, 64), -1),
        ((), -1),
        ((4, 2, 1, 100, 7, 5, 4, 126, 124, 123), -1),  # it would leave the range
    ],
)
def test_figures_are_found_at_any_pitch(pitches, expected):
    assert next_of(line(*pitches)) == expected


@pytest.mark.parametrize("music", ["performance", "score", "band"])
def test_the_next_note_of_a_figure_is_favoured_in_performances(music):
    drums = "drums at_0 loudness_8 drum_36" if music == "band" else ""
    lengths = [name for name in VOCABULARY.names if name.startswith("length_")]
    lengths = lengths[: 8 if music == "performance" else 1]
    bars = [
        " ".join(
            f"at_{24 * beat} {lengths[(4 * bar + beat) % len(lengths)]} pitch_{pitch}"
            for beat, pitch in enumerate(pitches)
        )
        for bar, pitches in enumerate([(60, 62, 64, 60), (67, 60, 72, 67)])
    ]
    notes = [bar.replace(" pitch", " loudness_8 pitch", 1) for bar in bars]
    if music != "performance":
        notes = [bar.replace(f" {lengths[0]} pitch", " pitch") for bar in notes]
    text = f"begin piano {drums[:5]} " + " ".join(f"bar piano {one} {drums}" for one in notes)
    ids = np.array([VOCABULARY.id(name) for name in f"{text} bar".split()])
    found = LANGUAGE.grammar(ids, prompt_bars=2, bars=2, free=False)
    found.take(ids)
    write(found, "piano", "at_0", "length_24", "loudness_8", "pitch_69", "at_24", "pitch_71")
    assert nats(found)[PITCH.start + 67] == nats(found)[PITCH.start + 64]
    write(found, "at_48")
    row = nats(found)
    assert (row[PITCH.start + 67] > row[PITCH.start + 64]) == (music == "performance")
