"""Generation may say events of one time in any order: what comes out is still music, and spelled in the valid way."""

import numpy as np
import pytest

from tests.tokenization.grammar_cases import advance, ids_of, take, written
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

GROOVE = Groove()
ID = VOCABULARY.id
LONGEST = (30, 1, 70)  # of bass, drums, other
TOKENS = np.arange(len(VOCABULARY))
# Few pitches, so that much happens on each.
FEW = (NOTE_ON.holds(TOKENS) & ((TOKENS - NOTE_ON.start) % PITCHES < 4)) | (
    (NOTE_OFF.start <= TOKENS) & (TIME_SHIFT.stop > TOKENS)
)


def drawn(
    seed: int, length: int, grammar: GrooveGrammar | None = None, first: tuple = (BEGIN,)
) -> np.ndarray:
    """Return some first tokens and random ones after them, all as the free grammar allows."""

    def few(random: np.random.Generator, allowed: np.ndarray) -> int:
        return int(random.choice(allowed[FEW[allowed]]))

    prompt = np.array(first)
    return written(grammar or GROOVE.grammar(), prompt, seed, END, few, len(first) + length)


def names_allowed(grammar: GrooveGrammar) -> list[str]:
    return [VOCABULARY.names[token] for token in np.flatnonzero(grammar.allowed()[0])]


def after(text: str, grammar: GrooveGrammar | None = None) -> GrooveGrammar:
    """Return a grammar after some tokens that it allows."""
    grammar = grammar or GROOVE.grammar()
    advance(grammar, ids_of(GROOVE, text))
    return grammar


def taken(grammar: GrooveGrammar, name: str) -> str:
    """Return what a grammar takes for a token that it allows."""
    assert grammar.allowed()[0, ID(name)]
    token = grammar.instead(np.array([ID(name)]))
    grammar.advance(token)
    return VOCABULARY.names[int(token[0])]


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
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_generated_closes_to_a_valid_spelling_of_its_notes(seed: int, longest):
    ids = drawn(seed, 150, GROOVE.grammar(longest_ticks=longest))
    closed = GROOVE.close(ids)
    assert GROOVE.validate(closed) is None
    assert closed[-1] == END
    assert NOTE_ON.holds(closed).sum() == NOTE_ON.holds(ids).sum()
    assert (GROOVE.notes(closed).duration_ticks >= 1).all()
    ended, all_notes = (
        {tuple(row) for row in np.array(GROOVE.notes(tokens).columns).T.tolist()}
        for tokens in (ids, closed)
    )
    assert ended <= all_notes
    take(GROOVE.grammar(), closed)  # which may be written as it is


def test_order_is_free_and_the_rest_is_not():
    text = "begin note_on_1_40 note_on_0_60 time_shift_0_3 note_on_2_70 time_shift_0_3"
    free = names_allowed(after(text))
    assert {"note_off_0_60", "note_on_0_30"} <= {*free}  # whatever came before at this time
    assert not {"note_off_2_70", "note_off_0_61"} & {*free}  # of no length; silent
    strict = names_allowed(after(text, StrictGrammar()))
    assert not {"note_off_0_60", "note_on_0_30"} & {*strict}


@pytest.mark.parametrize("seed", range(5))
def test_no_note_sounds_longer_than_its_track_may(seed: int):
    _, track, ticks = sounded_ticks(drawn(seed, 200, GROOVE.grammar(longest_ticks=LONGEST)))
    assert (ticks <= np.array(LONGEST)[track]).all()
    assert (ticks[track == 1] == 1).any()
    _, track, ticks = sounded_ticks(drawn(seed, 200))
    assert (ticks > np.array(LONGEST)[track]).any()


@pytest.mark.parametrize("seed", range(8))
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


def test_a_shift_past_the_end_that_a_note_must_have_is_cut_short_there():
    grammar = after(
        "begin note_on_0_40 note_on_1_36 time_shift_0_2 note_on_1_38 time_shift_0_2 note_on_2_60",
        GROOVE.grammar(longest_ticks=(40, 4, 26)),
    )
    assert taken(grammar, "time_shift_1_3") == "time_shift_0_4"  # 36 began at 0
    assert names_allowed(grammar) == ["note_off_1_36"]
    assert taken(grammar, "note_off_1_36") == "note_off_1_36"
    assert taken(grammar, "time_shift_2_0") == "time_shift_0_6"  # 38 at 2
    assert names_allowed(grammar) == ["note_off_1_38"]
    taken(grammar, "note_off_1_38")
    assert taken(grammar, "time_shift_1_11") == "time_shift_1_11"  # to 23
    taken(grammar, "note_off_0_40")
    assert taken(grammar, "time_shift_1_5") == "time_shift_1_4"  # 60 at 2: to 28
    assert names_allowed(grammar) == ["note_off_2_60"]


@pytest.mark.parametrize("seed", range(3))
def test_notes_are_not_doubled_and_no_more_sound_at_once_than_in_any_data(seed: int):
    ids = drawn(seed, 600)
    reading = Reading(ids)
    on = reading.is_on
    begun = np.stack([reading.time_ticks[reading.event_places][on], reading.key[on]], 1)
    assert len(np.unique(begun, axis=0)) == len(begun) > 50
    assert most_sounding(ids) == [2, 6, 10]


def most_sounding(ids: np.ndarray) -> list[int]:
    """Return how many notes of each track sound at once at most."""
    reading = Reading(ids)
    track, change = reading.key // PITCHES, np.where(reading.is_on, 1, -1)
    return [int((change * (track == t)).cumsum().max()) for t in range(3)]


def test_a_prompt_of_fuller_chords_is_gone_on_with_in_such():
    chord = [BEGIN, *(ID(f"note_on_0_{pitch}") for pitch in (40, 47, 52))]
    grammar = GROOVE.grammar(prompt_tokens=len(chord))
    assert most_sounding(drawn(1, 600, grammar, tuple(chord))) == [3, 6, 10]
