"""Training sequences are transposed crops with fewer tracks, or examples of a goal."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training.data.sources.on_disk import band
from tests.training.makers import prepared_set
from tokenization.ensemble import plan, sequences, tokens
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.spelling import Reading
from tokenization.groove.language import Groove
from tokenization.groove.spelling import BASS, DRUMS, OTHER
from tokenization.prepared import Prepared
from tokenization.remi.language import BAR, BEGIN, PITCH, Remi
from tokenization.score import Notes
from training.config import DataConfig
from training.data.ensemble_examples import cut_ensemble
from training.data.examples import Example, cut_groove, cut_remi
from training.data.shards import Shards

MANY = range(60)
GROOVE = Groove()


def config(**changes) -> DataConfig:
    return DataConfig(**{"folder": "", "length": 40, "transpose": 0, **changes})


def no_other_piece(random: np.random.Generator) -> np.ndarray:
    raise AssertionError("another piece was requested")


def alone(ids: np.ndarray, bars: np.ndarray, style: str | None = None) -> Example:
    """Return an example for which no other piece may be drawn."""
    return Example(ids=ids, bars=bars, another=no_other_piece, style=style)


def piece(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    prepared = Prepared.open(folder)
    return np.asarray(prepared.ids(0)), prepared.bars(0)


def draws(cut, folder: Path, **changes) -> list[np.ndarray]:
    language = {cut_remi: Remi(), cut_groove: GROOVE}[cut]
    given = (language, alone(*piece(folder)), config(**changes))
    return [cut(*given, np.random.default_rng(seed)) for seed in MANY]


def test_piano_crop_has_full_length_and_starts_at_a_bar(pianos: Path):
    ids, bars = piece(pianos)
    text = ids.tobytes()
    crops = draws(cut_remi, pianos)
    assert {int(crop[0]) for crop in crops} == {BEGIN, BAR}
    assert {len(crop) for crop in crops} == {41}
    starts = {text.index(crop.tobytes()) // 2 for crop in crops}
    whole = bars[bars + 41 <= len(ids)]
    assert starts == {0, *whole[1:].tolist()}


def test_piano_is_transposed_by_every_interval_within_the_range(pianos: Path):
    ids, bars = piece(pianos)
    original = ids[PITCH.holds(ids)].astype(int)
    moved = set()
    for crop in draws(cut_remi, pianos, length=5000, transpose=6):
        assert Remi().validate(crop) is None
        [semitones] = set(crop[PITCH.holds(crop)].astype(int) - original)
        moved.add(int(semitones))
    assert moved == set(range(-6, 7))
    highest = ids.copy()
    highest[PITCH.holds(highest)] = PITCH.stop - 1
    for seed in MANY:  # an interval that leaves the range is drawn again
        random = np.random.default_rng(seed)
        crop = cut_remi(Remi(), alone(highest, bars), config(transpose=6, length=5000), random)
        assert set(crop[PITCH.holds(crop)] - PITCH.start) <= set(range(81, 88))


def test_trio_is_transposed_except_for_drums_and_loses_tracks(grooves: Path):
    whole = GROOVE.notes(piece(grooves)[0])
    moved = set()
    for crop in draws(cut_groove, grooves, length=5000, transpose=5):
        assert GROOVE.validate(crop) is None
        notes = GROOVE.notes(crop)
        drums = notes.track == DRUMS
        np.testing.assert_array_equal(notes.pitch[drums], whole.pitch[whole.track == DRUMS])
        bass = notes.pitch[notes.track == BASS] - whole.pitch[whole.track == BASS]
        moved |= set(bass.tolist())
    assert moved == set(range(-5, 6))
    crops = draws(cut_groove, grooves, length=5000, drop_track=0.5)
    heard = [frozenset(GROOVE.notes(crop).track.tolist()) for crop in crops]
    assert set().union(*heard) == {BASS, DRUMS, OTHER}
    assert {len(one) for one in heard} == {1, 2, 3}  # never none


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return Shards([str(prepared_set(tmp_path_factory.mktemp("bands") / "set", "ensemble"))])


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({}, None),
        ({"endings": 1.0}, tokens.LEFT_1),
        ({"gaps": 1.0}, tokens.SEAM_1),
        ({"accompaniments": 1.0}, None),
    ],
)
def test_every_kind_of_band_sequence_is_valid(shards: Shards, shares, said: int | None):
    config = DataConfig(folder="", length=700, drop_track=0.2, **shares)
    random, drawn = np.random.default_rng(3), []
    for row in [*range(len(shards.length))] * 2:
        piece = alone(shards.ids(row), shards.bars(row), "band")
        ids = cut_ensemble(Ensemble(), piece, config, random)
        drawn.append(ids.astype(np.int64))
    for ids in drawn:
        assert len(ids) <= 701
        assert Ensemble().validate(sequences.plain(ids)) is None
        assert said is None or (ids == said).any() == (tokens.END in ids)
    for block in (tokens.STYLE, tokens.TEMPO):
        assert 0.2 < np.mean([block.holds(ids).any() for ids in drawn]) < 0.9
    planned = [((ids >= tokens.PLAN_START) & (ids < tokens.PLAN_STOP)).any() for ids in drawn]
    assert 0.4 < np.mean(planned) < 0.9
    assert (np.concatenate(drawn) == tokens.AFTER).any() == ("gaps" in shares)
    orders = {tuple(Reading(sequences.plain(ids)).parts.tolist()) for ids in drawn}
    assert len(orders) > 4
    for ids in drawn:  # the encoded plan is a part of the full plan, in the same order
        written = sequences.plain(ids)
        planned_fully = plan.with_plan(written, plan.plan_of(Ensemble().sheet(written)))
        rest = iter(planned_fully.tolist())
        sequence = [x for x in ids.tolist() if not tokens.STYLE.start <= x < tokens.PLAN_START]
        assert shares or all(token in rest for token in sequence)


def test_bands_play_in_new_styles_with_steady_patterns_over_the_same_chords(shards: Shards):
    def another(random: np.random.Generator) -> np.ndarray:
        return shards.ids(int(random.integers(len(shards.length))))

    language, ids, bars = Ensemble(), shards.ids(0), shards.bars(0)
    piece = Example(ids=ids, bars=bars, another=another, style="band")
    settings = {"length": 4000, "mix_styles": 1.0, "accompaniments": 0.5}
    whole = language.sheet(ids.astype(np.int64))
    chords = whole.value[whole.instrument == tokens.HARMONY]
    styles, drums = set(), set()
    for seed in MANY:
        random = np.random.default_rng(seed)
        made = cut_ensemble(language, piece, config(**settings), random)
        plain = sequences.plain(made)
        assert language.validate(plain) is None
        sheet = language.sheet(plain)
        if (sheet.instrument == tokens.HARMONY).any():
            written = sheet.value[sheet.instrument == tokens.HARMONY]
            np.testing.assert_array_equal(written, chords[: len(written)])
        styles.add(plain.tobytes())
        drums.add(sheet.value[sheet.instrument == tokens.DRUMS].tobytes())
    assert len(styles) > 50
    assert len(drums) > 10
    plain = sequences.plain(
        cut_ensemble(
            language, replace(piece, style="x"), config(**settings), np.random.default_rng(1)
        )
    )
    assert np.isin(language.sheet(plain).value, whole.value).all()  # other sets are not changed


def test_pieces_lose_their_dynamics_and_some_are_rounded_to_sixteenths(shards: Shards):
    language, grid, rounded = Ensemble(), tokens.STEPS_PER_BEAT // 4, []
    score = language.decode(shards.ids(0).astype(np.int64))
    velocity = 40 + np.arange(len(score.notes)) % 80
    duration = np.full(len(score.notes), score.ticks_per_beat // 8)
    score = score.replace(notes=score.notes.replace(velocity=velocity, duration_ticks=duration))
    played = language.encode(score)
    assert not language.sheet(played.ids).flat
    for seed in range(20):
        random, given = np.random.default_rng(seed), config(length=4000, make_plain=1.0)
        made = cut_ensemble(language, alone(played.ids, played.bars), given, random)
        sheet = language.sheet(sequences.plain(made))
        assert sheet.flat
        pitched = sheet.instrument < tokens.PITCHED
        rounded.append(bool((tokens.LENGTHS[sheet.length[pitched]] % grid == 0).all()))
    assert {*rounded} == {True, False}


def test_unchanged_pieces_are_crops_and_only_transposed(shards: Shards):
    language, ids, bars = Ensemble(), shards.ids(0), shards.bars(0)
    whole = alone(ids, bars)
    for seed in MANY:
        random = np.random.default_rng(seed)
        made = cut_ensemble(language, whole, config(length=len(ids), unchanged=1.0), random)
        assert np.array_equal(made, ids)
    own = language.sheet(ids.astype(np.int64))
    moved = set()
    for seed in MANY:
        random, given = np.random.default_rng(seed), config(length=len(ids), unchanged=1.0)
        made = cut_ensemble(language, whole, replace(given, transpose=5), random)
        sheet = language.sheet(made.astype(np.int64))
        assert np.array_equal(sheet.onset, own.onset)
        pitched = own.instrument < tokens.PITCHED
        moved |= {*(sheet.value - own.value)[pitched].tolist()}
    assert len(moved) > 5
    goals = config(length=len(ids), unchanged=1.0, endings=1.0)
    assert all(
        not np.array_equal(cut_ensemble(language, whole, goals, np.random.default_rng(seed)), ids)
        for seed in MANY
    )


def test_parts_are_played_on_other_instruments_and_drums_and_basses_stay(shards: Shards):
    language, ids, bars = Ensemble(), shards.ids(0), shards.bars(0)
    own = language.sheet(ids.astype(np.int64))
    basses = {tokens.PART_NAMES.index(name) for name in tokens.FAMILIES["bass"]}
    assert basses & {*own.parts.tolist()}
    played = set()
    for seed in MANY:
        random, given = np.random.default_rng(seed), config(length=4000, reorchestrate=1.0)
        made = cut_ensemble(language, alone(ids, bars, "band"), given, random)
        sheet = language.sheet(sequences.plain(made))
        played |= {*sheet.parts.tolist()}
        for fixed in ({tokens.DRUMS}, {tokens.HARMONY}, basses):
            events, all_events = (
                {*zip(one.onset[mine].tolist(), one.value[mine].tolist(), strict=True)}
                for one in (sheet, own)
                for mine in [np.isin(one.instrument, [*fixed])]
            )
            assert events <= all_events
    assert len(played) > 25


def test_instruments_of_one_voice_get_no_chords():
    score, language = band(names=("Drums", "Piano")), Ensemble()
    third = score.notes[score.notes.track == 1]
    third = third.replace(pitch=third.pitch + 4)
    winds = {tokens.PART_NAMES.index(name) for name in ("flute", "clarinet", "trumpet")}
    for notes, expected in ((score.notes, winds), (Notes.concatenate([score.notes, third]), set())):
        encoded, played = language.encode(score.replace(notes=notes.sorted())), set()
        for seed in range(200):
            random, given = np.random.default_rng(seed), config(length=400, reorchestrate=1.0)
            made = cut_ensemble(language, alone(encoded.ids, encoded.bars), given, random)
            played |= {*Reading(sequences.plain(made)).parts.tolist()}
        assert played & winds == expected
