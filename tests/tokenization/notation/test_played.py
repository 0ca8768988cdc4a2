"""What was in force at a bar is so again where the music goes back to it."""

from tests.tokenization.notation.scores import heard
from tokenization.midi.limits import GENEROUS
from tokenization.notation.abc.reading import read_abc
from tokenization.score import Score


def read(music: str, tempo: str = "Q:1/4=100\n") -> Score:
    return read_abc(f"X:1\nM:4/4\nL:1/4\n{tempo}K:C\n{music}".encode(), GENEROUS, "tune")


def tempos(found: Score) -> list[tuple[float, float]]:
    onset, bpm = (column.tolist() for column in found.tempos.columns)
    return [(tick / found.ticks_per_beat, value) for tick, value in zip(onset, bpm, strict=True)]


def test_a_repeat_begins_in_the_tempo_in_which_it_began():
    found = read("A4|:B4|c2[Q:1/4=60]c2:|d4|")
    assert [onset for onset, *_ in heard(found)] == [0, 4, 8, 10, 12, 16, 18, 20]
    assert tempos(found) == [(0, 100), (10, 60), (12, 100), (18, 60)]


def test_a_repeat_from_where_no_tempo_was_said_is_in_that_of_the_beginning():
    assert tempos(read("A4|[Q:1/4=60]B4:|", "")) == [(0, 120), (4, 60), (8, 120), (12, 60)]


def test_a_tempo_that_stands_where_the_music_goes_back_to_holds_there():
    assert tempos(read("A4|:[Q:1/4=80]B4|[Q:1/4=60]c4:|")) == [
        *((0, 100), (4, 80), (8, 60), (12, 80), (16, 60))
    ]


def test_tempos_that_stay_are_not_said_again():
    assert tempos(read("A4|:B4|c4:|")) == [(0, 100)]
    assert tempos(read("|:A4|B4:|", "")) == [(0, 120)]


def test_a_chord_that_goes_on_over_the_start_of_a_repeat_sounds_in_the_repeat():
    found = read('"Am"A4|:B4|"G7"B4:|"C"c4|')
    chords = [(m.onset_ticks / found.ticks_per_beat, m.text) for m in found.markers]
    assert chords == [(0, "A_m"), (8, "G_7"), (12, "A_m"), (16, "G_7"), (20, "C_M")]


def test_what_only_a_first_ending_says_is_over_with_it():
    found = read("A4|:B4|1[Q:1/4=60]c4:|2d4||:e4|f4:|")
    assert [onset for onset, *_ in heard(found)] == [4 * bar for bar in range(9)]
    assert tempos(found) == [(0, 100), (8, 60), (12, 100)]


def test_after_the_last_ending_the_music_goes_on_as_it_was_going():
    assert tempos(read("|:A4|1[Q:1/4=60]B4:|2c4|]d4|")) == [
        *((0, 100), (4, 60), (8, 100)),
    ]


def test_of_two_signs_on_a_tick_the_one_that_is_written_last_holds():
    assert tempos(read("[Q:1/4=60]C4|D4|")) == [(0, 60)]
    assert tempos(read("[Q:1/4=140]C4|D4|")) == [(0, 140)]
    assert tempos(read("|:C4|[Q:1/4=80][Q:1/4=60]D4:|", "")) == [
        *((0, 120), (4, 60), (8, 120), (12, 60)),
    ]
    assert [marker.text for marker in read('"G""C"C4|D4|').markers] == ["G_M", "C_M"]
