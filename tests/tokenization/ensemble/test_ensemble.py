"""The ensemble language: exact both ways, its grammar, its layouts and its goals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenization.analysis.metres import METRES
from tokenization.ensemble import layouts
from tokenization.ensemble.goals import accompanying, directed, infilling
from tokenization.ensemble.grammar import EnsembleGrammar
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.spelling import Reading
from tokenization.ensemble.tokens import (
    AFTER,
    BAR,
    BEGIN,
    END,
    HARMONY,
    LENGTHS,
    LOUDNESS,
    PART_NAMES,
    PLAN,
    PLAN_START,
    PLAN_STOP,
    VOCABULARY,
    nearest_length,
    transposition,
)
from tokenization.grammar import Grammar
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

LANGUAGE = Ensemble()
TRACKS = (
    Track("Lead", 73), Track("Right", 0), Track("Left", 0), Track("Bass", 33), Track("Kit", 0, True),
)  # fmt: skip


@st.composite
def scores(draw: st.DrawFn) -> Score:
    """Draw a score on the grid: parts that rest, unisons between parts, long notes, any metres."""
    count = draw(st.integers(1, 60))
    tracks = draw(st.permutations(TRACKS))[: draw(st.integers(1, len(TRACKS)))]
    seed = draw(st.integers(0, 1 << 32))
    random = np.random.default_rng(seed)
    flat = draw(st.booleans())
    onset = np.append(0, random.integers(0, 24 * 24, count - 1) * random.choice([1, 2, 3, 6]))
    notes = Notes(
        onset,
        random.choice(LENGTHS, count),
        random.integers(40, 80, count),
        np.full(count, 72) if flat else 8 * random.integers(0, 16, count) + 4,
        random.integers(0, len(tracks), count),
    )
    numerator, denominator = METRES[draw(st.integers(0, len(METRES) - 1))]
    markers = (Marker(0, "C_M"), Marker(96, "A_m7")) if draw(st.booleans()) else ()
    return Score(
        ticks_per_beat=24,
        notes=notes.sorted(),
        tracks=tuple(tracks),
        tempos=Tempos(np.array([0]), np.array([float(draw(st.integers(30, 250)))])),
        meters=Meters(np.array([0]), np.array([numerator]), np.array([denominator])),
        markers=markers,
    )


@settings(max_examples=60, deadline=None)
@given(scores())
def test_music_is_spelled_and_read_exactly(score: Score):
    encoded = LANGUAGE.encode(score)
    read = LANGUAGE.decode(encoded.ids, encoded.setting)
    again = LANGUAGE.encode(read)
    np.testing.assert_array_equal(again.ids, encoded.ids)
    assert LANGUAGE.decode(again.ids, again.setting).notes == read.notes
    assert read.tracks == score.tracks
    assert encoded.notes == len(read.notes)
    assert _faults_of_the_grammar(encoded.ids) is None
    assert LANGUAGE.validate(encoded.ids) is None


@settings(max_examples=40, deadline=None)
@given(scores(), st.integers(0, 1 << 32))
def test_faults_are_those_of_the_grammar(score: Score, seed: int):
    """What is found by spelling again is what reading token by token finds."""
    ids = LANGUAGE.encode(score).ids.astype(np.int64)
    random = np.random.default_rng(seed)
    place = int(random.integers(len(ids)))
    ids[place] = random.integers(layouts.EXTRA_START)
    assert LANGUAGE.first_fault(ids[: place + 40]) == _faults_of_the_grammar(ids[: place + 40])
    assert LANGUAGE.first_fault(ids[:place]) is None


def _faults_of_the_grammar(ids: np.ndarray) -> int | None:
    grammar = EnsembleGrammar()
    for place, token in enumerate(ids):
        if not grammar.allowed()[0, token]:
            return place
        grammar.advance(np.array([token]))
    return None


def walk(grammar: Grammar, start: np.ndarray, seed: int, most: int = 400) -> np.ndarray:
    """Return a random sequence that a grammar allows, which begins with `start`."""
    random = np.random.default_rng(seed)
    ids = list(start)
    for token in start:
        grammar.advance(np.array([token]))
    kinds = LANGUAGE.kinds()
    while len(ids) < most and (not ids or ids[-1] != END):
        allowed = grammar.allowed()[0].copy()
        assert allowed.any(), "there is always a way on"
        if allowed[:END].any() or allowed[END + 1 :].any():
            allowed[END] &= random.random() < 0.1
        tokens = np.flatnonzero(allowed)
        kind = random.choice(np.unique(kinds[tokens]))
        token = grammar.instead(random.choice(tokens[kinds[tokens] == kind], 1))
        grammar.advance(token)
        ids.append(int(token[0]))
    return np.array(ids)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_grammar_allows_is_valid(seed: int):
    ids = walk(EnsembleGrammar(), np.array([], dtype=np.int64), seed)
    assert LANGUAGE.validate(ids) is None
    plain = layouts.plain(ids)
    assert _faults_of_the_grammar(plain) is None
    for stop in range(0, len(plain), 7):
        LANGUAGE.decode(plain[:stop] if stop else plain)


def test_a_batch_is_each_row_alone():
    starts = [walk(EnsembleGrammar(), np.array([], dtype=np.int64), seed, 120) for seed in range(4)]
    together = EnsembleGrammar().select(np.zeros(4, dtype=np.int64))
    alone = [EnsembleGrammar() for _ in starts]
    for place in range(min(map(len, starts)) - 1):
        tokens = np.array([start[place] for start in starts])
        together.advance(tokens)
        for row, grammar in enumerate(alone):
            grammar.advance(tokens[row : row + 1])
            np.testing.assert_array_equal(together.allowed()[row], grammar.allowed()[0])


@settings(max_examples=40, deadline=None)
@given(scores(), st.randoms())
def test_parts_stand_in_any_order(score: Score, random):
    ids = LANGUAGE.encode(score).ids.astype(np.int64)
    order = [*range(len(Reading(ids).parts))]
    random.shuffle(order)
    moved = layouts.with_parts(ids, order)
    assert LANGUAGE.validate(moved) is None
    np.testing.assert_array_equal(layouts.with_parts(moved, np.argsort(order)), ids)
    some = layouts.with_parts(ids, order[:1])
    assert len(Reading(some).parts) == 1


@settings(max_examples=40, deadline=None)
@given(scores(), st.integers(-5, 5))
def test_music_is_transposed(score: Score, semitones: int):
    ids = LANGUAGE.encode(score).ids
    moved = LANGUAGE.decode(transposition(semitones)[ids])
    drums = moved.on_drums
    before = LANGUAGE.decode(ids)
    np.testing.assert_array_equal(
        np.sort(moved.notes.pitch[~drums]), np.sort(before.pitched.pitch + semitones)
    )
    np.testing.assert_array_equal(
        np.sort(moved.notes.pitch[drums]), np.sort(before.notes.pitch[before.on_drums])
    )


@settings(max_examples=40, deadline=None)
@given(scores())
def test_a_plan_is_computed_said_and_taken_away(score: Score):
    ids = LANGUAGE.encode(score).ids.astype(np.int64)
    plan = layouts.plan_of(LANGUAGE.sheet(ids))
    assert tuple(plan) == PLAN
    planned = layouts.planned(ids, plan)
    assert LANGUAGE.validate(planned) is None
    np.testing.assert_array_equal(layouts.plain(planned), ids)
    said = [int((planned >= VOCABULARY[name].start).sum()) for name in PLAN[:1]]
    assert said[0] >= len(LANGUAGE.bars(ids))
    ended = layouts.planned(layouts.ending(ids, 4), plan)
    np.testing.assert_array_equal(layouts.plain(ended), ids)
    about = layouts.about(planned, style="pop", key=3)
    assert LANGUAGE.validate(about) is None
    np.testing.assert_array_equal(layouts.plain(about), ids)


def test_a_plan_by_hand():
    """Two bars alike, a fuller and higher one, an empty one, and a return over four bars."""
    onset, pitch = [], []
    for bar, (steps, key) in enumerate([(4, 60), (4, 60), (16, 72), (0, 0), (4, 60)]):
        onset += [96 * bar + 96 * step // steps for step in range(steps)]
        pitch += [key + step % 4 for step in range(steps)]
    count = len(onset)
    notes = Notes(onset, np.full(count, 6), pitch, np.full(count, 100), np.zeros(count))
    score = Score(ticks_per_beat=24, notes=notes, tracks=(Track("Piano", 0),))
    plan = layouts.plan_of(LANGUAGE.sheet(LANGUAGE.encode(score).ids))
    assert plan["return"].tolist() == [0, 1, 0, layouts.NO_LEVEL, 3]
    assert plan["density"].tolist() == [2, 2, 4, 0, 2]
    assert plan["register"].tolist() == [4, 4, 7, layouts.NO_LEVEL, 4]
    assert plan["players"].tolist() == [0, 0, 0, layouts.NO_LEVEL, 0]
    assert plan["dynamics"].tolist() == [6, 6, 6, layouts.NO_LEVEL, 6]


def song() -> Score:
    """Return eight bars of a melody, two hands and drums, with chords and a bar of 3/4."""
    random = np.random.default_rng(5)
    count = 160
    onset = np.append(0, random.integers(0, 8 * 96 // 6, count - 1) * 6)
    notes = Notes(
        onset, random.choice([6, 12, 24], count), random.integers(45, 80, count),
        8 * random.integers(0, 16, count) + 4, random.integers(0, 4, count),
    )  # fmt: skip
    return LANGUAGE.arrange(
        Score(
            ticks_per_beat=24,
            notes=notes.sorted(),
            tracks=(TRACKS[0], TRACKS[1], TRACKS[2], TRACKS[4]),
            tempos=Tempos(np.array([0]), np.array([100.0])),
            meters=Meters(np.array([0, 384, 456]), np.array([4, 3, 4]), np.array([4, 4, 4])),
        )
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("start", "stop"), [(0, 2), (3, 6), (6, 8)])
def test_a_gap_is_filled_and_the_rest_stays(start: int, stop: int, seed: int):
    encoded = LANGUAGE.encode(song())
    before = LANGUAGE.decode(encoded.ids)
    goal = infilling(LANGUAGE, encoded.ids, start, stop)
    written = walk(goal.grammar, goal.prompt, seed, 4000)
    after = LANGUAGE.decode(goal.whole(written))
    lines = np.array([0, 96, 192, 288, 384, 456, 552, 648, 744, 840])
    line, seam = lines[[start, stop]]
    for one, other in ((before, after), (after, before)):
        outside = (one.notes.onset_ticks < line) | (one.notes.onset_ticks >= seam)
        kept = {
            *zip(
                *(c[outside].tolist() for c in one.notes.columns[:1] + one.notes.columns[2:]),
                strict=True,
            )
        }
        there = {
            *zip(
                *(c.tolist() for c in other.notes.columns[:1] + other.notes.columns[2:]),
                strict=True,
            )
        }
        assert kept <= there
    assert after.meters == before.meters
    assert (written == BAR).sum() >= stop


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("write", [["drums"], ["violin"], ["piano_2"], ["chords"]])
def test_parts_are_written_to_the_others(write: list[str], seed: int):
    encoded = LANGUAGE.encode(song())
    before = LANGUAGE.decode(encoded.ids, encoded.setting)
    goal = accompanying(LANGUAGE, encoded.ids, write)
    written = walk(goal.grammar, goal.prompt, seed, 8000)
    assert written[-1] == END
    whole = goal.whole(written)
    after = LANGUAGE.decode(whole, encoded.setting)
    assert len(LANGUAGE.bars(whole)) <= len(LANGUAGE.bars(encoded.ids))
    given = ~np.isin(before.notes.track, goal.tracks)
    new = np.isin(after.notes.track, goal.tracks)
    assert after.notes[~new] == before.notes[given]
    names = {part for name in write for part in [name.rpartition("_2")[0] or name]}
    for track in goal.tracks:
        named = PART_NAMES[Reading(whole).parts[Reading(whole).parts != HARMONY][track]]
        assert named in names
    broken = goal.whole(written[: len(written) * 2 // 3])
    assert LANGUAGE.validate(broken) is None


def test_a_plan_can_be_asked_for():
    encoded = LANGUAGE.encode(song())
    bars = len(LANGUAGE.bars(encoded.ids))
    plan = {"density": np.arange(bars) % 8, "return": np.full(bars, layouts.NO_LEVEL)}
    goal = accompanying(LANGUAGE, encoded.ids, ["drums"], plan=plan)
    written = walk(goal.grammar, goal.prompt, 1, 8000)
    said = written[(written >= PLAN_START) & (written < PLAN_STOP)]
    np.testing.assert_array_equal(said[:bars], VOCABULARY["density"].start + plan["density"])


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        ([], "no part is named"),
        (["kazoo"], "there is no instrument 'kazoo'"),
        (["flute", "piano", "piano_2", "drums"], "nothing to write"),
        (["violin", "viola", "cello", *PART_NAMES[5:14]], "parts; 16 can be written"),
    ],
)
def test_what_cannot_be_written_is_said(write: list[str], reason: str):
    with pytest.raises(ValueError, match=reason):
        accompanying(LANGUAGE, LANGUAGE.encode(song()).ids, write)


@pytest.mark.parametrize("ends", [False, True])
def test_music_goes_on_by_a_plan_and_over_chords(ends: bool):
    encoded = LANGUAGE.encode(song())
    prompt = np.append(encoded.ids[: encoded.bars[4]], BAR).astype(np.int64)
    plan = LANGUAGE.plan({"density": [1, 2, 4, None], "form": "A B B A"}, 4)
    chords = [["C_M"], ["F_M", "G_7"]]
    grammar = directed(LANGUAGE, prompt, 4, ends=ends, chords=chords, plan=plan)
    written = walk(grammar, prompt, 3, 100_000 if ends else 1500)
    new = LANGUAGE.text(written[len(prompt) - 1 :]).splitlines()[:4]
    left = [f"left_{4 - bar} " if ends else "" for bar in range(4)]
    asked = [f"bar {left[0]}return_new density_2", f"bar {left[1]}return_new density_3",
             f"bar {left[2]}return_1 density_4", f"bar {left[3]}return_other"]  # fmt: skip
    said = ["chords at_0 chord_C_M", "chords at_0 chord_F_M at_48 chord_G_7"] * 2
    for line, first, chord in zip(new, asked, said, strict=True):
        assert line.startswith(f"{first} {chord}")
        assert line.count("chords") == 1
    assert written[-1] == END if ends else (written == BAR).sum() > 8
    assert LANGUAGE.validate(layouts.plain(written)) is None


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"tempo": 3}, "a plan has no 'tempo'"),
        ({"density": [1, 2]}, "has 2 numbers for 8 bars"),
        ({"density": 100}, "density is 100; it goes from 0 to 24"),
        ({"register": "high"}, "register is 'high'; it goes from 0 to 127"),
        ({"form": "A A B"}, "3 sections, which do not divide 8 bars"),
        ({"form": "B A"}, "names B before A"),
    ],
)
def test_what_cannot_be_planned_is_said(asked: dict, reason: str):
    with pytest.raises(ValueError, match=reason):
        LANGUAGE.plan(asked, 8)


def test_musical_time_goes_back_for_each_part():
    import torch

    from musicgen.metre.clock import Clock, Timekeeper
    from tokenization.records import from_plain

    ids = LANGUAGE.encode(song()).ids.astype(np.int64)
    clock = from_plain(Clock, LANGUAGE.clock(), "clock")
    after = Timekeeper(clock, len(VOCABULARY)).after(torch.tensor(ids)[None], torch.zeros(1).long())
    reading = Reading(ids)
    expected = (reading.bar + 1) * 48 + (np.maximum(reading.step, 0) + 1) // 3
    inside = reading.bar >= 0
    np.testing.assert_array_equal(after[0].numpy()[inside], expected[inside])
    assert (np.diff(expected) < 0).any()


def test_lengths_and_names():
    assert LENGTHS[nearest_length(np.array([1, 5, 11, 23, 1000]))].tolist() == [1, 6, 12, 24, 384]
    assert len(LOUDNESS) == 16
    assert VOCABULARY.names[BEGIN] == "begin"
    assert VOCABULARY.names[AFTER] == "after"
