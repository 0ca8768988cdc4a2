"""What is specific to groove: the tokens of the reference, losses, the arrangement as a trio, and the grammar."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.analysis.test_parts import BASS_LINE, CHORDS, KIT, TUNE, band
from tests.tokenization.grammar_cases import advance, ids_of, take, written
from tests.tokenization.groove.cases import (
    TRIO,
    golden_cases,
    golden_tokens,
    golden_trio,
    rows_of,
    trio_of,
)
from tests.tokenization.groove.cases import walk as random_piece
from tokenization.analysis.parts import note_counts
from tokenization.groove import spelling
from tokenization.groove.language import MOST_BEATS, Band, Groove, arrange, trios
from tokenization.score import Score, Track

GROOVE = Groove()
SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("case", golden_cases())
def test_tokens_match_the_reference_implementation(case):
    encoded = GROOVE.encode(golden_trio(case["notes"]))
    assert [spelling.VOCABULARY.names[i] for i in encoded.ids] == golden_tokens(case)
    decoded = GROOVE.decode(encoded.ids, encoded.setting)
    assert decoded.notes == golden_trio(case["decoded"]).notes.sorted()
    assert encoded.losses == {}


@pytest.mark.parametrize(
    ("notes", "tokens", "losses"),
    [
        ([(0, 0, 60, 64, 2)], "note_on_2_60 time_shift_0_1 note_off_2_60", {}),
        (
            [(0, 24, 60, 64, 2), (12, 6, 60, 64, 2)],
            "note_on_2_60 time_shift_1_0 note_on_2_60 time_shift_0_6 note_off_2_60 "
            "time_shift_1_0 note_off_2_60",
            {"overlapping on one pitch, closed first-in first-out": 2},
        ),
        (
            [(0, 12, 60, 64, 2)] * 9,
            "note_on_2_60 " * 8 + "time_shift_1_0" + " note_off_2_60" * 8,
            {"struck more than 8 times at once": 1},
        ),
        (
            [*[(0, 24, 36, 64, 1)] * 8, (12, 24, 36, 64, 1)],
            "note_on_1_36 " * 8 + "time_shift_1_0 note_off_1_36 note_on_1_36 time_shift_1_0"
            " note_off_1_36" + " note_off_1_36" * 6 + " time_shift_1_0 note_off_1_36",
            {"cut where the 8th note after it is struck": 1},
        ),
    ],
)
def test_changes_beyond_rounding_are_counted(notes, tokens, losses):
    encoded = GROOVE.encode(trio_of(notes))
    assert " ".join(GROOVE.text(encoded.ids).split()) == f"begin {tokens} end"
    assert encoded.losses == losses


def test_the_setting_keeps_instruments_loudness_and_tempo():
    score = trio_of(
        [(0, 12, 40, 90, 0), (0, 12, 36, 71, 1), (0, 48, 38, 80, 1), (24, 12, 60, 1, 2)],
        tempos=[(0, 60), (24, 120)],
    ).replace(tracks=(Track("Fretless", 35), Track("Kit", 8, True), Track("Organ", 16)))
    encoded = GROOVE.encode(score)
    # Two beats of a second each and two of half a second are four beats in three seconds.
    band = Band(programs=(35, 8, 16), velocities=(90, 76, 1), beats_per_minute=80.0)
    assert encoded.setting == band
    decoded = GROOVE.decode(encoded.ids, encoded.setting)
    assert decoded.tracks == (Track("Bass", 35), Track("Drums", 8, True), Track("Other", 16))
    assert decoded.notes.velocity.tolist() == [90, 76, 76, 1]
    assert decoded.tempos.beats_per_minute.tolist() == [80.0]
    assert GROOVE.decode(encoded.ids).notes.velocity.tolist() == [90, 90, 90, 75]
    silent = GROOVE.encode(trio_of([(0, 12, 40, 64, 0)])).setting  # silent tracks have the defaults
    assert silent == Band(programs=(33, 0, 0), velocities=(64, 90, 75))


@settings(max_examples=30)
@given(SEEDS, st.integers(1, 150))
def test_tokens_before_a_bar_contain_exactly_the_earlier_notes(seed, length):
    ids = random_piece(seed, length)
    notes, bars = GROOVE.decode(ids).notes, GROOVE.bars(ids)
    assert len(bars) == -(-notes.end_ticks.max() // spelling.BAR_TICKS)
    grammar, taken = GROOVE.grammar(), 0
    for bar, offset in enumerate(bars):
        for token in ids[taken:offset]:
            grammar.advance(np.array([token]))
        taken = offset
        ons = np.count_nonzero(spelling.VOCABULARY["note_on"].holds(ids[:offset]))
        assert ons == np.count_nonzero(notes.onset_ticks < bar * spelling.BAR_TICKS)
        assert bar == 0 or grammar.time_ticks[0] < bar * spelling.BAR_TICKS


def test_bars_of_a_rest_start_at_the_token_that_reaches_them():
    ids = GROOVE.encode(trio_of([(0, 12, 40, 90, 0), (150, 6, 40, 90, 0)])).ids
    # begin on shift off, then shifts to beats 3, 5, 7, 9, 11 and 12 and a half
    assert GROOVE.bars(ids).tolist() == [1, 5, 7, 9]
    assert [GROOVE.bars(ids[:stop]).tolist() for stop in (1, 0)] == [[1], []]
    waiting = ids_of(GROOVE, "begin time_shift_2_0 time_shift_2_0 note_on_0_40")
    assert GROOVE.bars(waiting).tolist() == [1, 2]


BEGUN = "begin note_on_0_40 time_shift_2_0 time_shift_2_0 note_on_1_36 time_shift_1_0 note_off_1_36"


@pytest.mark.parametrize(
    ("prefix", "bars", "notes"),
    [
        (
            "begin note_on_0_40 note_on_2_60 time_shift_1_6 note_off_2_60 time_shift_2_0",
            None,
            [(0, 0, 40, 48), (0, 2, 60, 18)],
        ),
        # If fewer bars exist, all notes end with the current one, as in music that is stopped.
        (BEGUN, 16, [(0, 0, 40, 96), (48, 1, 36, 12)]),
        (f"{BEGUN} time_shift_2_0 time_shift_1_0", 16, [(0, 0, 40, 144), (48, 1, 36, 12)]),
        (BEGUN, 1, [(0, 0, 40, 48)]),
        (f"{BEGUN} note_off_0_40 end", 1, [(0, 0, 40, 48)]),
    ],
)
def test_an_incomplete_piece_is_closed_at_a_bar_line(prefix: str, bars: int | None, notes):
    closed = GROOVE.close(ids_of(GROOVE, prefix), bars)
    assert GROOVE.validate(closed) is None
    assert rows_of(GROOVE.decode(closed).notes) == sorted(notes)
    assert GROOVE.close(closed, 9).tolist() == closed.tolist()


FRETLESS, CLAVINET, LEAD = Track("Fretless", 35), Track("Clavinet", 7), Track("Lead", 80)
DRUMS = Track("Kit", 25, is_drum=True)


def quartet(**changes) -> Score:
    score = band((LEAD, TUNE), (DRUMS, KIT), (CLAVINET, CHORDS), (FRETLESS, BASS_LINE))
    return score.replace(**changes)


def test_roles_are_found_and_explained():
    score = arrange(quartet())
    assert score.tracks == (Track("Bass", 35), Track("Drums", 25, True), Track("Other", 7))
    said = "Left out: Lead. Bass: Fretless. Drums: Kit. Other: Clavinet."
    assert " ".join(score.remarks) == said
    assert note_counts(score) == [16, 32, 48]
    assert score.notes == score.notes.sorted()


def test_roles_can_be_chosen_by_name_index_or_none():
    score = arrange(quartet(), {"bass": "lead", "drums": None, "other": [2, "Fretless"]})
    assert score.notes.pitch[score.notes.track == 0].min() == 72
    assert note_counts(score) == [16, 0, 64]
    assert score.tracks[2].program == 7  # of the busier one
    said = "Left out: Kit. Bass: Lead. Drums: silent. Other: Clavinet and Fretless."
    assert " ".join(score.remarks) == said


def choosing(tracks: Any) -> Score:
    return arrange(quartet(), tracks)


NOISE = band((Track("Rain", 122), CHORDS))
NOTE = (0, 1, 60, 90, 0)


@pytest.mark.parametrize(
    ("ask", "given", "message"),
    [
        (GROOVE.encode, trio_of([]), "the score has no notes"),
        (GROOVE.encode, trio_of([NOTE]).replace(tracks=TRIO[:2]), "three tracks .* has 2"),
        (
            GROOVE.encode,
            trio_of([(MOST_BEATS, *NOTE[1:])], 1),
            f"{MOST_BEATS + 1} beats; the limit is",
        ),
        (choosing, {"bass": "Lead", "other": "Lead"}, "can play only one of bass, drums and other"),
        (choosing, {"guitar": 0}, "a trio has the parts bass, drums and other, but not guitar"),
        *((ask, Score(ticks_per_beat=4), "has no notes to arrange") for ask in (arrange, trios)),
        *((ask, NOISE, "the score has only sound effects") for ask in (arrange, trios)),
    ],
)
def test_invalid_input_raises_an_error(ask: Callable[[Any], object], given: Any, message: str):
    with pytest.raises(ValueError, match=message):
        ask(given)


def test_each_other_part_forms_a_trio_with_bass_and_drums():
    lead, clavinet = trios(quartet())
    assert [note_counts(one) for one in (lead, clavinet)] == [[16, 32, 16], [16, 32, 48]]
    assert (lead.tracks[2].program, clavinet.tracks[2].program) == (80, 7)
    alone = trios(band((DRUMS, KIT), (Track("Rain", 122), CHORDS)))  # a sound effect is not a part
    assert [note_counts(score) for score in alone] == [[0, 32, 0]]


ID = spelling.VOCABULARY.id
LONGEST = (30, 1, 70)  # of bass, drums, other
TOKENS = np.arange(len(spelling.VOCABULARY))
# Few pitches, so that much happens on each.
FEW = (
    spelling.NOTE_ON.holds(TOKENS) & ((TOKENS - spelling.NOTE_ON.start) % spelling.PITCHES < 4)
) | ((spelling.NOTE_OFF.start <= TOKENS) & (spelling.TIME_SHIFT.stop > TOKENS))


def unbounded(**given: Any) -> spelling.GrooveGrammar:
    """Return a grammar with notes of any length."""
    return spelling.GrooveGrammar(longest_ticks=[spelling.FAR_TICKS] * 3, **given)


def drawn(seed: int, length: int, grammar=None, first: tuple = (spelling.BEGIN,)) -> np.ndarray:
    """Return some first tokens and random allowed ones after them."""

    def few(random: np.random.Generator, allowed: np.ndarray) -> int:
        return int(random.choice(allowed[FEW[allowed]]))

    prompt = np.array(first)
    return written(grammar or unbounded(), prompt, seed, spelling.END, few, len(first) + length)


def names_allowed(grammar: spelling.GrooveGrammar) -> list[str]:
    return [spelling.VOCABULARY.names[token] for token in np.flatnonzero(grammar.allowed()[0])]


def after(text: str, grammar: spelling.GrooveGrammar | None = None) -> spelling.GrooveGrammar:
    """Return a grammar after some allowed tokens."""
    grammar = grammar or GROOVE.grammar()
    advance(grammar, ids_of(GROOVE, text))
    return grammar


def taken(grammar: spelling.GrooveGrammar, name: str) -> str:
    """Advance a grammar by an allowed token, and return the token that `instead` chose."""
    assert grammar.allowed()[0, ID(name)]
    token = grammar.instead(np.array([ID(name)]))
    grammar.advance(token)
    return spelling.VOCABULARY.names[int(token[0])]


def sounded_ticks(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the onset, track and duration of each note; incomplete ones last to the end of the ids."""
    reading = spelling.Reading(ids)
    time = reading.time_ticks[reading.event_places]
    end = np.full(len(time), reading.time_ticks[-1])
    begin, stop = reading.complete
    end[begin] = time[stop]
    on = reading.is_on
    return time[on], reading.key[on] // spelling.PITCHES, (end - time)[on]


@pytest.mark.parametrize("longest", [(96,) * 3, LONGEST])
@pytest.mark.parametrize("seed", range(6))
def test_generated_tokens_are_closed_to_a_valid_sequence(seed: int, longest):
    ids = drawn(seed, 150, spelling.GrooveGrammar(longest_ticks=longest))
    closed = GROOVE.close(ids)
    assert GROOVE.validate(closed) is None
    assert closed[-1] == spelling.END
    assert spelling.NOTE_ON.holds(closed).sum() == spelling.NOTE_ON.holds(ids).sum()
    assert (GROOVE.notes(closed).duration_ticks >= 1).all()
    rows = (np.array(GROOVE.notes(tokens).columns).T.tolist() for tokens in (ids, closed))
    ended, all_notes = ({*map(tuple, each)} for each in rows)
    assert ended <= all_notes
    take(
        spelling.GrooveGrammar(longest_ticks=[spelling.FAR_TICKS] * 3), closed
    )  # is allowed, and unchanged by `instead`


def test_only_the_order_of_simultaneous_events_is_free():
    text = "begin note_on_1_40 note_on_0_60 time_shift_0_3 note_on_2_70 time_shift_0_3"
    free = names_allowed(after(text))
    assert {"note_off_0_60", "note_on_0_30"} <= {*free}  # after any event at this time
    assert not {"note_off_2_70", "note_off_0_61"} & {*free}  # of length zero; not sounding


@pytest.mark.parametrize("seed", range(8))
def test_no_note_starts_in_the_last_bar_of_a_prompt(seed: int):
    piece = GROOVE.close(drawn(seed, 150))
    bars = 1 + seed % (len(GROOVE.bars(piece)) - 1)
    prompt = piece[: GROOVE.bars(piece)[bars]]
    grammar = spelling.GrooveGrammar(
        prompt_tokens=len(prompt), start_ticks=bars * spelling.BAR_TICKS, longest_ticks=LONGEST
    )
    onset, track, ticks = sounded_ticks(drawn(seed, 150, grammar, tuple(prompt)))
    line = bars * spelling.BAR_TICKS
    old = np.arange(len(onset)) < spelling.NOTE_ON.holds(prompt).sum()
    assert (onset[old] < line).all()
    assert (onset[~old] >= line).all()
    assert (~old).any()
    assert (ticks <= np.array(LONGEST)[track])[~old].all()
    # Notes of the prompt can be longer.
    own = np.maximum(GROOVE.notes(piece).duration_ticks.max(), np.array(LONGEST)[track])
    assert (ticks <= np.maximum(own, line - onset))[old].all()


def test_a_time_shift_past_the_required_end_of_a_note_is_cut_short():
    grammar = after(
        "begin note_on_0_40 note_on_1_36 time_shift_0_2 note_on_1_38 time_shift_0_2 note_on_2_60",
        spelling.GrooveGrammar(longest_ticks=(40, 4, 26)),
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


def most_sounding(ids: np.ndarray) -> list[int]:
    """Return the largest number of simultaneous notes of each track."""
    reading = spelling.Reading(ids)
    track, change = reading.key // spelling.PITCHES, np.where(reading.is_on, 1, -1)
    return [int((change * (track == t)).cumsum().max()) for t in range(3)]


@pytest.mark.parametrize("seed", range(3))
def test_notes_are_not_doubled_and_simultaneous_notes_are_limited(seed: int):
    ids = drawn(seed, 600)
    reading = spelling.Reading(ids)
    on = reading.is_on
    begun = np.stack([reading.time_ticks[reading.event_places][on], reading.key[on]], 1)
    assert len(np.unique(begun, axis=0)) == len(begun) > 50
    assert most_sounding(ids) == [2, 6, 10]


def test_a_prompt_with_larger_chords_raises_the_limit():
    chord = [spelling.BEGIN, *(ID(f"note_on_0_{pitch}") for pitch in (40, 47, 52))]
    grammar = unbounded(prompt_tokens=len(chord))
    assert most_sounding(drawn(1, 600, grammar, tuple(chord))) == [3, 6, 10]
