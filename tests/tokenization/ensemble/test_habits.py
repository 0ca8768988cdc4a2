"""Parts go on as they did: what habits are found, and which tokens they favour."""

from functools import cache

import numpy as np
import pytest

from musicgen.pieces import Prompt, empty_prompt, read_piece
from tests.tools.measure.bands import big_band, organ_blues
from tokenization.analysis.chords import CHORDS
from tokenization.ensemble.habits import APART, habits_of, in_key, strange
from tokenization.ensemble.habitual import PATTERN
from tokenization.ensemble.sequences import bar_offsets, plain
from tokenization.ensemble.spelling import Reading
from tokenization.ensemble.tokens import AT, BAR, CHORD, HARMONY_ID, PITCH, VOCABULARY
from tokenization.grammar import Grammar
from tokenization.language import language

LANGUAGE = language("ensemble")


@cache
def prompt(big: bool) -> Prompt:
    data = big_band() if big else organ_blues()
    return read_piece(LANGUAGE, data, name="band.mid").prompt()


def grammar(big: bool, *, bars: int = 16, **more) -> Grammar:
    """Return the grammar after a prompt."""
    given = prompt(big)
    found = LANGUAGE.grammar(
        given.ids, prompt_bars=given.bars, bars=bars, **{"free": False, **more}
    )
    found.take(given.ids)
    return found


def nats(found: Grammar) -> np.ndarray:
    (row,) = found.bias()
    return row


def write(found: Grammar, *names: str) -> None:
    for name in names:
        token = np.array([VOCABULARY.id(name)])
        assert found.allowed()[0, token], name
        found.advance(token)


def sheet(big: bool):
    ids = plain(prompt(big).ids)
    return Reading(ids[: bar_offsets(ids)[-2]]).sheet()


def test_sections_that_move_together_are_found():
    found = habits_of(sheet(True), True, np.zeros(0), np.zeros(0))
    # The chords come first, then five saxes, of which the last one doubles the third, and four brass.
    assert found.leader[1:10].tolist() == [-1, 1, 1, 1, 3, -1, 6, 6, 6]
    assert [part for part in range(len(found.above)) if found.above[part] != APART] == [5]
    assert (found.leader[10:] == -1).all()  # even if the bass walks on the beats of the guitar


@pytest.mark.parametrize("big", [True, False])
def test_twelve_bar_forms_are_found(big):
    assert habits_of(sheet(big), True, np.zeros(0), np.zeros(0)).form == 12


def test_the_chord_of_the_form_is_favoured():
    found = grammar(True)
    write(found, "chords", "at_0")
    best = int(nats(found)[CHORD.start : CHORD.stop].argmax())
    first = sheet(True)
    own = (first.parts[first.part] == HARMONY_ID - VOCABULARY["part"].start) & (first.bar == 12)
    assert best == first.value[own][0]


def test_a_section_enters_together_and_in_one_rhythm():
    found = grammar(True)
    write(found, "alto_sax")
    write(found, "at_20", "length_12", "loudness_10", "pitch_67")
    row = nats(found)
    assert row[BAR] < row[VOCABULARY.id("alto_sax")]
    assert row[VOCABULARY.id("tenor_sax")] < row[VOCABULARY.id("alto_sax")]  # it skips the second
    write(found, "alto_sax", "voice_2")
    places = nats(found)[AT.start : AT.stop]
    assert places.argmax() == 20
    assert (places == places.max()).sum() == 1


def test_a_double_goes_on_with_the_notes_of_its_part():
    bar = "bar violin at_0 length_24 loudness_8 pitch_{0} pitch_{1} at_24 pitch_{0}"
    bar += " cello at_0 length_24 loudness_8 pitch_{2} pitch_{3} at_24 pitch_{2}"
    bars = [bar.format(60 + n, 64 + n, 48 + n, 52 + n) for n in range(8)]
    ids = np.array(
        [VOCABULARY.id(name) for name in f"begin violin cello {' '.join(bars)} bar".split()]
    )
    found = LANGUAGE.grammar(ids, prompt_bars=8, bars=4, free=False)
    found.take(ids)
    new = "violin at_0 length_24 loudness_8 pitch_62 pitch_65 cello at_0 length_24 loudness_8"
    write(found, *new.split())
    row = nats(found)[PITCH.start : PITCH.stop]
    assert row[50] == row[53] > row[51] + 5
    write(found, "pitch_50")
    row = nats(found)
    assert row[PITCH.start + 53] > max(row[BAR], row[AT.start + 24], row[PITCH.start + 55]) + 5


def test_a_rhythm_without_exceptions_is_kept_more_strictly():
    found = grammar(True)
    write(found, "alto_sax", "at_0", "length_12", "loudness_10", "pitch_67")
    kept = nats(found)[AT.start + 40] - nats(found)[AT.start + 36]
    exact, loose = [(60,)] * 4, [(60,)] * 3
    assert habits_of_piano(exact, exact, exact, exact).exact == [1]
    assert habits_of_piano(*[exact] * 9, loose).exact == [0]
    assert kept == PATTERN[2] > PATTERN[1] > PATTERN[0]


def test_pitches_far_outside_a_part_are_disfavoured():
    found = grammar(False)
    write(found, "distorted_guitar", "at_0", "length_12", "loudness_10")
    row = nats(found)[PITCH.start : PITCH.stop]
    assert row[52] > row[90]


def habits_of_piano(*bars: list[tuple[int, ...]]):
    """Return the habits of a piano that plays chords, one a beat."""
    text = "begin piano " + " ".join(
        "bar piano "
        + " ".join(
            f"at_{24 * beat} length_24 loudness_8 " + " ".join(f"pitch_{p}" for p in chord)
            for beat, chord in enumerate(chords)
        )
        for chords in bars
    )
    given = Reading(np.array([VOCABULARY.id(name) for name in text.split()])).sheet()
    return habits_of(given, True, np.zeros(0), np.zeros(0))


def test_a_range_is_wider_where_it_has_grown():
    low, high = [(60,), (62,), (64,), (60,)], [(72,), (71,), (72,), (74,)]
    settled, grown = habits_of_piano(low, high, low, high), habits_of_piano(low, low, high, high)
    for side, sign in (("low", 1), ("high", -1)):
        assert sign * getattr(settled, side)[0] > sign * getattr(grown, side)[0]
    assert settled.floor[0] == -1  # one voice


def test_the_top_line_stays_where_it_was():
    chords = [(40, 72), (45, 74), (43, 76), (40, 77)]
    found = habits_of_piano(chords, chords)
    assert found.low[0] < 40
    assert 60 < found.floor[0] < 72


def test_a_part_of_several_voices_goes_as_deep_as_before_in_each_bar():
    chords = [(40, 72), (45, 74), (57, 76), (60, 77)]
    assert 40 <= habits_of_piano(chords, chords).depth[0] < 45
    assert habits_of_piano(*[[(60,), (62,), (64,), (65,)]] * 3).depth[0] == len(PITCH)  # one voice
    text = (
        "begin piano" + " bar piano at_0 length_24 loudness_8 pitch_40 at_24 pitch_72 pitch_76" * 8
    )
    ids = np.array([VOCABULARY.id(name) for name in (text + " bar").split()])
    found = LANGUAGE.grammar(ids, prompt_bars=8, bars=4, free=False)
    found.take(ids)
    write(found, "piano", "at_0", "length_24", "loudness_8")
    write(found, "pitch_60", "at_24")
    high = nats(found)[PITCH.start : PITCH.stop]
    write(found, "pitch_40")
    low = nats(found)[PITCH.start : PITCH.stop]
    assert high[40] == high[41] > high[60]
    assert low[41] == low[60]


def test_one_voice_may_leap_once_more_than_before():
    rise, fall = (60, 62, 64, 65, 67, 69, 71, 72), (71, 69, 67, 65, 64, 62, 60, 62)
    text = "begin flute"
    for pitches in (rise[:4], rise[4:], fall[:4], fall[4:]):
        text += " bar flute length_24 loudness_8"
        text += "".join(f" at_{24 * beat} pitch_{pitch}" for beat, pitch in enumerate(pitches))
    text = text.replace("length_24 loudness_8 at_0", "at_0 length_24 loudness_8") + " bar"
    ids = np.array([VOCABULARY.id(name) for name in text.split()])
    found = LANGUAGE.grammar(ids, prompt_bars=4, bars=4, free=False)
    found.take(ids)
    write(found, "flute", "at_0", "length_24", "loudness_8", "pitch_60", "at_24")
    assert nats(found)[PITCH.start + 67] == nats(found)[PITCH.start + 66]
    write(found, "pitch_67", "at_48")
    assert nats(found)[PITCH.start + 60] < nats(found)[PITCH.start + 61]


def test_habits_can_be_lifted():
    assert grammar(False, free=True).bias() is None


def test_rows_keep_their_habits_when_joined_and_selected():
    one, other = grammar(False), grammar(False)
    other = one.select(np.zeros(1, np.int64))
    write(other, "distorted_guitar")
    both = one.joined([other])
    rows = both.bias()
    assert np.array_equal(rows[:1], one.bias())
    assert np.array_equal(rows[1:], other.bias())
    assert np.array_equal(both.select(np.array([1])).bias(), other.bias())


@pytest.mark.parametrize("key", range(24))
def test_a_key_that_is_asked_for_favours_its_tonic(key):
    row = in_key(key)
    best = CHORDS[int(row[CHORD.start : CHORD.stop].argmax())]
    assert best.endswith("_m" if key > 11 else "_M")
    assert row[PITCH.start + 60 + key % 12] > row[PITCH.start + 60 + (key + 1) % 12]


def test_a_new_piece_opens_in_its_key():
    given = empty_prompt(LANGUAGE, {"style": "pop", "key": "G minor"})
    found = LANGUAGE.grammar(given.ids, bars=8, free=False)
    found.take(given.ids)
    assert CHORDS[int(nats(found)[CHORD.start : CHORD.stop].argmax())] == "G_m"


def test_music_that_leaves_its_key_is_called_home():
    idea = {"style": "pop", "key": "C major", "parts": ["piano", "piano"]}
    given = empty_prompt(LANGUAGE, idea)
    found = LANGUAGE.grammar(given.ids, bars=8, free=False)
    found.take(given.ids)
    before = nats(found)[PITCH.start : PITCH.stop]
    write(
        found, "piano", "at_0", "length_96", "loudness_8", "pitch_54", "pitch_58", "pitch_61", "bar"
    )
    after = nats(found)[PITCH.start : PITCH.stop]
    assert after[60] > before[60]  # C
    assert after[66] < before[66]  # F sharp


@pytest.mark.parametrize("drawn", [True, False])
def test_a_drawn_plan_does_not_lead_music_from_its_key(drawn):
    chord = "bar piano at_0 length_96 loudness_8 pitch_60 pitch_64 pitch_67 "
    ids = np.array([VOCABULARY.id(name) for name in f"begin piano {4 * chord}bar".split()])
    plan = LANGUAGE.plan({"register": 70}, 4) if drawn else None
    found = LANGUAGE.grammar(ids, prompt_bars=4, bars=4, plan=plan, free=False)
    found.take(ids)
    before = nats(found)[PITCH.start : PITCH.stop]
    while not found.allowed()[0, VOCABULARY.id("piano")]:  # the bar states its plan
        found.advance(found.allowed()[0].argmax(keepdims=True))
    write(
        found, "piano", "at_0", "length_96", "loudness_8", "pitch_58", "pitch_61", "pitch_66", "bar"
    )
    after = nats(found)[PITCH.start : PITCH.stop]
    assert (after[60] > before[60]) == (after[66] < before[66]) == drawn


@pytest.mark.parametrize(
    ("lengths", "more", "against"),
    [
        (1, "", 0),  # a score modulates
        (6, "", 0.25),  # a performance
        (1, "drums at_0 drum_36 ", 0.25),  # a band
    ],
)
def test_music_that_is_no_score_keeps_to_the_given_pitch_classes(lengths, more, against):
    names = [name for name in VOCABULARY.names if name.startswith("length_")]
    bars = (f"bar piano at_0 {names[n % lengths]} pitch_60 pitch_64 {more}" for n in range(12))
    text = f"begin piano {more and 'drums '}{''.join(bars)}bar"
    ids = np.array([VOCABULARY.id(name) for name in text.split()])
    found = strange(Reading(ids[: bar_offsets(ids)[-2]]).sheet(), is_pulled=False)
    assert found[PITCH.start + 66] == -against
    assert found[PITCH.start + 60] == 0


@pytest.mark.parametrize("metre", ["4/4", "5/4"])
def test_new_pieces_in_five_four_go_on_to_the_fifth_beat(metre):
    given = empty_prompt(LANGUAGE, {"key": "C major", "metre": metre})
    found = LANGUAGE.grammar(given.ids, prompt_bars=0, bars=4, free=False)
    found.take(given.ids)
    write(found, "piano", "at_78", "length_12", "loudness_10", "pitch_67")
    row = nats(found)
    if metre == "4/4":
        assert row[AT.start + 84] == row[BAR]
        return
    assert row[AT.start + 96] > row[AT.start + 84] > row[BAR]
    write(found, "at_96", "pitch_67")
    row = nats(found)
    assert row[BAR] > row[AT.start + 108]  # it plays more in it than in those before


@pytest.mark.parametrize(("bars", "notes"), [(4, 4), (8, 8), (2, 4)])
def test_parts_that_play_about_once_a_bar_have_habits(bars, notes):
    def judged(count: int) -> list[bool]:
        each = [count // bars + (bar < count % bars) for bar in range(bars)]
        return habits_of_piano(*[[(60,)] * n for n in each]).judged.tolist()

    assert judged(notes) == [True]
    assert judged(notes - 1) == [False]
