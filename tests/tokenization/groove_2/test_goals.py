"""Goals keep their promises whatever is drawn: bars counted, seams joined, given notes kept to the last one."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import ids_of
from tests.tokenization.groove_2.cases import (
    GROOVE,
    SEEDS,
    given_in,
    grooves,
    rows_of,
    sounding,
    take,
    written,
)
from tokenization.continuing import continuing
from tokenization.groove.grammar import MOST_SOUNDING
from tokenization.groove.spelling import BAR_TICKS
from tokenization.groove_2 import goals
from tokenization.groove_2.spelling import BAR, VOCABULARY, bars_of, plain
from tokenization.language import given_until, language, language_from_spec

CHATTY = st.sampled_from([0.2, 0.5, 0.7])
LONGEST = st.sampled_from([None, (30, 5, 70), (8, 8, 8)])
SUBSETS = [
    ("bass",),
    ("drums",),
    ("other",),
    ("bass", "drums"),
    ("bass", "other"),
    ("drums", "other"),
]
calm = settings(deadline=None, max_examples=15)


def batch_is_single(make, seeds, chatty) -> list[np.ndarray]:
    """Return what is written in a batch, asserted to be what is written alone."""
    goal = make()
    together = written(goal.grammar, goal.prompt, seeds, chatty)
    alone = [written(make().grammar, goal.prompt, [seed], chatty)[0] for seed in seeds[:1]]
    assert together[0].tolist() == alone[0].tolist()
    return together


@calm
@given(grooves(), st.sampled_from(SUBSETS), SEEDS, CHATTY, LONGEST)
def test_given_parts_stay_note_for_note_and_the_rest_is_written(
    notes, write, seed, chatty, longest
):
    ids = GROOVE.spell(notes)
    tracks = [GROOVE.parts.index(part) for part in write]
    kept = notes[~np.isin(notes.track, tracks)]
    if not len(kept):
        return

    def make():
        return GROOVE.accompanying(ids, write, longest_ticks=longest)

    goal, bars = make(), bars_of(notes)
    for said in batch_is_single(make, [seed, seed + 1], chatty):
        whole = goal.whole(said)
        assert GROOVE.validate(whole) is None
        assert (plain(said) == BAR).sum() == bars
        found = GROOVE.notes(whole)
        is_new = np.isin(found.track, tracks)
        assert rows_of(found[~is_new]) == rows_of(kept)
        assert bars_of(found) <= bars
        # The model heard the given parts block by block, and wrote nothing but its own.
        assert rows_of(GROOVE.notes(GROOVE.close(said))) == rows_of(found[is_new])
        given = sorted({0, 1, 2} - set(tracks))
        assert given_in(said) == np.concatenate(goals.blocks(kept, bars, given)).tolist()


@calm
@given(grooves(), st.data(), SEEDS, CHATTY, LONGEST)
def test_a_gap_is_filled_and_every_note_outside_stays(notes, data, seed, chatty, longest):
    ids, bars = GROOVE.spell(notes), bars_of(notes)
    start = data.draw(st.integers(0, bars - 1))
    stop = data.draw(st.integers(start + 1, min(bars, start + 16)))

    def make():
        return GROOVE.infilling(ids, start, stop, longest_ticks=longest)

    goal = make()
    line, seam = start * BAR_TICKS, stop * BAR_TICKS
    outside = notes[(notes.onset_ticks < line) | (notes.onset_ticks >= seam)]
    for said in batch_is_single(make, [seed, seed + 1], chatty):
        whole = goal.whole(said)
        assert GROOVE.validate(whole) is None
        assert (plain(said) == BAR).sum() == stop
        counts = [name for name in names(said) if name.startswith("seam")]
        assert counts == [f"seam_{n}" for n in range(stop - start, 0, -1)]
        found = GROOVE.notes(whole)
        new = (found.onset_ticks >= line) & (found.onset_ticks < seam)
        assert rows_of(found[~new]) == rows_of(outside)
        assert (found.end_ticks[new] <= seam).all()
    far = given_until(stop, stop) * BAR_TICKS
    started = VOCABULARY["note_on"].holds(goal.elsewhere).sum()
    assert started == (notes.onset_ticks >= far).sum(), (
        "what the prompt leaves out is known beside it"
    )
    assert (goal.elsewhere == BAR).sum() == max(bars - given_until(stop, stop), 0)
    begins = np.append(GROOVE.bars(ids), len(ids) - (ids[-1] == GROOVE.end))
    assert goal.replaced.tolist() == ids[begins[start] + 1 : begins[stop]].tolist()


@calm
@given(grooves(), st.integers(1, 20), SEEDS, CHATTY, LONGEST)
def test_an_end_comes_after_so_many_bars(notes, bars, seed, chatty, longest):
    ids = GROOVE.spell(notes)
    prompt_bars = bars_of(notes)
    prompt = np.append(ids[:-1], BAR)
    grammar = continuing(
        GROOVE, prompt, prompt_bars=prompt_bars, end_in=bars, longest_ticks=longest
    )
    [said] = written(grammar, prompt, [seed], chatty)
    closed = GROOVE.close(said)
    assert GROOVE.validate(closed) is None
    assert len(GROOVE.bars(closed)) == prompt_bars + bars
    counts = [name for name in names(said) if name.startswith("left")]
    assert counts == [f"left_{n}" for n in range(min(bars, 16), 0, -1)]
    found = GROOVE.notes(closed)
    begun = found.onset_ticks < prompt_bars * BAR_TICKS
    assert sorted(found.onset_ticks[begun]) == sorted(notes.onset_ticks)


@calm
@given(grooves(), st.sampled_from(SUBSETS))
def test_what_is_learned_from_is_what_the_grammar_of_the_goal_allows(notes, write):
    assume((sounding(notes) <= MOST_SOUNDING).all())  # beyond, the grammar bounds what is written
    given_tracks = [i for i, part in enumerate(GROOVE.parts) if part not in write]
    if not np.isin(notes.track, given_tracks).any():
        return
    example = goals.accompaniment(notes, given_tracks)
    goal = GROOVE.accompanying(GROOVE.spell(notes), write)
    assert goal.prompt.tolist() == example[: len(goal.prompt)].tolist()
    take(goal.grammar, example)
    assert rows_of(GROOVE.notes(goal.whole(example))) == rows_of(notes)


@calm
@given(grooves(), st.data())
def test_a_gap_to_learn_from_is_what_the_grammar_of_the_goal_allows(notes, data):
    assume((sounding(notes) <= MOST_SOUNDING).all())  # beyond, the grammar bounds what is written
    bars = bars_of(notes)
    start = data.draw(st.integers(0, bars - 1))
    stop = data.draw(st.integers(start + 1, min(bars, start + 16)))
    line = start * BAR_TICKS
    held = notes[(notes.onset_ticks < line) & (notes.end_ticks >= line)]
    busy = held.track * 128 + held.pitch
    inside = (notes.onset_ticks >= line) & np.isin(notes.track * 128 + notes.pitch, busy)
    free = notes[~inside]  # nothing may begin on a key that sounds into the gap
    if bars_of(free) < stop:
        return
    example = goals.gap(free, start, stop)
    goal = GROOVE.infilling(GROOVE.spell(free), start, stop)
    assert goal.prompt.tolist() == example[: len(goal.prompt)].tolist()
    take(goal.grammar, example)
    kept = free.onset_ticks < stop * BAR_TICKS
    found = GROOVE.notes(goal.whole(example))
    assert sorted(found.onset_ticks) == sorted(free.onset_ticks)
    assert kept.sum() == (found.onset_ticks < stop * BAR_TICKS).sum()


@calm
@given(grooves(), st.integers(1, 20))
def test_a_counted_end_to_learn_from_is_what_the_grammar_allows(notes, counted):
    assume((sounding(notes) <= MOST_SOUNDING).all())  # beyond, the grammar bounds what is written
    example = goals.ending(notes, counted)
    bars = bars_of(notes)
    first = max(bars - min(counted, 16), 0)
    start = np.flatnonzero(example == BAR)[first] + 1
    grammar = continuing(GROOVE, example[:start], prompt_bars=first, end_in=bars - first)
    take(grammar, example)
    assert plain(example).tolist() == GROOVE.spell(notes).tolist()


@calm
@given(grooves(), st.sampled_from(SUBSETS), SEEDS)
def test_what_is_broken_off_is_put_together_as_far_as_it_goes(notes, write, seed):
    given_tracks = [i for i, part in enumerate(GROOVE.parts) if part not in write]
    if not np.isin(notes.track, given_tracks).any():
        return
    goal = GROOVE.accompanying(GROOVE.spell(notes), write)
    [said] = written(goal.grammar, goal.prompt, [seed], 0.7)
    for cut in range(len(goal.prompt), len(said), 7):
        whole = goal.whole(said[:cut])
        assert GROOVE.validate(whole) is None
        found = GROOVE.notes(whole)
        kept = notes[np.isin(notes.track, given_tracks)]
        assert rows_of(found[np.isin(found.track, given_tracks)]) == rows_of(kept)


def test_the_first_edition_writes_to_parts_whose_chords_are_not_told():
    first = language_from_spec({**GROOVE.spec(), **BEFORE_CHORDS})
    chords = " ".join(f"note_on_2_{pitch}" for pitch in (60, 64, 67))
    notes = GROOVE.notes(ids_of(GROOVE, f"begin bar {chords} note_on_1_36 bar note_off_1_36 end"))
    ids, prompt = first.spell(notes), "begin given_1 given_2 bar"
    for edition, times in ((first, 0), (GROOVE, 2)):
        goal = edition.accompanying(ids, ["bass"])
        assert goal.grammar.allowed().shape == (1, len(edition.vocabulary))
        assert " ".join(names(goal.prompt)).startswith(prompt)
        [said] = written(goal.grammar, goal.prompt, [0], 0.5)
        assert " ".join(names(said)).count("chord_C_M") == times


PIECE = goals.ending(
    GROOVE.notes(
        ids_of(GROOVE, " ".join(["begin", *["bar note_on_0_40 at_12 note_off_0_40"] * 20, "end"]))
    ),
    0,
)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (
            lambda x: x.infilling(PIECE, 19, 21),
            "bars 20 to 21 cannot be filled in a piece that has 20 bars",
        ),
        (
            lambda x: x.infilling(PIECE, 3, 3),
            "bars 4 to 3 cannot be filled in a piece that has 20 bars",
        ),
        (
            lambda x: x.infilling(PIECE, 0, 17),
            "bars 1 to 17 are 17; 16 at most can be filled at once",
        ),
        (
            lambda x: x.accompanying(PIECE, ["flute"]),
            "there is no part flute; a groove has bass, drums and other",
        ),
        (
            lambda x: x.accompanying(PIECE, ["bass"]),
            "nothing to accompany: the piece has no drums and no other",
        ),
        (lambda x: x.accompanying(PIECE, []), "bass, drums and other cannot none be written"),
        (
            lambda x: x.accompanying(PIECE, x.parts),
            "bass, drums and other cannot all be written; choose one or",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_said(ask, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        ask(GROOVE)


def test_the_first_language_says_that_it_cannot():
    first = language("groove")
    ids = first.spell(GROOVE.notes(PIECE))
    with pytest.raises(ValueError, match="speaks groove, in which no gap can be filled"):
        first.infilling(ids, 0, 1)
    with pytest.raises(
        ValueError, match="speaks groove, in which no part can be written to others"
    ):
        first.accompanying(ids, ["drums"])
    with pytest.raises(ValueError, match="speaks groove, in which an end cannot be asked for"):
        continuing(first, ids[:-1], prompt_bars=20, end_in=4)


BEFORE_CHORDS = {
    "tokens": 856,
    "blocks": {k: v for k, v in GROOVE.spec()["blocks"].items() if k not in ("chord", "root")},
}


def names(ids: np.ndarray) -> list[str]:
    """Return tokens by name."""
    return [VOCABULARY.names[int(token)] for token in ids]


def test_a_layout_reads_as_it_is_meant():
    first, second = "note_on_0_40 at_6 note_off_0_40", "note_on_1_36 note_on_0_41"
    notes = GROOVE.notes(ids_of(GROOVE, f"begin bar {first} bar {second} bar note_off_1_36 end"))

    def said(ids: np.ndarray) -> str:
        return " ".join(names(ids))

    # Up to the bar that is the first of four again, and four more.
    behind = f"bar {second} bar note_off_1_36 bar note_off_0_41" + 4 * " bar"
    assert said(goals.gap(notes, 0, 1)) == f"begin after {behind} before bar seam_1 {first} end"
    assert said(goals.accompaniment(notes, [0])) == (
        f"begin given_0 bar {first} write bar root_E at_12 root_F given_0 bar note_on_0_41 "
        "write bar root_F note_on_1_36 given_0 bar write bar root_F note_off_1_36 end"
    )
    untold = (
        f"begin given_0 bar {first} write bar given_0 bar note_on_0_41 write bar note_on_1_36 "
        "given_0 bar write bar note_off_1_36 end"
    )
    assert said(goals.accompaniment(notes, [0], chords=False)) == untold
    ends = f"begin bar {first} bar left_2 {second} bar left_1 note_off_1_36 end"
    assert said(goals.ending(notes, 2)) == ends
