"""Returns of gaps: which passage is guessed, and that the sources name its bars in the sequence of the goal."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.study.form_and_infilling import f1
from evaluation.study.piece_jobs import TokenCompletion
from musicgen.completion import infilling
from musicgen.generation.request import Request
from musicgen.pieces import piece_of
from tests.evaluation.toys import sure_playable
from tests.tokenization.ensemble.cases import LANGUAGE
from tokenization.ensemble.gap_returns import LIKELY, likeliest
from tokenization.ensemble.plan import plan_for
from tokenization.ensemble.tokens import BAR, RETURNS, VOCABULARY
from tokenization.score import Meters, Notes, Score, Track

RETURN_OTHER = VOCABULARY["return"].start + RETURNS.index("other")


def of_sections(form: str, tracks: int = 1, varied: float = 0.0) -> Score:
    """Return a piece of sections of four bars, by letters, with the given part of the notes of each bar changed."""
    bars: list[list[int]] = []
    for place, letter in enumerate(form):
        own, changes = np.random.default_rng(ord(letter)), np.random.default_rng(place)
        section = own.integers(48, 80, (4, 8))
        section[changes.random((4, 8)) < varied] += 1
        bars += section.tolist()
    pitch = np.array(bars).ravel()
    onset = np.arange(len(pitch)) * 12
    track = np.arange(len(pitch)) % tracks
    notes = Notes(onset, np.full_like(onset, 12), pitch, np.full_like(onset, 76), track)
    return Score(ticks_per_beat=24, notes=notes, tracks=(Track("Piano"),) * tracks)


def without(score: Score, start: int, stop: int, track: int = 0) -> Score:
    """Return the piece without the notes of a track in some bars."""
    notes = score.notes
    inside = (notes.onset_ticks >= 96 * start) & (notes.onset_ticks < 96 * stop)
    return score.replace(notes=notes[~(inside & (notes.track == track))])


@pytest.mark.parametrize(
    ("form", "section", "expected"),
    [
        ("CABDABE", 1, 4),
        ("CABDABE", 5, 2),
        ("ABCDEABF", 1, 6),
        ("DABCEFABCG", 2, 7),
        ("DABCEFABCG", 7, 2),
    ],
)
def test_a_gap_is_like_the_passage_in_the_same_surroundings(form: str, section: int, expected: int):
    start, stop = 4 * section, 4 * section + 4
    score = without(of_sections(form, varied=0.05), start, stop)
    sheet = LANGUAGE.sheet(LANGUAGE.encode(score).ids.astype(np.int64))
    first, likeness = likeliest(sheet, start, stop, np.ones(1, dtype=bool))
    assert first == 4 * expected
    assert likeness > LIKELY or len(form) < 10  # the others agree on one side only


def test_given_parts_tell_passages_apart_that_have_the_same_surroundings():
    score = of_sections("ABCADCADCABC", tracks=2)
    for start, expected in ((4, 40), (16, 28), (28, 16), (40, 4)):
        sheet = LANGUAGE.sheet(LANGUAGE.encode(without(score, start, start + 4)).ids)
        assert likeliest(sheet, start, start + 4, np.array([True, False]))[0] == expected


def test_music_that_does_not_come_back_and_other_metres_are_no_sources():
    new = LANGUAGE.encode(without(of_sections("ABCDEF"), 8, 12)).ids
    assert LANGUAGE.infilling(new, 8, 12).sources == {}
    score = without(of_sections("ABABAB"), 8, 12)
    again = LANGUAGE.encode(score).ids
    assert LANGUAGE.infilling(again, 8, 12).sources
    other = score.replace(meters=Meters(*np.array([[0, 8 * 96, 12 * 96], [4, 2, 4], [4, 4, 4]])))
    assert LANGUAGE.infilling(LANGUAGE.encode(other).ids, 8, 16).sources == {}


@pytest.mark.parametrize("write", [None, [0]])
def test_bars_that_are_to_differ_return_to_no_passage_with_the_same_notes(write: list[int] | None):
    def sources(score: Score, start: int, *, differs: bool = True) -> dict[int, int]:
        ids = LANGUAGE.encode(score).ids.astype(np.int64)
        goal = LANGUAGE.infilling(ids, start, start + 4, write=write, differs=differs)
        return dict(goal.sources)

    same = of_sections("CABDCABE")  # the third section comes back as the seventh
    assert sources(same, 8, differs=False)
    assert not sources(same, 8)
    piece = piece_of(LANGUAGE, same, "same")
    rewritten = infilling(sure_playable(LANGUAGE), piece, (9, 12), Request(), write)
    assert not rewritten.goal.sources
    # A gap, and bars that are unlike all others, return as if it did not matter.
    unlike = of_sections("CAFDCABE")
    for score in (without(same, 8, 12), unlike):
        assert sources(score, 8) == sources(score, 8, differs=False) != {}
    # The next likeliest passage is one with other notes.
    again = of_sections("CABDCABDCAFD")
    sheet = LANGUAGE.sheet(LANGUAGE.encode(again).ids.astype(np.int64))
    known = np.ones(1, dtype=bool)
    assert [likeliest(sheet, 8, 12, known, differs=one)[0] for one in (False, True)] == [24, 40]


def test_rests_are_no_sources_and_do_not_make_a_return_likely():
    score = without(of_sections("ABCDEFGH"), 8, 28)
    ids = LANGUAGE.encode(score).ids.astype(np.int64)
    for bars in ((8, 12), (16, 20)):
        assert LANGUAGE.infilling(ids, *bars).sources == {}
    two = of_sections("ABABAB", tracks=2)
    notes = two.notes[(two.notes.track == 0) | (two.notes.onset_ticks < 96 * 4)]
    sheet = LANGUAGE.sheet(LANGUAGE.encode(two.replace(notes=notes)).ids)
    assert likeliest(sheet, 16, 20, np.array([False, True]))[0] == 0


@settings(max_examples=40)
@given(st.text("ABC", min_size=3, max_size=9), st.integers(0, 30), st.integers(1, 8), st.booleans())
def test_sources_name_bars_of_the_passage(form: str, start: int, size: int, one_part: bool):
    score = of_sections(form, tracks=2)
    start = min(start, 4 * len(form) - size)
    ids = LANGUAGE.encode(score).ids.astype(np.int64)
    written = np.array([True, not one_part])
    goal = LANGUAGE.infilling(ids, start, start + size, write=[0] if one_part else None)
    first, likeness = likeliest(LANGUAGE.sheet(ids), start, start + size, written)
    if likeness < LIKELY:
        assert not goal.sources
        return
    ahead = int((goal.prompt == BAR).sum()) - start - 1
    heard = np.append(goal.elsewhere, BAR)
    heard = np.split(heard, np.flatnonzero(heard == BAR))[1:-1]  # of each bar elsewhere
    said = goal.prompt[goal.prompt < VOCABULARY["style"].start]
    told = np.split(said, np.flatnonzero(said == BAR))[1:]
    bars = np.split(ids[:-1], np.flatnonzero(ids == BAR))[1:]
    assert sorted(goal.sources) == [*range(ahead + start, ahead + start + size)]
    notes = VOCABULARY["pitch"].holds
    for place, bar in enumerate(range(first, first + size), ahead + start):
        source = goal.sources[place]
        found = heard[source] if source < 0 else told[source]
        assert sorted(found[notes(found)]) == sorted(bars[bar][notes(bars[bar])])


def test_a_return_is_named_by_its_distance_and_a_plan_keeps_its_own():
    ids = LANGUAGE.encode(of_sections("ABABAB")).ids.astype(np.int64)
    for bars, token in (((12, 16), "8"), ((8, 12), "other")):
        prompt = LANGUAGE.infilling(ids, *bars).prompt
        assert VOCABULARY["return"].start + RETURNS.index(token) in prompt[-2:]
    plan = {"return": np.full(24, -1)}
    plan["return"][8:12] = plan_for({"form": "A A A A"}, 4)["return"]
    asked = LANGUAGE.infilling(ids, 8, 12, plan=plan)
    assert not asked.sources
    assert RETURN_OTHER not in asked.prompt


@pytest.mark.parametrize("form", ["CABDEFGHABC", "CABHCABDEFG"])
def test_recall_fills_a_gap_with_what_is_elsewhere(form: str):
    """Recall is the only source: the model is untrained, and the bars occur only far after the gap, or only before."""
    score, section = of_sections(form), form.rindex("B") if form[4] == "C" else 2
    start, stop = 4 * section, 4 * section + 4
    emptied = LANGUAGE.encode(without(score, start, stop)).ids.astype(np.int64)
    goal = LANGUAGE.infilling(emptied, start, stop)
    work = TokenCompletion(sure_playable(LANGUAGE), goal, Request(seed=1))
    written, true = (
        LANGUAGE.decode(work.finish().whole()),
        LANGUAGE.decode(LANGUAGE.encode(score).ids),
    )
    assert f1(true, written, start, stop) == 1
