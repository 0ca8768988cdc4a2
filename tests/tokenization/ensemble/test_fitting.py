"""New parts fit the given ones: they return with them, and prefer their chords, space and roles, whatever the model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.ensemble.cases import scores
from tokenization.ensemble.arranging import BASS as LOW
from tokenization.ensemble.arranging import (
    CHORDS,
    FEWEST,
    HOLDS,
    LINE,
    LONGEST,
    MOVES,
    NO_ROLE,
    WALKS,
    Arrangement,
    phrases_of,
    sections_of,
)
from tokenization.ensemble.fitting import Given, first_downbeat
from tokenization.ensemble.given_returns import returns_of
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import BAR, PART_NAMES
from tokenization.score import Score

LANGUAGE = Ensemble()
BASS, STRINGS, PIANO, GUITAR = (
    PART_NAMES.index(name) for name in ("electric_bass", "strings", "electric_piano", "electric_guitar")
)  # fmt: skip


def tune(form: str, bars: int = 4, changed: tuple[int, ...] = ()) -> np.ndarray:
    """Return a melody of sections, with a chord a bar; `changed` bars have another melody."""
    words = ["begin chords lead"]
    for section, letter in enumerate(form):
        for bar in range(bars):
            chord = ("C_M", "F_M", "G_7", "A_m")[(bar + ord(letter)) % 4]
            random = np.random.default_rng([ord(letter), bar])
            pitches = random.integers(60, 76, 4) + (2 if section * bars + bar in changed else 0)
            notes = " ".join(
                f"at_{24 * beat} length_24 pitch_{p}" for beat, p in enumerate(pitches)
            )
            words.append(
                f"bar chords at_0 chord_{chord} lead {notes.replace('pitch', 'loudness_9 pitch', 1)}"
            )
    text = " ".join([*words, "end"])
    return np.array([LANGUAGE.vocabulary.id(name) for name in text.split()])


def sheet_of(ids: np.ndarray) -> Sheet:
    return LANGUAGE.sheet(ids)


def test_phrases_return_whole_with_a_bar_that_has_other_notes_over_the_same_chord():
    assert returns_of(sheet_of(tune("AAB"))).tolist() == [0] * 4 + [4] * 4 + [0] * 4
    assert returns_of(sheet_of(tune("ABA"))).tolist() == [0] * 8 + [8] * 4
    assert returns_of(sheet_of(tune("ABAB", changed=(10,)))).tolist()[8:] == [8] * 8
    assert not returns_of(sheet_of(tune("ABCDEFGH", bars=1))).any()


@settings(max_examples=30)
@given(scores())
def test_a_source_is_an_earlier_bar_of_the_same_metre(score: Score):
    sheet = sheet_of(LANGUAGE.encode(LANGUAGE.arrange(score)).ids)
    back = returns_of(sheet)
    bars = np.arange(len(back))
    assert (back >= 0).all()
    assert (back <= bars).all()
    assert (sheet.bars.metre[bars - back] == sheet.bars.metre).all()


def test_a_section_begins_with_new_bars_after_a_return():
    back = [0] * 4 + [4] * 4 + [0] * 6 + [4] * 2 + [16] * 8
    assert sections_of(np.array(back)).tolist() == [0] * 8 + [1] * 8 + [0] * 8
    assert sections_of(np.zeros(LONGEST + 2, int)).tolist() == [0] * LONGEST + [1] * 2
    short = [0] * 4 + [4] * 4 + [0] * 2 + [4] * 6
    assert set(sections_of(np.array(short)).tolist()) == {0}


def test_sections_last_for_multiples_of_four_bars():
    spilt = [0] * 8 + [8] * 8 + [0] * 6 + [8] * 10  # B ends like A
    assert sections_of(np.array(spilt)).tolist() == [0] * 16 + [1] * 16
    varied = [0] * 4 + [4] * (FEWEST - 1) + [0] * 5 + [4] * 2 + [0] * 2  # returns to A and B differ
    assert sections_of(np.array(varied)).tolist() == [0] * 8 + [1] * 8


def test_sections_are_counted_from_the_first_downbeat():
    for before, at, bar in (
        ("", 0, 0),
        ("", 24, 0),
        ("", 48, 1),
        ("bar bar ", 0, 2),
        ("bar ", 72, 2),
    ):
        text = f"begin lead {before}bar lead at_{at} length_24 loudness_9 pitch_72 bar end"
        ids = np.array([LANGUAGE.vocabulary.id(name) for name in text.split()])
        assert first_downbeat(sheet_of(ids)) == bar
    back = np.array([0] * 9 + [8] * 8)
    assert sections_of(back, 1).tolist() == [0] * 17
    assert np.flatnonzero(phrases_of(back, 1)).tolist() == [0, 1, 9]
    assert sections_of(np.zeros(2 * LONGEST + 1, int), 1).tolist() == [0] * (LONGEST + 1) + [1] * 8


@given(st.lists(st.integers(0, 20), max_size=60))
def test_sections_are_numbered_in_the_order_of_their_beginning(back: list[int]):
    sections = sections_of(np.minimum(back, np.arange(len(back))).astype(int))
    first = [sections.tolist().index(one) for one in range(sections.max(initial=-1) + 1)]
    assert first == sorted(first)
    assert not len(back) or first[0] == 0


def test_several_parts_have_different_roles_and_one_part_has_none_unless_it_is_a_bass():
    parts = np.array([BASS, GUITAR, STRINGS, PIANO])
    band = Arrangement.of(parts, np.ones(4, bool), np.array([0] * 4 + [4] * 4 + [0] * 4))
    assert band.role[0].tolist() == [LOW, MOVES, HOLDS, CHORDS]
    assert band.role[-1].tolist() == [WALKS, CHORDS, HOLDS, MOVES]  # in the second section
    for bar, roles in enumerate(band.role):
        assert len({*band.middle[bar, 1:].tolist()}) == 3
        high = bar >= 8
        assert band.middle[bar, roles == CHORDS] == band.middle[0, 3] + 12 * high
    alike = Arrangement.of(np.array([PIANO] * 3), np.ones(3, bool), np.zeros(4, int))
    assert len({*alike.role[0].tolist()}) == 3
    pads = Arrangement.of(np.array([STRINGS, PIANO, STRINGS]), np.ones(3, bool), np.zeros(4, int))
    assert pads.middle[0, 2] > pads.middle[0, 0]  # of the same role
    alone = Arrangement.of(parts, np.array([True, False, False, True]), np.zeros(4, int))
    assert (alone.role == [LINE, NO_ROLE, NO_ROLE, NO_ROLE]).all()


@pytest.mark.parametrize(("part", "role"), [(PIANO, CHORDS), (PART_NAMES.index("flute"), NO_ROLE)])
def test_one_part_plays_chords_to_a_melody_if_it_can(part: int, role: int):
    parts, written = np.array([PIANO, part]), np.array([False, True])
    found = Arrangement.of(parts, written, np.zeros(4, int), to_melody=True)
    assert (found.role == [NO_ROLE, role]).all()


def test_given_tones_and_chords_are_summed_over_spans():
    ids = "begin chords lead bar chords at_0 chord_C_M at_48 chord_G_7 lead at_0 length_24 loudness_9 pitch_60 end"
    found = Given.of(sheet_of(np.array([LANGUAGE.vocabulary.id(name) for name in ids.split()])))
    spans = np.array([0, 12, 36]), np.array([24, 24, 24])
    clashing, outside, unrooted, seventh = found.shares(*spans)
    assert clashing[:, 11].tolist() == clashing[:, 1].tolist() == [1, 0.5, 0]
    assert not clashing[:, [0, 2, 10]].any()
    assert seventh[:, 5].tolist() == [0, 0, 0.5]
    assert not np.delete(seventh, 5, axis=1).any()
    words = ids.replace("pitch_60", "pitch_60 pitch_71").replace("lead", "piano")
    both = Given.of(sheet_of(np.array([LANGUAGE.vocabulary.id(name) for name in words.split()])))
    clashing, *_ = both.shares(np.array([0]), np.array([24]))
    assert np.flatnonzero(clashing[0]).tolist() == [1, 10]  # C and B are given themselves
    assert outside[:, 5].tolist() == [1, 1, 0.5]  # F, in G7 but not in C
    assert unrooted[:, 0].tolist() == [0, 0, 0.5]
    assert (found.shares(np.array([500]), np.array([24]))[0] == 0).all()  # after the end


BAND = ["bass", "guitar", "strings", "electric piano"]


def bias(
    words: str, free: bool = False, second: bool = False, chord: str = "C_M", melody: int = 72
) -> dict[str, float]:
    """Return the nats of each token after these words, in a bar of C major with the melody C, or others.

    It begins the piece, or a second section.
    """
    bar = "bar chords at_0 chord_{} lead at_0 length_96 loudness_9 pitch_{}"
    before = 8 if second else 0
    bars = [bar.format("F_M", 77)] * before + [bar.format(chord, melody)]
    ids = np.array(
        [LANGUAGE.vocabulary.id(n) for n in f"begin chords lead {' '.join(bars)} end".split()]
    )
    plan = LANGUAGE.plan({"players": 1}, len(bars))  # so that any part can come first
    goal = LANGUAGE.accompanying(ids, BAND, plan=plan, free=free)
    grammar = goal.grammar.select(np.zeros(1, np.int64))
    grammar.take(goal.prompt)
    for rest in (*[True] * before, False):
        while (only := np.flatnonzero(grammar.allowed()[0])).size == 1:  # what is given
            grammar.advance(only)
        if rest:
            grammar.advance(grammar.instead(np.array([BAR])))
    for name in words.split():
        token = LANGUAGE.vocabulary.id(name)
        assert grammar.allowed()[0, token], name
        grammar.advance(np.array([token]))
    found = grammar.bias()
    names = LANGUAGE.vocabulary.names
    return dict.fromkeys(names, 0.0) if found is None else dict(zip(names, found[0], strict=True))


def test_pitches_of_the_chord_are_preferred_and_the_bass_prefers_the_root():
    bass = bias("electric_bass at_0 length_24 loudness_8")
    assert bass["pitch_36"] == 0 > bass["pitch_31"] > bass["pitch_38"]
    assert bass["pitch_24"] < 0  # below the lowest string
    guitar = bias("electric_guitar at_0 length_24 loudness_8")
    assert guitar["pitch_55"] == guitar["pitch_60"] == 0 > guitar["pitch_57"]
    assert guitar["pitch_57"] > guitar["pitch_59"]  # a semitone from the melody
    passing = bias("electric_guitar at_12 length_12 loudness_8")
    assert 0 > passing["pitch_57"] > guitar["pitch_57"]
    free = bias("electric_bass at_0 length_24 loudness_8", free=True)
    assert not any(free.values())


def test_a_bass_begins_on_the_bar_line_and_walks_through_the_chord_in_the_second_section():
    first, second = (bias("electric_bass", second=one) for one in (False, True))
    assert first["at_0"] == second["at_0"] == 0 > first["at_12"] == second["at_12"]
    held, walks = (bias("electric_bass at_0", second=one) for one in (False, True))
    assert held["length_96"] == walks["length_12"] == 0 > held["length_12"]
    assert walks["length_96"] < 0
    note = "length_24 loudness_8"
    played = f"electric_bass at_0 {note}", f"electric_bass at_0 {note} pitch_48 at_24"
    line, within = (bias(words, second=True) for words in played)
    assert line["pitch_48"] == 0 > line["pitch_43"]
    assert within["pitch_43"] > line["pitch_43"]
    assert within["pitch_48"] < 0


def test_a_part_that_holds_prefers_long_notes_and_one_that_moves_short_ones():
    strings, guitar = bias("strings at_0"), bias("electric_guitar at_0")
    assert strings["length_96"] == strings["length_48"] == 0 > strings["length_24"]
    assert guitar["length_24"] == guitar["length_6"] == 0 > guitar["length_96"]


def test_new_parts_begin_with_the_given_ones():
    words = "begin lead bar lead at_72 length_24 loudness_9 pitch_72 bar lead at_0 pitch_72 end"
    ids = np.array([LANGUAGE.vocabulary.id(name) for name in words.split()])
    goal = LANGUAGE.accompanying(ids, ["piano"])
    grammar = goal.grammar.select(np.zeros(1, np.int64))
    grammar.take(goal.prompt)
    while (only := np.flatnonzero(grammar.allowed()[0])).size == 1:
        grammar.advance(only)
    grammar.advance(np.array([LANGUAGE.vocabulary.id("piano")]))
    nats = grammar.bias()[0]
    assert nats[LANGUAGE.vocabulary.id("at_48")] < -5
    assert nats[LANGUAGE.vocabulary.id("at_72")] == 0


def test_a_note_lasts_for_as_long_as_a_tone_fits_the_chords():
    common, apart = (
        bias("strings at_0", chord=f"C_M at_48 chord_{other}") for other in ("A_m", "F#_M")
    )
    assert common["length_48"] == apart["length_48"] == common["length_96"] == 0
    assert apart["length_96"] < -1


def test_a_part_that_moves_goes_on_to_other_tones_of_the_chord():
    first = bias("electric_guitar at_0 length_24 loudness_8")
    second = bias("electric_guitar at_0 length_24 loudness_8 pitch_60 at_24")
    assert second["pitch_60"] < first["pitch_60"] == 0
    assert second["pitch_55"] == 0
    held = bias("strings at_0 length_24 loudness_8 pitch_64 at_24")
    assert held["pitch_64"] == 0


def test_a_part_that_holds_prefers_other_tones_of_the_chord_than_its_root():
    strings, piano = (
        bias(f"{part} at_0 length_96 loudness_8") for part in ("strings", "electric_piano")
    )
    assert strings["pitch_60"] < strings["pitch_64"] == 0
    assert piano["pitch_48"] == piano["pitch_52"] == 0


def test_a_long_note_outside_the_chord_is_worse_than_a_short_one():
    short, long, held = (
        bias(f"strings at_0 length_{steps} loudness_8")["pitch_62"] for steps in (12, 24, 96)
    )
    assert 0 > short == long > held + 2


def test_a_seventh_that_nobody_has_is_favoured_outside_the_bass():
    piano, bass = (
        f"{part} at_0 length_96 loudness_8" for part in ("electric_piano", "electric_bass")
    )
    asked = bias(piano, chord="C_7")
    assert asked["pitch_58"] > asked["pitch_55"] == 0
    strings = f"strings at_0 length_96 loudness_8 pitch_58 {piano}"
    given_one = bias(piano, chord="C_7", melody=70)
    for one in (bias(strings, chord="C_7"), given_one):  # it has been played, or is in the melody
        assert one["pitch_58"] == one["pitch_55"] == 0
    assert bias(bass, chord="C_7")["pitch_34"] < 0


def test_a_part_avoids_more_notes_at_once_than_it_has_voices():
    first, second = (bias(f"strings at_0 length_96 loudness_8{more}") for more in ("", " pitch_60"))
    assert second["pitch_64"] < first["pitch_64"] - 2
    assert second["length_120"] < -2 > second["loudness_9"]
    piano = bias("electric_piano at_0 length_24 loudness_8 pitch_48")
    assert piano["pitch_52"] > 0  # its chord is not full yet


def test_new_pitches_avoid_a_crowd_and_doubled_ones_do_not():
    held = "electric_bass at_0 length_96 loudness_8 pitch_36"
    held += " electric_guitar at_0 length_96 loudness_8 pitch_48 pitch_50 pitch_52 pitch_55"
    found = bias(f"{held} electric_piano at_0 length_24 loudness_8")
    alone = bias("electric_piano at_0 length_24 loudness_8")
    assert found["pitch_60"] < alone["pitch_60"]
    assert found["pitch_55"] == alone["pitch_55"]
    later = bias(
        f"{held} electric_piano at_0 length_24 loudness_8".replace("length_96", "length_6")
    )
    assert found["pitch_60"] < later["pitch_60"] <= alone["pitch_60"]


def test_bars_of_new_parts_return_where_the_given_ones_do_unless_a_form_is_asked_for():
    ids = tune("ABA")
    goal = LANGUAGE.accompanying(ids, BAND)
    assert goal.sources == {bar: bar - 8 for bar in range(8, 12)}
    plan = LANGUAGE.plan({"form": "A A B"}, 12)
    assert LANGUAGE.accompanying(ids, BAND, plan=plan).sources == {}
    said = [LANGUAGE.vocabulary.names[token] for token in goal.prompt]
    assert not any(name.startswith("return") for name in said)  # the first bar
