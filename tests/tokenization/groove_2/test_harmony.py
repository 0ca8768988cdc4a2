"""The chords that given parts play are told where a pitched part is written to them, and only there."""

import numpy as np
import pytest

from tests.tokenization.groove.cases import trio_of
from tokenization.groove.spelling import BAR_TICKS, BASS, DRUMS, OTHER
from tokenization.groove_2.goals import chords_to, toward_chords
from tokenization.groove_2.language import Groove2
from tokenization.groove_2.spelling import VOCABULARY
from tokenization.score import Notes

C, F, G, AM = (60, 64, 67), (60, 65, 69), (59, 62, 67), (60, 64, 69)


def music(*notes: tuple[int, int, int, int]) -> Notes:
    """Return notes of (onset, duration, pitch, track)."""
    return trio_of([(o, d, p, 0, t) for o, d, p, t in notes]).notes.sorted()


def held(*chords: tuple[int, int, tuple[int, ...]]) -> list[tuple[int, int, int, int]]:
    """Return the notes of (onset, duration, pitches)."""
    return [(onset, lasts, pitch, OTHER) for onset, lasts, pitches in chords for pitch in pitches]


def said(notes: Notes, given: list[int], bars: int) -> list[tuple[int, str]]:
    """Return when what is told, by name."""
    told = chords_to(notes, given, bars)
    return [(int(t), VOCABULARY.names[i]) for t, i in zip(told.time_ticks, told.ids, strict=True)]


SONG = held((0, 48, C), (48, 24, AM), (72, 24, F), (96, 96, G))
LINE = [(0, 48, 36, BASS), (48, 24, 45, BASS), (72, 24, 41, BASS), (96, 96, 43, BASS)]
TIMES = [0, 48, 72, 96, 144]


@pytest.mark.parametrize("higher", [0, 3, 7])
def test_chords_are_told_at_each_bar_line_and_where_they_change(higher: int):
    names = np.array(["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"])
    roots = names[(np.array([0, 9, 5, 7, 7]) + higher) % 12]
    wanted = [f"chord_{root}_{q}" for root, q in zip(roots, "MmMMM", strict=True)]
    notes = music(*SONG)
    notes = notes.replace(pitch=notes.pitch + higher)
    assert said(notes, [OTHER], 4) == list(zip(TIMES, wanted, strict=True))
    assert said(notes, [DRUMS, OTHER], 4) == said(notes, [OTHER], 4)


def test_of_a_bass_alone_no_more_than_roots_is_known():
    wanted = [f"root_{root}" for root in ("C", "A", "F", "G", "G")]
    assert said(music(*LINE), [BASS], 4) == list(zip(TIMES, wanted, strict=True))


def test_what_is_not_given_is_not_heard():
    alone, together = music(*SONG), music(*SONG, *[(0, 96, 25, BASS), (0, 4, 38, DRUMS)])
    assert said(together, [DRUMS, OTHER], 4) == said(alone, [OTHER], 4)


def test_drums_neither_tell_chords_nor_are_told_any():
    notes = music(*SONG, *LINE, (0, 4, 36, DRUMS))
    assert said(notes, [DRUMS], 4) == []
    assert said(notes, [BASS, OTHER], 4) == []
    assert said(music((0, 4, 36, DRUMS)), [OTHER, DRUMS], 1) == []


def test_a_rest_of_less_than_a_bar_belongs_to_the_chord_after_it_and_a_longer_one_is_told():
    late = music(*held((12, 36, C), (48, 48, F)))
    assert said(late, [OTHER], 2) == [(0, "chord_C_M"), (48, "chord_F_M")]
    silent = music(*held((0, 48, C), (4 * BAR_TICKS, 48, F)))
    told = dict(said(silent, [OTHER], 5))
    assert told[0] == "chord_C_M"
    assert told[3 * BAR_TICKS] == "chord_N_N"
    assert told[4 * BAR_TICKS] == "chord_F_M"


def weight(goal: str, note: str) -> float:
    """Return what a goal that is told adds to a note's score."""
    logit_bias = toward_chords()
    kind = logit_bias.kind[VOCABULARY.id(note)]
    return float(logit_bias.weights[logit_bias.goal[VOCABULARY.id(goal)], kind])


def test_a_bass_leans_towards_the_tones_of_a_chord_whatever_the_octave():
    tones = [weight("chord_A_m7", f"note_on_0_{pitch}") for pitch in (33, 36, 40, 43, 45, 57)]
    others = [weight("chord_A_m7", f"note_on_0_{pitch}") for pitch in (34, 35, 37, 41, 46)]
    assert len({*tones}) == len({*others}) == 1
    assert tones[0] > others[0] + 1
    assert weight("chord_N_N", "note_on_0_33") == weight("chord_N_N", "note_on_0_34")


def test_another_part_leans_by_how_far_it_is_above_the_root():
    of_c = [weight("root_C", f"note_on_2_{60 + n}") for n in range(12)]
    of_g = [weight("root_G", f"note_on_2_{67 + n}") for n in range(12)]
    assert of_c == of_g
    assert min(of_c[0], of_c[4], of_c[7]) > max(of_c[1], of_c[6], of_c[10])


def test_drums_and_what_ends_a_note_do_not_lean():
    logit_bias = toward_chords()
    for token in ("note_on_1_36", "note_off_0_36", "note_off_2_60", "bar", "at_12", "end"):
        assert logit_bias.kind[VOCABULARY.id(token)] == 0
    assert (logit_bias.goal[: VOCABULARY.id("chord_C_M")] == 0).all()


def test_what_is_written_leans_where_chords_are_told():
    groove = Groove2()
    ids = groove.spell(music(*SONG, *LINE, (0, 4, 36, DRUMS)))
    assert groove.accompanying(ids, ["bass"]).logit_bias is toward_chords()
    assert groove.accompanying(ids, ["other"]).logit_bias is toward_chords()
    assert groove.accompanying(ids, ["drums"]).logit_bias is None
    assert groove.infilling(ids, 1, 2).logit_bias is None
