"""Goals keep their promises whatever is drawn: bars counted, seams joined, given notes kept to the last one."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import ids_of, take, written
from tests.tokenization.groove.cases import trio_of
from tests.tokenization.groove_2.cases import (
    GROOVE,
    SEEDS,
    chatty,
    given_in,
    grooves,
    rows_of,
    sounding,
)
from tokenization.continuing import continuing
from tokenization.groove.grammar import MOST_SOUNDING
from tokenization.groove.spelling import BAR_TICKS, BASS, DRUMS, END, OTHER
from tokenization.groove_2 import goals
from tokenization.groove_2.goals import chords_to, toward_chords
from tokenization.groove_2.spelling import BAR, VOCABULARY, bars_of, plain
from tokenization.language import Goal, given_until, language_from_spec
from tokenization.score import Notes

CHATTY = st.sampled_from([0.2, 0.5, 0.7])
LONGEST = st.sampled_from([None, (30, 5, 70), (8, 8, 8)])
SUBSETS = st.sampled_from([("bass",), ("drums",), ("other",), ("bass", "drums"), ("bass", "other")])
calm = settings(max_examples=15)


def said_by(goal: Goal, seed: int, share: float = 0.5) -> np.ndarray:
    return written(goal.grammar, goal.prompt, seed, END, chatty(share))


def names(ids: np.ndarray) -> list[str]:
    return [VOCABULARY.names[int(token)] for token in ids]


def given_tracks(notes: Notes, write: tuple[str, ...]) -> list[int]:
    """Return the tracks that are not written, some of which must play."""
    tracks = [i for i, part in enumerate(GROOVE.parts) if part not in write]
    assume(np.isin(notes.track, tracks).any())
    return tracks


@st.composite
def gaps(draw) -> tuple[Notes, int, int]:
    """Return notes and some of their bars."""
    notes = draw(grooves())
    start = draw(st.integers(0, bars_of(notes) - 1))
    return notes, start, draw(st.integers(start + 1, min(bars_of(notes), start + 16)))


@calm
@given(grooves(), SUBSETS, SEEDS, CHATTY, LONGEST)
def test_given_parts_stay_note_for_note_and_the_rest_is_written(notes, write, seed, share, longest):
    given, bars = given_tracks(notes, write), bars_of(notes)
    kept = notes[np.isin(notes.track, given)]
    goal = GROOVE.accompanying(GROOVE.spell(notes), write, longest_ticks=longest)
    said = said_by(goal, seed, share)
    assert (plain(said) == BAR).sum() == bars
    for cut in (len(said), *range(len(goal.prompt), len(said), 17)):
        whole = goal.whole(said[:cut])
        assert GROOVE.validate(whole) is None
        found = GROOVE.notes(whole)
        is_given = np.isin(found.track, given)
        assert rows_of(found[is_given]) == rows_of(kept)
        assert bars_of(found) <= bars
        if cut == len(said):
            # The model heard the given parts block by block, and wrote nothing but its own.
            assert rows_of(GROOVE.notes(GROOVE.close(said))) == rows_of(found[~is_given])
    assert given_in(said) == np.concatenate(goals.blocks(kept, bars, given)).tolist()


@calm
@given(gaps(), SEEDS, CHATTY, LONGEST)
def test_a_gap_is_filled_and_every_note_outside_stays(gap, seed, share, longest):
    notes, start, stop = gap
    ids, bars = GROOVE.spell(notes), bars_of(notes)
    goal = GROOVE.infilling(ids, start, stop, longest_ticks=longest)
    line, seam = start * BAR_TICKS, stop * BAR_TICKS
    said = said_by(goal, seed, share)
    whole = goal.whole(said)
    assert GROOVE.validate(whole) is None
    assert (plain(said) == BAR).sum() == stop
    counts = [name for name in names(said) if name.startswith("seam")]
    assert counts == [f"seam_{n}" for n in range(stop - start, 0, -1)]
    found = GROOVE.notes(whole)
    new = (found.onset_ticks >= line) & (found.onset_ticks < seam)
    outside = notes[(notes.onset_ticks < line) | (notes.onset_ticks >= seam)]
    assert rows_of(found[~new]) == rows_of(outside)
    assert (found.end_ticks[new] <= seam).all()
    # What the prompt leaves out is known beside it.
    far = given_until(stop, stop)
    started = VOCABULARY["note_on"].holds(goal.elsewhere).sum()
    assert started == (notes.onset_ticks >= far * BAR_TICKS).sum()
    assert (goal.elsewhere == BAR).sum() == max(bars - far, 0)
    begins = np.append(GROOVE.bars(ids), len(ids) - 1)
    assert goal.replaced.tolist() == ids[begins[start] + 1 : begins[stop]].tolist()


@calm
@given(grooves(), st.integers(1, 20), SEEDS, CHATTY, LONGEST)
def test_an_end_comes_after_so_many_bars(notes, bars, seed, share, longest):
    prompt_bars = bars_of(notes)
    prompt = np.append(GROOVE.spell(notes)[:-1], BAR)
    grammar = continuing(
        GROOVE, prompt, prompt_bars=prompt_bars, end_in=bars, longest_ticks=longest
    )
    said = written(grammar, prompt, seed, END, chatty(share))
    closed = GROOVE.close(said)
    assert GROOVE.validate(closed) is None
    assert len(GROOVE.bars(closed)) == prompt_bars + bars
    counts = [name for name in names(said) if name.startswith("left")]
    assert counts == [f"left_{n}" for n in range(min(bars, 16), 0, -1)]
    found = GROOVE.notes(closed)
    begun = found.onset_ticks < prompt_bars * BAR_TICKS
    assert sorted(found.onset_ticks[begun]) == sorted(notes.onset_ticks)


# What is learned from is what the grammar of the goal allows; beyond what sounds at once in data, it bounds that.


@calm
@given(grooves(), SUBSETS)
def test_parts_to_learn_from_are_what_the_grammar_allows(notes, write):
    assume((sounding(notes) <= MOST_SOUNDING).all())
    example = goals.accompaniment(notes, given_tracks(notes, write))
    goal = GROOVE.accompanying(GROOVE.spell(notes), write)
    assert goal.prompt.tolist() == example[: len(goal.prompt)].tolist()
    take(goal.grammar, example)
    assert rows_of(GROOVE.notes(goal.whole(example))) == rows_of(notes)


@calm
@given(gaps())
def test_a_gap_to_learn_from_is_what_the_grammar_allows(gap):
    notes, start, stop = gap
    assume((sounding(notes) <= MOST_SOUNDING).all())
    line = start * BAR_TICKS
    held = notes[(notes.onset_ticks < line) & (notes.end_ticks >= line)]
    busy = held.track * 128 + held.pitch
    inside = (notes.onset_ticks >= line) & np.isin(notes.track * 128 + notes.pitch, busy)
    free = notes[~inside]  # nothing may begin on a key that sounds into the gap
    assume(bars_of(free) >= stop)
    example = goals.gap(free, start, stop)
    goal = GROOVE.infilling(GROOVE.spell(free), start, stop)
    assert goal.prompt.tolist() == example[: len(goal.prompt)].tolist()
    take(goal.grammar, example)
    found = GROOVE.notes(goal.whole(example))
    assert sorted(found.onset_ticks) == sorted(free.onset_ticks)


@calm
@given(grooves(), st.integers(1, 20))
def test_a_counted_end_to_learn_from_is_what_the_grammar_allows(notes, counted):
    assume((sounding(notes) <= MOST_SOUNDING).all())
    example = goals.ending(notes, counted)
    bars = bars_of(notes)
    first = max(bars - min(counted, 16), 0)
    start = np.flatnonzero(example == BAR)[first] + 1
    take(
        continuing(GROOVE, example[:start], prompt_bars=first, end_in=bars - first),
        example,
    )
    assert plain(example).tolist() == GROOVE.spell(notes).tolist()


def test_a_layout_reads_as_it_is_meant():
    first, second = "note_on_0_40 at_6 note_off_0_40", "note_on_1_36 note_on_0_41"
    notes = GROOVE.notes(ids_of(GROOVE, f"begin bar {first} bar {second} bar note_off_1_36 end"))

    def said(ids: np.ndarray) -> str:
        return " ".join(names(ids))

    # Up to the bar that is the first of four again, and four more.
    behind = f"bar {second} bar note_off_1_36 bar note_off_0_41" + 4 * " bar"
    assert said(goals.gap(notes, 0, 1)) == f"begin after {behind} before bar seam_1 {first} end"
    told = (
        f"begin given_0 bar {first} write bar root_E at_12 root_F given_0 bar note_on_0_41 "
        "write bar root_F note_on_1_36 given_0 bar write bar root_F note_off_1_36 end"
    )
    assert said(goals.accompaniment(notes, [0])) == told
    untold = told.replace("root_E at_12 ", "").replace("root_F ", "")
    assert said(goals.accompaniment(notes, [0], chords=False)) == untold
    ends = f"begin bar {first} bar left_2 {second} bar left_1 note_off_1_36 end"
    assert said(goals.ending(notes, 2)) == ends


PIECE = ids_of(GROOVE, f"begin {'bar note_on_0_40 at_12 note_off_0_40 ' * 20} end")


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: GROOVE.infilling(PIECE, 19, 21), "bars 20 to 21 cannot be filled in a piece that"),
        (lambda: GROOVE.infilling(PIECE, 3, 3), "bars 4 to 3 cannot be filled"),
        (lambda: GROOVE.infilling(PIECE, 0, 17), "bars 1 to 17 are 17; 16 at most"),
        (lambda: GROOVE.accompanying(PIECE, ["flute"]), "there is no part flute; a groove has"),
        (lambda: GROOVE.accompanying(PIECE, ["bass"]), "the piece has no drums and no other"),
        (lambda: GROOVE.accompanying(PIECE, []), "bass, drums and other cannot none be written"),
        (lambda: GROOVE.accompanying(PIECE, GROOVE.parts), "cannot all be written; choose one"),
    ],
)
def test_what_cannot_be_asked_for_is_said(ask, says: str):
    with pytest.raises(ValueError, match=says):
        ask()


def test_the_first_edition_writes_to_parts_whose_chords_are_not_told():
    spec = GROOVE.spec()
    blocks = {k: v for k, v in spec["blocks"].items() if k not in ("chord", "root")}
    first = language_from_spec({**spec, "tokens": 856, "blocks": blocks})
    chords = " ".join(f"note_on_2_{pitch}" for pitch in (60, 64, 67))
    ids = GROOVE.spell(
        GROOVE.notes(ids_of(GROOVE, f"begin bar {chords} note_on_1_36 bar note_off_1_36 end"))
    )
    for edition, times in ((first, 0), (GROOVE, 2)):
        goal = edition.accompanying(ids, ["bass"])
        assert goal.grammar.allowed().shape == (1, len(edition.vocabulary))
        assert names(goal.prompt)[:4] == ["begin", "given_1", "given_2", "bar"]
        assert names(said_by(goal, 0)).count("chord_C_M") == times


# The chords that given parts play are told where a pitched part is written to them, and only there.

C, F, G, AM = (60, 64, 67), (60, 65, 69), (59, 62, 67), (60, 64, 69)


def music(*notes: tuple[int, int, int, int]) -> Notes:
    """Return notes of (onset, duration, pitch, track)."""
    return trio_of([(o, d, p, 0, t) for o, d, p, t in notes]).notes.sorted()


def held(*chords: tuple[int, int, tuple[int, ...]]) -> list[tuple[int, int, int, int]]:
    """Return the notes of (onset, duration, pitches)."""
    return [(onset, lasts, pitch, OTHER) for onset, lasts, pitches in chords for pitch in pitches]


def told(notes: Notes, given: list[int], bars: int = 4) -> list[tuple[int, str]]:
    """Return when what is told, by name."""
    found = chords_to(notes, given, bars)
    return list(zip(found.time_ticks.tolist(), names(found.ids), strict=True))


SONG = held((0, 48, C), (48, 24, AM), (72, 24, F), (96, 96, G))
LINE = [(0, 48, 36, BASS), (48, 24, 45, BASS), (72, 24, 41, BASS), (96, 96, 43, BASS)]
BEAT = (0, 4, 36, DRUMS)


@pytest.mark.parametrize(
    ("notes", "given", "chords"),
    [
        (music(*SONG), [OTHER], "chord_C_M chord_A_m chord_F_M chord_G_M chord_G_M"),
        # Of a bass alone no more than roots is known.
        (music(*LINE), [BASS], "root_C root_A root_F root_G root_G"),
        # What is not given is not heard.
        (
            music(*SONG, (0, 96, 25, BASS), BEAT),
            [DRUMS, OTHER],
            "chord_C_M chord_A_m chord_F_M chord_G_M chord_G_M",
        ),
        # Drums neither tell chords nor are told any.
        (music(*SONG, *LINE, BEAT), [DRUMS], ""),
        (music(*SONG, *LINE, BEAT), [BASS, OTHER], ""),
        (music(BEAT), [OTHER, DRUMS], ""),
    ],
)
def test_chords_are_told_at_each_bar_line_and_where_they_change(notes, given, chords):
    times = [0, 48, 72, 96, 144]
    assert told(notes, given) == list(zip(times, chords.split(), strict=False))


def test_a_rest_of_less_than_a_bar_belongs_to_the_chord_after_it_and_a_longer_one_is_told():
    late = music(*held((12, 36, C), (48, 48, F)))
    assert told(late, [OTHER], 2) == [(0, "chord_C_M"), (48, "chord_F_M")]
    silent = dict(told(music(*held((0, 48, C), (4 * BAR_TICKS, 48, F))), [OTHER], 5))
    assert silent[0] == "chord_C_M"
    assert silent[3 * BAR_TICKS] == "chord_N_N"
    assert silent[4 * BAR_TICKS] == "chord_F_M"


def weight(goal: str, note: str) -> float:
    """Return what a goal that is told adds to a note's score."""
    bias = toward_chords()
    kind = bias.kind[VOCABULARY.id(note)]
    return float(bias.weights[bias.goal[VOCABULARY.id(goal)], kind])


def test_what_is_written_leans_towards_the_chord_or_its_root():
    tones = [weight("chord_A_m7", f"note_on_0_{pitch}") for pitch in (33, 36, 40, 43, 45, 57)]
    others = [weight("chord_A_m7", f"note_on_0_{pitch}") for pitch in (34, 35, 37, 41, 46)]
    assert len({*tones}) == len({*others}) == 1
    assert tones[0] > others[0] + 1
    assert weight("chord_N_N", "note_on_0_33") == weight("chord_N_N", "note_on_0_34")
    of_c, of_g = (
        [weight(f"root_{root}", f"note_on_2_{low + n}") for n in range(12)]
        for root, low in (("C", 60), ("G", 67))
    )
    assert of_c == of_g
    assert min(of_c[0], of_c[4], of_c[7]) > max(of_c[1], of_c[6], of_c[10])


def test_nothing_else_leans():
    bias = toward_chords()
    for token in ("note_on_1_36", "note_off_0_36", "note_off_2_60", "bar", "at_12", "end"):
        assert bias.kind[VOCABULARY.id(token)] == 0
    assert (bias.goal[: VOCABULARY.id("chord_C_M")] == 0).all()
    ids = GROOVE.spell(music(*SONG, *LINE, BEAT))
    assert GROOVE.accompanying(ids, ["bass"]).logit_bias is toward_chords()
    assert GROOVE.accompanying(ids, ["other"]).logit_bias is toward_chords()
    assert GROOVE.accompanying(ids, ["drums"]).logit_bias is None
    assert GROOVE.infilling(ids, 1, 2).logit_bias is None
