"""Promises that hold for any model: random tokens under the grammar keep metre, ranges, single voices and endings."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.pieces import empty_prompt
from tests.evaluation.toys import toy_playable
from tests.tokenization.ensemble.test_ensemble import written
from tokenization.analysis.chords import key
from tokenization.analysis.metres import bar_lines
from tokenization.analysis.playing import Playing
from tokenization.ensemble.beginning import key_of
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.promises import AT_ONCE, DRUMMED, FULLER, HIGHEST, LOWEST
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    BAR,
    DRUMS,
    HARMONY,
    LENGTHS,
    METRE_STEPS,
    PART_NAMES,
    PITCHED,
)
from tokenization.score import Notes, Score, Track

LANGUAGE = Ensemble()
PARTS = ["flute", "horn", "violin", "piano", "nylon_guitar", "electric_bass", "drums"]
IDEA = {"parts": PARTS, "key": "F# minor", "metre": "3/4"}
PROMISES = {"free": False}


def new_piece(seed: int, bars: int = 6, ends: bool = False, **idea: object) -> np.ndarray:
    prompt, _ = LANGUAGE.beginning({**IDEA, **idea})
    grammar = LANGUAGE.grammar(prompt, bars=bars, ends=ends, **PROMISES)
    return written(grammar, prompt, seed, 100_000 if ends else 1200)


def parts_of(sheet: Sheet) -> Iterator[tuple[int, str, np.ndarray]]:
    """Return the index, the instrument and the events of each part with notes."""
    for part, instrument in enumerate(sheet.parts.tolist()):
        own = sheet.part == part
        if instrument != HARMONY and own.any():
            yield part, PART_NAMES[instrument], own


@pytest.mark.parametrize("seed", range(6))
def test_a_new_piece_keeps_metre_ranges_and_notes_at_once(seed: int):
    sheet = LANGUAGE.sheet(new_piece(seed))
    assert len({*sheet.bars.metre.tolist()}) == 1
    for part, name, own in parts_of(sheet):
        instrument = sheet.parts[part]
        if instrument < PITCHED:
            value = sheet.value[own]
            assert LOWEST[instrument] <= value.min() <= value.max() <= HIGHEST[instrument], name
        most = AT_ONCE[instrument] if instrument < PITCHED else DRUMMED
        assert np.unique(sheet.onset[own], return_counts=True)[1].max() <= most, name


@pytest.mark.parametrize("seed", range(4))
def test_parts_that_were_asked_for_play(seed: int):
    """No part rests for more than five bars."""
    sheet = LANGUAGE.sheet(new_piece(seed, bars=24))
    bars = len(sheet.bars) - 1  # the last one can be cut
    for part, instrument in enumerate(sheet.parts.tolist()):
        if instrument != HARMONY:
            played = np.unique(sheet.bar[sheet.part == part])
            gaps = np.diff(np.concatenate([[-1], played[played < bars], [bars]]))
            assert gaps.max() <= 5, PART_NAMES[instrument]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("metre", ["4/4", "3/4", "6/8", "5/4"])
def test_an_ending_is_one_held_tonic_chord(seed: int, metre: str):
    ids = new_piece(seed, bars=4, ends=True, metre=metre)
    sheet = LANGUAGE.sheet(ids)
    last = sheet.bar == len(sheet.bars) - 1
    steps = int(METRE_STEPS[sheet.bars.metre[-1]])
    start = sheet.onset[last].min()
    tonic = {6, 9, 1}  # F sharp minor
    played = 0
    for part, name, every in parts_of(sheet):
        own = every & last
        if not own.any():
            continue
        played += 1
        assert (sheet.onset[own] == start).all(), name
        if sheet.parts[part] < PITCHED:
            assert {*(sheet.value[own] % 12).tolist()} <= tonic, name
            assert (4 * LENGTHS[sheet.length[own]] >= 3 * steps).all(), name
        if name == "electric_bass":
            assert sheet.value[own].min() % 12 == 6
    assert start % 1 == 0
    assert played >= 1


def test_an_ending_is_held_where_the_given_notes_are_played_short():
    lengths = np.unique(LENGTHS)
    prompt = empty_prompt(LANGUAGE, {**IDEA, "parts": ["piano"]})
    velocity = np.full(len(lengths), 64)
    playing = Playing(
        onset=0 * lengths,
        track=0 * lengths,
        heard=(velocity, lengths),
        exact=(velocity, 0 * lengths + 1),
    )
    work = Continuation(
        toy_playable(LANGUAGE), replace(prompt, playing=playing), Request(bars=3, ends=True)
    )
    [take] = work.finish().takes()
    notes, (start, stop) = take.score.notes, bar_lines(take.score, 3)[-2:]
    last = notes.onset_ticks >= start
    assert last.any()
    assert (notes.duration_ticks[~last] == 1).any()
    assert (4 * notes.duration_ticks[last] >= 3 * (stop - start)).all()


def song(*, low: int = 50, chords: bool = False) -> np.ndarray:
    """Return four bars of a horn and a piano, with an end."""
    horn = [f"at_{24 * beat} length_24 loudness_8 pitch_{low + beat}"
            + (f" pitch_{low + 12 + beat}" if chords else "") for beat in range(4)]  # fmt: skip
    bars = [f"bar horn {' '.join(horn)} piano at_0 length_96 loudness_7 pitch_48 pitch_55"] * 4
    text = "begin horn piano " + " ".join(bars)
    return np.array([LANGUAGE.vocabulary.id(name) for name in text.split()])


@pytest.mark.parametrize("chords", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_given_part_keeps_to_what_it_did(seed: int, chords: bool):
    prompt = np.append(song(low=24, chords=chords), BAR)
    grammar = LANGUAGE.grammar(prompt, prompt_bars=4, bars=8, **PROMISES)
    sheet = LANGUAGE.sheet(written(grammar, prompt, seed, 4000))
    new = (sheet.part == 0) & (sheet.bar >= 4)
    assert new.any()
    assert sheet.value[new].min() >= 24  # lower than players go, as given
    together = new.sum() - len(np.unique(sheet.onset[new]))
    assert (together > 0) == chords
    piano = (sheet.part == 1) & (sheet.bar >= 4)
    sizes = np.unique(sheet.onset[piano], return_counts=True)[1]
    assert 2 < sizes.max() <= 2 + FULLER[0]  # two before, four times


@pytest.mark.parametrize("free", [False, True])
def test_new_bars_return_to_no_bar_of_another_metre(free: bool):
    bar = "horn at_0 length_24 loudness_8 pitch_60 bar "
    text = f"begin horn bar metre_3/4 {bar * 3}metre_4/4 {bar * 2}"
    prompt = np.array([LANGUAGE.vocabulary.id(name) for name in text.split()])
    grammar = LANGUAGE.grammar(prompt, prompt_bars=5, bars=2, free=free)
    grammar.take(prompt)
    mask = grammar.allowed()[0]
    may = [bool(mask[LANGUAGE.vocabulary.id(f"return_{back}")]) for back in (1, 2, 4)]
    assert may == [True, True, free]


def test_what_is_free_is_not_bound():
    prompt = np.append(song(), BAR)
    highest, metres = [], []
    for seed in range(4):
        grammar = LANGUAGE.grammar(prompt, prompt_bars=4, bars=8)
        sheet = LANGUAGE.sheet(written(grammar, prompt, seed, 4000))
        new = (sheet.part == 0) & (sheet.bar >= 4)
        highest += sheet.value[new].tolist()
        metres.append(len({*sheet.bars.metre.tolist()}))
    assert max(highest) > HIGHEST[PART_NAMES.index("horn")]
    assert max(metres) > 1


@pytest.mark.parametrize("seed", range(3))
def test_goals_keep_promises_too(seed: int):
    ids = np.append(song(), LANGUAGE.end).astype(np.uint16)
    gap = LANGUAGE.infilling(ids, 1, 3)
    filled = LANGUAGE.sheet(gap.whole(written(gap.grammar, gap.prompt, seed)))
    horn = filled.part == list(filled.parts).index(PART_NAMES.index("horn"))
    assert len(np.unique(filled.onset[horn])) == horn.sum()
    goal = LANGUAGE.accompanying(ids, ["clarinet", "drums"])
    joined = LANGUAGE.sheet(goal.whole(written(goal.grammar, goal.prompt, seed)))
    clarinet = joined.part == list(joined.parts).index(PART_NAMES.index("clarinet"))
    assert clarinet.any()
    assert len(np.unique(joined.onset[clarinet])) == clarinet.sum()
    assert joined.value[clarinet].min() >= LOWEST[PART_NAMES.index("clarinet")]
    assert DRUMS in joined.parts


def test_a_key_signature_is_followed_where_the_notes_fit_it():
    pitch, weight = np.array([60, 62, 64, 65, 67, 69, 71]), np.ones(7)
    assert key(pitch, weight + (pitch == 60) + (pitch == 67)) == 0
    assert key(pitch, weight + (pitch == 60) + (pitch == 67), None, (0, True)) == 12 + 9
    assert key(pitch, weight + (pitch == 69) + (pitch == 64), None, (0, False)) == 12 + 9
    assert key(pitch, weight, None, (5, True)) == key(pitch, weight)  # B flat minor: no


def test_the_key_hears_the_bass():
    """A minor with many notes of C major, over a bass that begins and ends on A."""
    bars = [
        "bar piano at_0 length_48 loudness_8 pitch_45 at_24 pitch_60 pitch_64 pitch_67 at_48 pitch_60 pitch_64"
    ] * 4
    text = "begin piano " + " ".join(bars)
    ids = np.array([LANGUAGE.vocabulary.id(name) for name in text.split()])
    assert key_of(LANGUAGE.sheet(ids)) == 12 + 9


@pytest.mark.parametrize(("program", "length", "kept"), [
    (0, 24, False), (0, 48, True), (73, 48, False),
])  # fmt: skip
def test_new_notes_of_one_voice_do_not_overlap_unless_the_part_rings(program, length, kept):
    """A melody of 16 given notes, then four new ones that last two beats each."""
    onset = np.arange(20) * 24
    new = onset >= 16 * 24
    notes = Notes(onset, np.where(new, 48, length), onset % 9 + 60, onset * 0 + 80, onset * 0)
    score = Score(ticks_per_beat=24, notes=notes, tracks=(Track("", program),))
    found = LANGUAGE.finished(score, new).notes.duration_ticks
    assert found[~new].tolist() == [length] * 16
    assert found[new].tolist() == ([48] * 4 if kept else [24, 24, 24, 48])
    chords = score.replace(notes=Notes.concatenate([notes, notes.replace(pitch=notes.pitch + 4)]))
    assert LANGUAGE.finished(chords, np.tile(new, 2)) == chords
