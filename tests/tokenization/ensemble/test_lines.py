"""Lines of scores go on with figures that they had, at any pitch, and repeat, cross and clash no more than they did."""

import numpy as np
import pytest

from tests.tokenization.ensemble.test_habits import LANGUAGE, nats, write
from tokenization.ensemble.lines import CLASHING, CROSSING, FIGURE, PAST, REPEATING, next_of
from tokenization.ensemble.tokens import PITCH, VOCABULARY
from tokenization.grammar import Grammar


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
    past = np.array([*reversed(pitches), *[-1] * (PAST - len(pitches))])
    assert next_of(past) == expected


def going_on(*bars: str, lengths: int = 1, drums: str = "") -> Grammar:
    """Return the grammar after bars of two violins, each a line of pitches on the beats, with so many lengths."""
    names = [name for name in VOCABULARY.names if name.startswith("length_")][:lengths]
    found = [f"begin violin violin voice_2 {drums and 'drums'}"]
    number = 0
    for bar in bars:
        found.append("bar")
        for part, line in zip(("violin", "violin voice_2"), bar.split("|"), strict=True):
            found.append(part)
            for beat, pitch in enumerate(line.split()):
                found.append(f"at_{24 * beat} {names[number % lengths]} pitch_{pitch}")
                number += 1
        found.append(drums)
    ids = np.array([VOCABULARY.id(name) for name in " ".join([*found, "bar"]).split()])
    grammar = LANGUAGE.grammar(ids, prompt_bars=len(bars), bars=4, free=False)
    grammar.take(ids)
    return grammar


def pitches(found: Grammar) -> np.ndarray:
    return nats(found)[PITCH.start : PITCH.stop]


FIGURES = ("60 62 64 60|55 52 55 52", "67 60 72 67|55 52 55 52", "67 60 72 67|55 52 55 52")


@pytest.mark.parametrize(
    ("lengths", "drums", "favoured"), [(1, "", FIGURE), (24, "", 0), (1, "drums at_0 drum_36", 0)]
)
def test_the_next_note_of_a_figure_is_favoured_in_scores(lengths, drums, favoured):
    found = going_on(*FIGURES, lengths=lengths, drums=drums)
    write(found, "violin", "at_0", "length_24", "loudness_8", "pitch_69", "at_24")
    before = pitches(found)
    write(found, "pitch_71", "at_48")
    assert pitches(found)[67] - pitches(found)[64] == before[67] - before[64] + favoured


STILL = ("60 64 62 65|55 52 53 50",) * 2


def test_notes_are_repeated_no_more_than_before():
    found = going_on(*STILL)
    write(found, "violin", "at_0", "length_24", "loudness_8", "pitch_60", "at_24")
    first = pitches(found)[60] - pitches(found)[59]
    write(found, "pitch_60", "at_48")
    assert pitches(found)[60] - pitches(found)[59] == first - REPEATING


CROSSED = "60 64 62 65|55 52 53 50", "53 52 54 50|60 64 62 65"


@pytest.mark.parametrize(("given", "crossing"), [(STILL, CROSSING), (CROSSED, 0)])
def test_notes_clash_and_cross_no_more_than_before_and_only_what_sounds(given, crossing):
    together, alone = (going_on(*given) for _ in range(2))
    write(together, "violin", "at_0", "length_24", "loudness_8", "pitch_60", "at_24", "pitch_64")
    for found in (together, alone):
        write(found, "violin", "voice_2", "at_0", "length_24", "loudness_8", "pitch_61", "at_24")
    pitch = np.arange(128)  # C and C sharp have clashed, and E sounds
    wanted = CLASHING * np.isin(pitch % 12, (3, 5)) + crossing * (pitch >= 64)
    np.testing.assert_allclose(pitches(alone) - pitches(together), wanted, atol=1e-5)


def test_the_lines_of_rows_stay_apart():
    found = going_on(*FIGURES)
    both = found.select(np.array([0, 0]))
    for name in [
        "violin",
        "at_0",
        "length_24",
        "loudness_8",
        "pitch_69",
        "at_24",
        "pitch_71",
        "at_48",
    ]:
        other = "pitch_70" if name == "pitch_71" else name
        both.advance(np.array([VOCABULARY.id(name), VOCABULARY.id(other)]))
    one, two = both.bias()
    assert one[PITCH.start + 67] - two[PITCH.start + 67] == FIGURE
    assert np.array_equal(both.select(np.array([1])).bias()[0], two)
