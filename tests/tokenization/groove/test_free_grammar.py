"""Generation may say events of one time in any order: what comes out is still music, and spelled in the valid way."""

import numpy as np
import pytest

from tests.tokenization.groove.strict import StrictGrammar
from tokenization.groove.grammar import GrooveGrammar
from tokenization.groove.language import Groove
from tokenization.groove.spelling import (
    BAR_TICKS,
    BEGIN,
    END,
    NOTE_OFF,
    NOTE_ON,
    PITCHES,
    TIME_SHIFT,
    VOCABULARY,
    Reading,
)
from tokenization.score import Notes

GROOVE = Groove()
ID = VOCABULARY.id
LONGEST = (30, 1, 70)  # of bass, drums, other
FEW = np.zeros(len(VOCABULARY), dtype=bool)  # few pitches, so that much happens on each
FEW[[NOTE_ON.start + track * PITCHES + pitch for track in range(3) for pitch in range(4)]] = True
FEW[NOTE_OFF.start : TIME_SHIFT.stop] = True


def drawn(
    seed: int, length: int, grammar: GrooveGrammar | None = None, first: tuple = (BEGIN,)
) -> np.ndarray:
    """Return some first tokens and random ones after them, all as the free grammar allows."""
    random = np.random.default_rng(seed)
    grammar, ids = grammar or GROOVE.grammar(), []
    for place in range(len(first) + length):
        allowed = grammar.allowed()[0]
        if place < len(first):
            token = np.array([first[place]])
            assert allowed[token]
        else:
            token = grammar.instead(random.choice(np.flatnonzero(allowed & FEW), 1))
        grammar.advance(token)
        ids.append(int(token[0]))
    return np.array(ids)


def sounded_ticks(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the onset of each note, its track, and how long it has sounded by its end or that of the ids."""
    reading = Reading(ids)
    time = reading.time_ticks[reading.event_places]
    end = np.full(len(time), reading.time_ticks[-1])
    begin, stop = reading.complete
    end[begin] = time[stop]
    on = reading.is_on
    return time[on], reading.key[on] // PITCHES, (end - time)[on]


@pytest.mark.parametrize("longest", [None, LONGEST])
@pytest.mark.parametrize("seed", range(25))
def test_whatever_is_generated_closes_to_a_valid_spelling_of_its_notes(seed: int, longest):
    ids = drawn(seed, 150, GROOVE.grammar(longest_ticks=longest))
    closed = GROOVE.close(ids)
    assert GROOVE.validate(closed) is None
    assert closed[-1] == END
    begun, kept = NOTE_ON.holds(ids).sum(), NOTE_ON.holds(closed).sum()
    assert kept == begun
    assert (GROOVE.notes(closed).duration_ticks >= 1).all()
    event_places = GROOVE.notes(ids)  # those that ended by themselves
    ours = {tuple(row) for row in np.array(event_places.columns).T.tolist()}
    assert ours <= {tuple(row) for row in np.array(GROOVE.notes(closed).columns).T.tolist()}


def test_order_is_free_and_the_rest_is_not():
    before = ["begin", "note_on_1_40", "note_on_0_60", "time_shift_0_3", "note_on_2_70"]
    grammar = GROOVE.grammar()
    for name in before:
        assert grammar.allowed()[0, ID(name)]
        grammar.advance(np.array([ID(name)]))
    grammar.advance(np.array([ID("time_shift_0_3")]))
    allowed = grammar.allowed()[0]
    assert allowed[ID("note_off_0_60")]  # after a note-on of the same time
    assert allowed[ID("note_on_0_30")]  # lower than the last
    assert not allowed[ID("note_off_2_70")]  # it would last no time
    assert not allowed[ID("note_off_0_61")]  # silent
    strict = StrictGrammar()
    for name in [*before, "time_shift_0_3"]:
        strict.advance(np.array([ID(name)]))
    assert not strict.allowed()[0, ID("note_off_0_60")]


def test_every_valid_sequence_is_free_too():
    ids = GROOVE.close(drawn(7, 200))
    grammar = GROOVE.grammar()
    for token in ids:
        assert grammar.allowed()[0, token]
        assert grammar.instead(np.array([token])) == token
        grammar.advance(np.array([token]))


@pytest.mark.parametrize("seed", range(25))
def test_no_note_sounds_longer_than_its_track_may(seed: int):
    _, track, ticks = sounded_ticks(drawn(seed, 200, GROOVE.grammar(longest_ticks=LONGEST)))
    assert (ticks <= np.array(LONGEST)[track]).all()
    assert (ticks[track == 1] == 1).any()
    _, track, ticks = sounded_ticks(drawn(seed, 200))
    assert (ticks > np.array(LONGEST)[track]).any()


@pytest.mark.parametrize("seed", range(25))
def test_no_note_begins_before_the_bar_after_a_prompt(seed: int):
    piece = GROOVE.close(drawn(seed, 150))
    bars = 1 + seed % (len(GROOVE.bars(piece)) - 1)
    prompt = piece[: GROOVE.bars(piece)[bars]]
    grammar = GROOVE.grammar(prompt_tokens=len(prompt), prompt_bars=bars, longest_ticks=LONGEST)
    onset, track, ticks = sounded_ticks(drawn(seed, 150, grammar, tuple(prompt)))
    line = bars * BAR_TICKS
    old = np.arange(len(onset)) < NOTE_ON.holds(prompt).sum()
    assert (onset[old] < line).all()
    assert (onset[~old] >= line).all()
    assert (~old).any()
    assert (ticks <= np.array(LONGEST)[track])[~old].all()
    # A note of the prompt may sound as long as it can have been written to.
    own = np.maximum(GROOVE.notes(piece).duration_ticks.max(), np.array(LONGEST)[track])
    assert (ticks <= np.maximum(own, line - onset))[old].all()


def test_notes_of_a_prompt_may_sound_to_its_end():
    prompt = ["begin", "note_on_0_40", "time_shift_2_0", "note_on_1_36"]

    def behind(bars: int) -> GrooveGrammar:
        grammar = GROOVE.grammar(prompt_tokens=4, prompt_bars=bars, longest_ticks=(5, 1, 70))
        for name in prompt:
            assert grammar.allowed()[0, ID(name)]  # longer than notes of the bass may be
            grammar.advance(np.array([ID(name)]))
        return grammar

    assert np.flatnonzero(behind(0).allowed()[0]).tolist() == [ID("note_off_0_40")]
    to_the_line = behind(1)
    assert to_the_line.allowed()[0, ID("time_shift_2_0")]
    assert to_the_line.instead(np.array([ID("time_shift_2_0")])) == ID("time_shift_2_0")
    assert not to_the_line.allowed()[0, NOTE_ON.start : NOTE_ON.stop].any()
    to_the_line.advance(np.array([ID("time_shift_2_0")]))
    ends = [ID("note_off_0_40"), ID("note_off_1_36")]
    assert np.flatnonzero(to_the_line.allowed()[0]).tolist() == ends


def test_a_shift_past_the_end_that_a_note_must_have_is_cut_short_there():
    grammar = GROOVE.grammar(longest_ticks=(40, 4, 26))
    told = ["note_on_0_40", "note_on_1_36", "time_shift_0_2", "note_on_1_38", "note_on_2_60"]
    for name in ["begin", *told[:4], "time_shift_0_2", told[4]]:
        grammar.advance(np.array([ID(name)]))

    def taken(name: str) -> str:
        assert grammar.allowed()[0, ID(name)]
        token = grammar.instead(np.array([ID(name)]))
        grammar.advance(token)
        return VOCABULARY.names[int(token[0])]

    def possible() -> list[str]:
        return [VOCABULARY.names[i] for i in np.flatnonzero(grammar.allowed()[0])]

    assert taken("time_shift_1_3") == "time_shift_0_4"  # 36 began at 0
    assert possible() == ["note_off_1_36"]
    assert taken("note_off_1_36") == "note_off_1_36"
    assert taken("time_shift_2_0") == "time_shift_0_6"  # 38 at 2
    assert possible() == ["note_off_1_38"]
    taken("note_off_1_38")
    assert taken("time_shift_1_11") == "time_shift_1_11"  # to 23
    taken("note_off_0_40")
    assert taken("time_shift_1_5") == "time_shift_1_4"  # 60 at 2: to 28
    assert possible() == ["note_off_2_60"]


def test_notes_that_must_end_off_the_beat_together_take_a_shift_each():
    grammar = GROOVE.grammar(longest_ticks=(5, 5, 5))
    for name in ("begin", "note_on_0_40", "note_on_2_60"):
        grammar.advance(np.array([ID(name)]))
    grammar.advance(grammar.instead(np.array([ID("time_shift_1_0")])))
    grammar.advance(np.array([ID("note_off_2_60")]))
    assert np.flatnonzero(grammar.allowed()[0]).tolist() == [ID("time_shift_0_5")]
    assert grammar.instead(np.array([ID("time_shift_0_5")])) == ID("time_shift_0_5")
    grammar.advance(np.array([ID("time_shift_0_5")]))
    assert np.flatnonzero(grammar.allowed()[0]).tolist() == [ID("note_off_0_40")]


def test_after_a_prompt_a_key_begins_once_at_a_time():
    twice = [BEGIN, ID("note_on_2_60"), ID("note_on_2_60")]
    grammar = GROOVE.grammar(prompt_tokens=len(twice))
    for token in twice:  # a prompt may hold two
        assert grammar.allowed()[0, token]
        grammar.advance(np.array([token]))
    for _ in range(2):
        assert not grammar.allowed()[0, twice[1]]
        grammar.advance(np.array([ID("time_shift_1_0")]))
        assert grammar.allowed()[0, twice[1]]  # over what still sounds
        grammar.advance(np.array([ID("note_on_2_61")]))
        assert grammar.allowed()[0, twice[1]]
        assert not grammar.allowed()[0, ID("note_on_2_61")]
        grammar.advance(np.array(twice[1:2]))


@pytest.mark.parametrize("seed", range(10))
def test_no_two_of_what_is_generated_are_one_note(seed: int):
    ids = drawn(seed, 600)
    reading = Reading(ids)
    on = reading.is_on
    begun = np.stack([reading.time_ticks[reading.event_places][on], reading.key[on]], 1)
    assert len(np.unique(begun, axis=0)) == len(begun) > 50


def most_sounding(ids: np.ndarray) -> list[int]:
    """Return how many notes of each track sound at once at most."""
    reading = Reading(ids)
    track, change = reading.key // PITCHES, np.where(reading.is_on, 1, -1)
    return [int((change * (track == t)).cumsum().max()) for t in range(3)]


@pytest.mark.parametrize("seed", range(10))
def test_no_more_notes_of_a_track_sound_at_once_than_in_any_data(seed: int):
    assert most_sounding(drawn(seed, 600)) == [2, 6, 10]


def test_a_prompt_of_fuller_chords_is_gone_on_with_in_such():
    chord = [BEGIN, *(ID(f"note_on_0_{pitch}") for pitch in (40, 47, 52))]
    grammar = GROOVE.grammar(prompt_tokens=len(chord))
    ids = drawn(1, 600, grammar, tuple(chord))
    assert most_sounding(ids) == [3, 6, 10]


def test_rows_do_not_touch_each_other():
    def begun() -> GrooveGrammar:
        return GROOVE.grammar(longest_ticks=LONGEST)

    together, random = begun().select(np.zeros(3, dtype=np.int64)), np.random.default_rng(0)
    alone = [begun() for _ in range(3)]
    for _ in range(150):
        allowed = together.allowed()
        np.testing.assert_array_equal(allowed, np.concatenate([g.allowed() for g in alone]))
        wanted = allowed & FEW if allowed[:, BEGIN].sum() == 0 else allowed
        tokens = np.array([random.choice(np.flatnonzero(row)) for row in wanted])
        taken = together.instead(tokens)
        for grammar, token, expected in zip(alone, tokens, taken, strict=True):
            assert grammar.instead(np.array([token])) == expected
            grammar.advance(np.array([expected]))
        together.advance(taken)


def test_the_longest_notes_are_those_of_the_pieces_by_track():
    def piece(track: int, ticks: int, notes: int = 1) -> np.ndarray:
        same = np.ones(notes, dtype=np.int64)
        onset = 24 * np.arange(notes)
        return GROOVE.spell(Notes(onset, ticks * same, 40 * same, 0 * same, track * same))

    bass, drums, long = piece(0, 9), piece(1, 1), piece(0, 14)
    assert GROOVE.longest([bass, drums]) == [9, 1, 9]  # what was not seen is not bounded tighter
    assert GROOVE.longest([bass, drums, long]) == [14, 1, 14]
    assert GROOVE.longest([piece(0, 9, notes=20_000), drums, long]) == [9, 1, 9]  # rarer than 1e-4


@pytest.mark.parametrize("wrong", [(1, 2), (1, 0, 2)])
def test_limits_are_checked(wrong: tuple):
    with pytest.raises(ValueError, match="a tick or more for each of Bass, Drums, Other"):
        GROOVE.grammar(longest_ticks=wrong)


@pytest.mark.parametrize("seed", range(15))
def test_a_part_says_itself_how_long_its_notes_last(seed: int):
    """Counted anew from what was written: of each note, by those of its track that had ended by themselves."""
    most = (900, 5, 900)
    grammar = GrooveGrammar(prompt_tokens=1, start_ticks=0, longest_ticks=most, own_lengths=True)
    reading = Reading(drawn(seed, 1500, grammar))
    times = reading.time_ticks[reading.event_places].tolist()
    lengths: list[list[int]] = [[], [], []]
    sounding: dict[int, list[tuple[int, int]]] = {}  # by key: when each began and must end
    shortened = 0
    for time, key, is_on in zip(times, reading.key.tolist(), reading.is_on, strict=True):
        track, notes = key // PITCHES, sounding.setdefault(key, [])
        if is_on:
            last = sorted(lengths[track][-32:])
            usual = max(12, 2 * last[3 * (len(last) - 1) // 4]) if len(last) >= 4 else 900
            due = time + min(most[track], usual)
            shortened += usual < most[track]
            notes.append((time, max([due, *(other for _, other in notes)])))
        else:
            began, due = notes.pop(0)
            assert time <= due
            if time < due:
                lengths[track].append(time - began)
    assert shortened > 50


def test_a_younger_note_of_a_key_does_not_have_to_end_before_the_older_one():
    """Once notes are short: the long one that sounds ends first, since a note-off ends the oldest of its key."""
    grammar = GrooveGrammar(
        prompt_tokens=1, start_ticks=0, longest_ticks=(300, 5, 300), own_lengths=True
    )
    short = ["note_on_2_50", "time_shift_0_6", "note_off_2_50", "time_shift_1_0"]
    for name in ["begin", "note_on_2_60", *short * 4, "note_on_2_60"]:
        assert grammar.allowed()[0, ID(name)]
        grammar.advance(np.array([ID(name)]))
    for _ in range(200):  # nobody ends either by themselves
        allowed = np.flatnonzero(grammar.allowed()[0])
        assert len(allowed)
        far = [token for token in allowed if TIME_SHIFT.holds(np.array([token]))[0]]
        token = grammar.instead(np.array([far[-1] if far else allowed[0]]))
        grammar.advance(token)
        if grammar.time_ticks[0] > 600:
            return
    raise AssertionError("time stands still")
