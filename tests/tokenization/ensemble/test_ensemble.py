"""The ensemble language: the order of parts, plans, goals, and beginnings of new pieces."""

import re
from collections import defaultdict
from collections.abc import Callable
from math import floor, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.pieces import empty_prompt, piece_of
from tests.evaluation.toys import toy_playable
from tests.tokenization.ensemble.cases import LANGUAGE, scores, song
from tests.tokenization.grammar_cases import uniform
from tests.tokenization.grammar_cases import written as written_by
from tests.training.data.sources.on_disk import band
from tokenization.analysis.chords import ROOTS
from tokenization.ensemble.beginning import with_style_and_key
from tokenization.ensemble.grammar import EnsembleGrammar
from tokenization.ensemble.language import ACCENTS
from tokenization.ensemble.plan import NO_LEVEL, plan_of, with_plan
from tokenization.ensemble.sequences import bar_offsets, plain, with_countdown, with_parts
from tokenization.ensemble.spelling import Reading, closed, spell
from tokenization.ensemble.tokens import (
    AT,
    BAR,
    BEGIN,
    DRUMS,
    END,
    HARMONY,
    LENGTH,
    LENGTHS,
    LOUDNESS,
    PART,
    PART_NAMES,
    PITCH,
    PLAN,
    STEPS_PER_BEAT,
    STEPS_PER_SUBBEAT,
    VOCABULARY,
    loudness_of,
)
from tokenization.grammar import Grammar
from tokenization.language import transposed
from tokenization.midi.reading import read_midi
from tokenization.score import Meters, Notes, Score, Track

KINDS = LANGUAGE.kinds()


def by_kind(random: np.random.Generator, allowed: np.ndarray) -> int:
    """Choose a kind, then a token of it; the end only rarely if the music can continue."""
    if len(allowed) > 1 and random.random() > 0.1:
        allowed = allowed[allowed != END]
    kind = random.choice(np.unique(KINDS[allowed]))
    return uniform(random, allowed[KINDS[allowed] == kind])


def written(grammar: Grammar, prompt: np.ndarray, seed: int, most: int = 100_000) -> np.ndarray:
    return written_by(grammar, prompt, seed, END, by_kind, most, checked=False)


def nearest(steps: int) -> int:
    """Return the note value whose ratio to a length is nearest to 1; the longer one of two."""
    return min(LENGTHS, key=lambda value: (round(abs(log(value / steps)), 9), -value))


def expected_notes(score: Score) -> set[tuple[int, ...]]:
    """Return the notes of an arranged score on the grid as (track, pitch, step, length, level), one by one.

    A length is the nearest note value, or the longest one that fits before the key is struck again.
    """
    keys: defaultdict = defaultdict(lambda: defaultdict(list))
    columns = (column.tolist() for column in score.notes.columns)
    for onset, duration, pitch, velocity, track in zip(*columns, strict=True):
        ticks = score.ticks_per_beat
        step, steps = (floor(at * 24 / ticks + 0.5) for at in (onset, duration))
        keys[track, pitch][step].append((max(1, steps), velocity))
    notes = set()
    for (track, pitch), struck in keys.items():
        at = sorted(struck)
        for step, following in zip(at, [*at[1:], None], strict=True):
            steps, velocity = (max(each) for each in zip(*struck[step], strict=True))
            length = nearest(steps)
            if following is not None and length > following - step:
                length = max(value for value in LENGTHS if value <= following - step)
            kept = 0 if score.tracks[track].is_drum else int(length)
            notes.add((track, pitch, step, kept, velocity // 8))
    return notes


@pytest.mark.parametrize("plays", [False, True])
def test_silent_tracks_are_parts_unless_tracks_are_chosen(plays: bool):
    kit, spare = Track("Kit", 0, True), Track("Spare kit", 0, True)
    tracks = (Track("Flute", 73), kit, Track("Right"), spare)
    notes = Notes([0, 96], [24, 24], [60, 62], [80, 90], [2, 1 if plays else 2])
    score = Score(ticks_per_beat=24, notes=notes, tracks=tracks)
    found = LANGUAGE.arrange(score)
    assert [track.name for track in found.tracks] == ["Flute", "Kit", "Right"]
    parts = LANGUAGE.part_names(LANGUAGE.encode(found).ids)
    assert parts == ("flute", "drums", "piano")
    assert [track.name for track in LANGUAGE.arrange(score, ["Right", "Flute"]).tracks] == ["Right"]


def test_notes_off_the_grid_are_rounded():
    score = band(3)
    random, count = np.random.default_rng(1), len(score.notes)
    notes = score.notes.replace(
        onset_ticks=score.notes.onset_ticks + random.integers(0, 60, count),
        duration_ticks=random.integers(1, 4000, count),
        velocity=random.integers(1, 128, count),
        pitch=score.notes.pitch // 4 * 4,  # so that keys are struck again while they sound
    )
    score = LANGUAGE.arrange(score.replace(notes=notes.sorted(), beats_known=True))
    spelled = LANGUAGE.encode(score)
    read = LANGUAGE.decode(spelled.ids, spelled.setting)
    onset, duration, pitch, velocity, track = read.notes.columns
    columns = (track, pitch, onset, duration * ~read.on_drums, velocity // 8)
    assert {*zip(*(c.tolist() for c in columns), strict=True)} == expected_notes(score)


@settings(max_examples=30)
@given(scores(), st.randoms())
def test_parts_can_be_reordered(score: Score, random):
    ids = LANGUAGE.encode(score).ids.astype(np.int64)
    order = [*range(len(Reading(ids).parts))]
    random.shuffle(order)
    moved = with_parts(ids, order)
    assert LANGUAGE.validate(moved) is None
    assert with_parts(moved, np.argsort(order)).tolist() == ids.tolist()
    assert len(Reading(with_parts(ids, order[:1])).parts) == 1


@settings(max_examples=30)
@given(scores(), st.integers(-5, 5))
def test_all_but_drums_is_transposed(score: Score, semitones: int):
    ids = LANGUAGE.encode(score).ids
    before, moved = LANGUAGE.decode(ids), LANGUAGE.decode(transposed(VOCABULARY, ids, semitones))
    expected = before.notes.pitch + semitones * ~before.on_drums
    for drums in (False, True):
        assert sorted(moved.notes.pitch[moved.on_drums == drums]) == sorted(
            expected[before.on_drums == drums]
        )


@settings(max_examples=30)
@given(scores())
def test_a_plan_is_added_and_removed(score: Score):
    ids = LANGUAGE.encode(score).ids.astype(np.int64)
    plan = plan_of(LANGUAGE.sheet(ids))
    assert tuple(plan) == PLAN
    planned = with_plan(ids, plan)
    assert LANGUAGE.validate(planned) is None
    assert (planned >= VOCABULARY[PLAN[0]].start).sum() >= len(LANGUAGE.bars(ids))
    about = with_style_and_key(planned, style="pop", key=3)
    assert LANGUAGE.validate(about) is None
    for extended in (planned, about, with_plan(with_countdown(ids, 4), plan)):
        assert plain(extended).tolist() == ids.tolist()


def test_the_plan_of_a_small_piece():
    """Two equal bars, a denser and higher one, an empty one, and a return over four bars."""
    onset, pitch = [], []
    for bar, (steps, key) in enumerate([(4, 60), (4, 60), (16, 72), (0, 0), (4, 60)]):
        onset += [96 * bar + 96 * step // steps for step in range(steps)]
        pitch += [key + step % 4 for step in range(steps)]
    count = len(onset)
    notes = Notes(onset, np.full(count, 6), pitch, np.full(count, 100), np.zeros(count))
    score = Score(ticks_per_beat=24, notes=notes, tracks=(Track("Piano", 0),))
    plan = plan_of(LANGUAGE.sheet(LANGUAGE.encode(score).ids))
    assert {name: levels.tolist() for name, levels in plan.items()} == {
        "return": [0, 1, 0, NO_LEVEL, 3],
        "density": [2, 2, 4, 0, 2],
        "register": [4, 4, 7, NO_LEVEL, 4],
        "dynamics": [6, 6, 6, NO_LEVEL, 6],
        "players": [0, 0, 0, NO_LEVEL, 0],
    }


def onsets(score: Score, outside: np.ndarray | None = None) -> set[tuple[int, ...]]:
    """Return the notes without their lengths, all or those of a mask."""
    notes = score.notes if outside is None else score.notes[outside]
    columns = notes.columns[:1] + notes.columns[2:]
    return {*zip(*(column.tolist() for column in columns), strict=True)}


@pytest.mark.parametrize(("start", "stop", "seed"), [(0, 2, 0), (3, 6, 1), (6, 8, 2), (4, 5, 3)])
def test_a_gap_is_filled_and_other_notes_stay(start: int, stop: int, seed: int):
    ids = LANGUAGE.encode(song()).ids
    before = LANGUAGE.decode(ids)
    goal = LANGUAGE.infilling(ids, start, stop)
    sequence = written(goal.grammar, goal.prompt, seed, 4000)
    after = LANGUAGE.decode(goal.whole(sequence))
    lines = np.array([0, 96, 192, 288, 384, 456, 552, 648, 744, 840])
    line, seam = lines[[start, stop]]
    for one, other in ((before, after), (after, before)):
        outside = (one.notes.onset_ticks < line) | (one.notes.onset_ticks >= seam)
        assert onsets(one, outside) <= onsets(other)
    assert after.meters == before.meters
    assert (sequence == BAR).sum() >= stop


@pytest.mark.parametrize(("bars", "end"), [((3, 4), 384), ((3, 5), 456), ((7, 9), 1104)])
def test_a_new_note_ends_with_the_gap_or_rings_after_the_piece(bars: tuple[int, int], end: int):
    goal = LANGUAGE.infilling(LANGUAGE.encode(song()).ids, *bars)
    note = ["piano", "at_72", "length_384", "loudness_7", "pitch_99"]
    new = [LANGUAGE.vocabulary.id(name) for name in note]
    notes = LANGUAGE.decode(goal.whole(np.append(goal.prompt, new))).notes
    assert notes.end_ticks[notes.pitch == 99].tolist() == [end]


@pytest.mark.parametrize(
    ("write", "seed"), [("drums", 0), ("violin", 1), ("piano_2", 2), ("chords", 3), ("drums", 4)]
)
def test_parts_are_written_to_others(write: str, seed: int):
    encoded = LANGUAGE.encode(song())
    before = LANGUAGE.decode(encoded.ids, encoded.setting)
    goal = LANGUAGE.accompanying(encoded.ids, [write])
    sequence = written(goal.grammar, goal.prompt, seed, 8000)
    assert sequence[-1] == END
    whole = goal.whole(sequence)
    after = LANGUAGE.decode(whole, encoded.setting)
    assert len(LANGUAGE.bars(whole)) <= len(LANGUAGE.bars(encoded.ids))
    new = np.isin(after.notes.track, goal.tracks)
    assert after.notes[~new] == before.notes[~np.isin(before.notes.track, goal.tracks)]
    parts = Reading(whole).parts
    written_parts = {PART_NAMES[parts[parts != HARMONY][track]] for track in goal.tracks}
    assert written_parts <= {write.removesuffix("_2")}
    assert LANGUAGE.validate(goal.whole(sequence[: len(sequence) * 2 // 3])) is None


def state(grammar: Grammar) -> dict[str, np.ndarray]:
    """Return the state of a grammar; sums of durations are rounded."""
    found = {}
    for name, value in vars(grammar).items():
        if isinstance(value, Grammar):
            found |= state(value)
        elif isinstance(value, np.ndarray):
            found[name] = value.round(9) if value.dtype == float else value
    return found


@settings(max_examples=30)
@given(scores(), st.data())
def test_taking_bars_at_once_equals_token_by_token(score: Score, data: st.DataObject):
    ids = LANGUAGE.encode(LANGUAGE.arrange(score)).ids.astype(np.int64)
    prompt = ids[: data.draw(st.integers(np.flatnonzero(ids == BAR)[0] + 1, len(ids) - 1))]
    given_bars = data.draw(st.integers(0, 4))
    asked = {"prompt_bars": given_bars}, {"bars": 4, "ends": True}
    for grammar in (LANGUAGE.grammar(prompt, **one) for one in asked):
        at_once, one_by_one = grammar.select(np.zeros(1, int)), grammar.select(np.zeros(1, int))
        at_once.take(prompt)
        Grammar.take(one_by_one, prompt)
        np.testing.assert_equal(state(at_once), state(one_by_one))


@pytest.mark.parametrize("beats", [3, 5])
def test_a_gap_in_any_metre_is_rewritten(beats: int):
    in_metre = song().replace(meters=Meters(*np.array([[0, beats, 4]]).T))
    goal = LANGUAGE.infilling(LANGUAGE.encode(LANGUAGE.arrange(in_metre)).ids, 3, 5)
    for position, token in enumerate(goal.prompt):
        assert goal.grammar.allowed()[0, token]
        goal.grammar.advance(goal.prompt[position : position + 1])


def test_a_new_part_plays_where_another_one_plays():
    ids = LANGUAGE.encode(song()).ids
    goal = LANGUAGE.accompanying(ids, ["drums"])
    sequence = written(goal.grammar, goal.prompt, 1, 8000)
    lines = LANGUAGE.text(sequence).splitlines()
    playing = plan_of(LANGUAGE.sheet(ids))["players"]
    drums = "drums" in LANGUAGE.part_names(ids)
    expected = [f"players_{count + 2 - drums}" for count in playing]
    assert re.findall(r"players_\d+", "\n".join(lines)) == expected
    whole = LANGUAGE.sheet(goal.whole(sequence))
    of_drums = np.flatnonzero(whole.parts == DRUMS)
    assert {*whole.bar[np.isin(whole.part, of_drums)]} >= {*np.flatnonzero(playing >= 1)}


def test_new_parts_play_on_where_one_given_part_rests_between_its_notes():
    note = "flute at_0 length_24 loudness_9 pitch_72"
    text = f"begin flute bar bar {note} bar bar {note} bar end"
    ids = np.array([LANGUAGE.vocabulary.id(name) for name in text.split()])
    goal = LANGUAGE.accompanying(ids, ["bass", "drums"])
    sequence = written(goal.grammar, goal.prompt, 1, 8000)
    lines = LANGUAGE.text(sequence).splitlines()
    planned = [re.findall(r"players_\d", line)[0] for line in lines[2:5]]
    assert planned == ["players_3", "players_2", "players_3"]
    sheet = LANGUAGE.sheet(goal.whole(sequence))
    assert {*sheet.part[sheet.bar == 2].tolist()} == {1, 2}


@pytest.mark.parametrize(("ends", "seed"), [(False, 1), *((True, seed) for seed in range(1, 7))])
def test_a_continuation_follows_a_plan_and_chords(ends: bool, seed: int):
    encoded = LANGUAGE.encode(song())
    prompt = np.append(encoded.ids[: encoded.bars[4]], BAR).astype(np.int64)
    plan = LANGUAGE.plan({"density": [1, 2, 4, None], "form": "A B B A"}, 4)
    chords = [["C_M"], ["F_M", "G_7"]]
    grammar = LANGUAGE.grammar(prompt, bars=4, ends=ends, chords=chords, plan=plan)
    sequence = written(grammar, prompt, seed, 100_000 if ends else 1500)
    new = LANGUAGE.text(sequence[len(prompt) - 1 :]).splitlines()[:4]
    expected = [
        "return_new density_2",
        "return_new density_3",
        "return_1 density_4",
        "return_other",
    ]
    chord_tokens = ["chords at_0 chord_C_M", "chords at_0 chord_F_M at_48 chord_G_7"] * 2
    if ends:  # the last bar is thinner than the bars of the prompt
        expected[-1] += " density_3"
    for bar, line in enumerate(new):
        left = f"left_{4 - bar} " if ends else ""
        assert line.startswith(f"bar {left}{expected[bar]} {chord_tokens[bar]}")
        assert line.count("chords") == 1
    assert sequence[-1] == END if ends else (sequence == BAR).sum() > 8
    ids = plain(sequence)
    assert (spell(Reading(ids).sheet())[:-1] == closed(ids[ids != END])).all()
    again = LANGUAGE.encode(LANGUAGE.decode(sequence))
    assert "cut where struck again" not in again.losses


def test_a_written_note_ends_where_its_key_is_struck_again():
    key, two_bars = PITCH.start + 60, LENGTH.start + LENGTHS.tolist().index(192)
    head = [BEGIN, PART.start]
    bar = [BAR, PART.start, AT.start, two_bars, LOUDNESS.start, key]
    later, next_bar = [*bar, AT.start + 24], [*bar, *bar[:-1]]
    # A given note blocks its key for its full length, also in the next bar.
    cases = ((0, later, True), (0, next_bar, True), (1, later, False), (1, next_bar, False))
    for given_bars, ids, may in cases:
        grammar = LANGUAGE.grammar(prompt_bars=given_bars)
        for token in [*head, *ids]:
            assert grammar.allowed()[0, token]
            grammar.advance(np.array([token]))
        assert grammar.allowed()[0, key] == may
    ids = np.array([*head, *later, key, END])
    assert LANGUAGE.decode(ids).notes.duration_ticks.tolist() == [24, 192]
    twice_at_once = np.array([*head, *bar, key, END])
    assert LANGUAGE.validate(twice_at_once) is not None


@pytest.mark.parametrize("key", [*range(0, 12, 5), 14])
def test_music_ends_in_its_latest_key(key: int):
    """After 48 bars in C major and 16 in another key."""
    home, scale = [0, 2, 4, 5, 7, 9, 11, 12], [0, 2, 3 if key > 11 else 4, 5, 7, 8, 11, 12]
    pitch = np.array([*np.tile(home, 12), *np.tile(scale, 4) + key % 12]) + 60
    onset, steady = np.arange(len(pitch)) * 48, np.full(len(pitch), 48)
    notes = Notes(onset, steady, pitch, steady, np.zeros_like(pitch))
    score = Score(ticks_per_beat=24, notes=notes, tracks=(Track(name="piano", program=0),))
    ids = LANGUAGE.encode(LANGUAGE.arrange(score)).ids
    prompt = np.append(with_style_and_key(ids[: bar_offsets(ids)[-1]], key=0), BAR)
    grammar = LANGUAGE.grammar(prompt.astype(np.int64), bars=1, ends=True)
    tonic = f"chords at_0 chord_{ROOTS[key % 12]}_{'m' if key > 11 else 'M'} "
    for seed in range(5):
        last = LANGUAGE.text(written(grammar.select(np.array([0])), prompt, seed)).splitlines()[-1]
        assert tonic in last
        assert last.count("chord_") == 1
        downbeat = last.partition("piano at_0 ")[2].partition(" at_")[0]
        tones = {(key + step) % 12 for step in (0, 3 if key > 11 else 4, 7)}
        assert {int(pitch) % 12 for pitch in re.findall(r"pitch_(\d+)", downbeat)} <= tones


def test_a_flat_prompt_gets_accents_and_keeps_its_velocity():
    score = song()
    notes = score.notes.replace(velocity=np.full(len(score.notes), 100))
    piece = piece_of(LANGUAGE, score.replace(notes=notes), "even")
    sheet = LANGUAGE.sheet(piece.prompt().ids)
    place = sheet.onset - sheet.bars.start[sheet.bar] * STEPS_PER_SUBBEAT
    loud = loudness_of(np.array(ACCENTS))
    assert not sheet.flat
    played = sheet.instrument != HARMONY
    assert set(sheet.loudness[played & (place == 0)]) == {loud[0]}
    assert set(sheet.loudness[played & (place % STEPS_PER_BEAT != 0)]) <= {*loud[2:]}
    assert set(piece.score.notes.velocity) == set(piece.prompt().score.notes.velocity) == {100}
    assert len(set(piece_of(LANGUAGE, score, "played").score.notes.velocity)) > 1


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "begin"),
        ({"key": "Eb", "tempo": 91}, "begin key_D#_major tempo_95"),
        ({"style": "drums"}, "begin style_drums drums\nbar return_new players_1"),
        (
            {"parts": ["flute", "Steel Guitar"]},
            "begin chords flute steel_guitar\nbar return_new players_2",
        ),
        (
            {"style": "song", "key": "g minor", "metre": "3/4"},
            "begin style_song key_G_minor chords voice piano piano voice_2\nbar return_new players_3 metre_3/4",
        ),
    ],
)
def test_the_prompt_of_a_new_piece(asked: dict[str, Any], text: str):
    ids, _ = LANGUAGE.beginning(asked)
    assert LANGUAGE.text(ids) == text
    assert LANGUAGE.validate(ids) is None


def test_a_new_piece_has_the_requested_key_tempo_metre_and_parts():
    asked = {"tempo": 91, "metre": "3/4", "parts": ["flute", "cello"], "key": "A minor"}
    prompt, request = empty_prompt(LANGUAGE, asked), Request(bars=3, ends=True)
    work = Continuation(toy_playable(LANGUAGE), prompt, request)
    [take] = work.finish().takes()
    assert take.score.tempos.beats_per_minute.tolist() == [91]
    assert read_midi(take.midi).key_signature == (0, True)
    assert [track.name for track in take.score.tracks] == ["Flute", "Cello"]
    assert (take.score.meters.numerator[0], take.score.meters.denominator[0]) == (3, 4)
    assert "left_1 chords at_0 chord_A_m" in LANGUAGE.text(take.ids)
    assert np.count_nonzero(take.ids == LANGUAGE.bar) == 3


def test_a_new_piece_without_attributes_ends():
    request = Request(bars=2, ends=True)
    work = Continuation(toy_playable(LANGUAGE), empty_prompt(LANGUAGE, {}), request)
    [take] = work.finish().takes()
    assert np.count_nonzero(take.ids == LANGUAGE.bar) == 2
    assert take.ids[-1] == END


@pytest.mark.parametrize("more", [{}, {"chords": [["C_M", "G_7"]]}, {"plan": {"players": 4}}])
def test_all_requested_parts_play(more: dict[str, Any]):
    """In the first bar, and in each bar whose plan has as many players as parts."""
    prompt = empty_prompt(LANGUAGE, {"parts": ["piano", "drums", "piano", "flute"], "metre": "3/4"})
    request = Request(bars=4, variations=4, **more)
    for take in Continuation(toy_playable(LANGUAGE), prompt, request).finish().takes():
        players = plan_of(LANGUAGE.sheet(LANGUAGE.close(plain(take.ids), 4)))["players"] + 1
        assert (players[0] if "plan" not in more else players.min()) == 4
        first = LANGUAGE.text(take.ids).split("\n")[1]
        chords = " chords at_0 chord_C_M at_36 chord_G_7" if "chords" in more else ""
        assert first.startswith(f"bar return_new players_4 metre_3/4{chords}")


def test_a_token_that_leaves_out_too_many_parts_becomes_the_next_part():
    head = "begin flute piano piano voice_2 harp drums bar players_3 flute at_0 length_24 loudness_9 pitch_60"
    grammar = EnsembleGrammar()
    grammar.take(np.array([LANGUAGE.vocabulary.id(name) for name in head.split()]))

    def after(token: str) -> str:
        ids = np.array([LANGUAGE.vocabulary.id(token)])
        assert grammar.allowed()[0, ids[0]]
        return LANGUAGE.vocabulary.names[grammar.instead(ids)[0]]

    assert [after(name) for name in ("bar", "end", "drums")] == ["piano"] * 3
    assert [after(name) for name in ("piano", "harp", "at_24")] == ["piano", "harp", "at_24"]
    grammar.take(np.array([LANGUAGE.vocabulary.id("piano")]))
    allowed = grammar.allowed()[0]
    assert allowed[LANGUAGE.vocabulary.id("at_0")]
    assert allowed[LANGUAGE.vocabulary.id("voice_2")]  # harp and drums are left


@pytest.mark.parametrize("planned", [1, 2, 3, 5])
def test_at_least_as_many_parts_play_as_planned(planned: int):
    names = ["drums", "piano", "flute", "piano", "piano"]
    prompt = empty_prompt(LANGUAGE, {"parts": names})
    request = Request(bars=6, variations=4, plan={"players": [5, *[planned] * 5]})
    fewer = 0
    for take in Continuation(toy_playable(LANGUAGE), prompt, request).finish().takes():
        sheet = LANGUAGE.sheet(LANGUAGE.close(plain(take.ids), 6))
        players = np.array([len({*sheet.part[sheet.bar == bar]}) for bar in range(6)])
        assert players[0] == 5
        assert players.min() >= planned
        fewer += (players < 5).sum()
    assert fewer == 0 if planned == 5 else fewer > 0


def test_the_first_bar_follows_a_plan():
    asked, plan = {"parts": ["flute", "harp"]}, {"players": [1, 2], "density": 4, "form": "A A"}
    prompt = empty_prompt(LANGUAGE, asked, plan)
    assert LANGUAGE.text(prompt.ids).endswith("return_new density_4 players_1")
    request = Request(bars=2, plan=plan)
    [take] = Continuation(toy_playable(LANGUAGE), prompt, request).finish().takes()
    first, second = LANGUAGE.text(take.ids).split("\n")[1:]
    assert first.startswith("bar return_new density_4 players_1")
    assert second.startswith("bar return_1 density_4 players_2")
    free = LANGUAGE.beginning(asked, {"players": [None, 2]})[0]
    assert LANGUAGE.text(free).endswith("bar return_new")


def test_bars_have_no_plan_if_not_wanted():
    prompt = piece_of(LANGUAGE, song(), "song").prompt(2)
    said = LANGUAGE.plan_tokens()
    assert np.isin(prompt.ids, said).any()
    for planned in (True, False):
        work = Continuation(toy_playable(LANGUAGE), prompt, Request(bars=4, planned=planned))
        [take] = work.finish().takes()
        assert np.isin(take.ids, said).any() == planned
        assert len(LANGUAGE.bars(take.ids)) == 6
    with pytest.raises(ValueError, match="needs bars that state their plan"):
        Continuation(work.model, prompt, Request(bars=4, planned=False, ends=True))


def written_to_song(*parts: str) -> object:
    return LANGUAGE.accompanying(LANGUAGE.encode(song()).ids, parts)


@pytest.mark.parametrize(
    ("ask", "asked", "reason"),
    [
        (written_to_song, [], "no part is named"),
        (written_to_song, ["kazoo"], "there is no instrument 'kazoo'"),
        (written_to_song, ["flute", "piano", "piano_2", "drums"], "piece has no other part"),
        (written_to_song, ["violin", "viola", "cello", *PART_NAMES[5:14]], "the limit is 16"),
        (LANGUAGE.plan, [{"tempo": 3}, 8], "a plan has no 'tempo'"),
        (LANGUAGE.plan, [{"density": 100}, 8], "density is 100; it must be from 0 to 24"),
        (LANGUAGE.plan, [{"form": "A A B"}, 8], "3 sections, which do not divide 8 bars"),
        (LANGUAGE.beginning, [{"mood": "sad"}], "a new piece has no 'mood'"),
        (LANGUAGE.beginning, [{"key": "H major"}], "no key 'H major'; keys are written as Am, F#m"),
        (LANGUAGE.beginning, [{"metre": "7/8"}], "there is no metre '7/8'"),
        (LANGUAGE.beginning, [{"parts": ["piano"] * 9}], "contain piano 9 times; the limit is 8"),
    ],
)
def test_impossible_requests_raise_an_error(ask: Callable[..., object], asked: list, reason: str):
    with pytest.raises(ValueError, match=reason):
        ask(*asked)
