from pathlib import Path

import numpy as np
import pytest

from tokenization.groove.language import Groove
from tokenization.groove.spelling import BAR_TICKS, BASS, DRUMS, OTHER
from tokenization.prepared import Prepared
from tokenization.remi.language import Remi
from tokenization.remi.spelling import BAR, BEGIN, PITCH
from tokenization.score import Notes
from training.config import DataConfig
from training.data.examples import cut_groove, cut_remi, start_bar, transposed_trio

MANY = range(60)


def config(**changes) -> DataConfig:
    return DataConfig(**{"folder": "", "length": 40, "transpose": 0, **changes})


def nothing(random: np.random.Generator) -> np.ndarray:
    raise AssertionError("another piece was asked for")


def piece(folder: Path, row: int = 0) -> tuple[np.ndarray, np.ndarray]:
    prepared = Prepared.open(folder)
    return np.asarray(prepared.ids(row)), prepared.bars(row)


def draws(cut, folder: Path, another=nothing, **changes) -> list[np.ndarray]:
    (ids, bars), settings = piece(folder), config(**changes)
    language = {cut_remi: Remi(), cut_groove: Groove()}[cut]
    return [
        cut(language, ids, bars, settings, np.random.default_rng(seed), another) for seed in MANY
    ]


def test_a_crop_starts_at_a_bar_and_is_whole(pianos: Path):
    ids, bars = piece(pianos)
    text = ids.tobytes()
    crops = draws(cut_remi, pianos)
    assert {int(crop[0]) for crop in crops} == {BEGIN, BAR}
    for crop in crops:
        assert len(crop) == 41
        assert crop.tobytes() in text
    starts = {text.index(crop.tobytes()) // 2 for crop in crops}
    whole = bars[bars + 41 <= len(ids)]
    assert starts == {0, *whole[1:].tolist()}


def test_without_skipping_a_crop_is_the_beginning(pianos: Path, grooves: Path):
    for cut, folder in ((cut_remi, pianos), (cut_groove, grooves)):
        for crop in draws(cut, folder, skip_bars=False):
            np.testing.assert_array_equal(crop, piece(folder)[0][:41])


def test_pieces_may_start_whole_steps_of_bars_in_and_only_now_and_then(grooves: Path):
    """As the published code of the groove experiment: a quarter, steps of four bars, over half of a piece at most."""
    bars = np.arange(24) * 10
    few = config(skip_chance=0.25, skip_step=4)
    found = [start_bar(bars, 240, few, np.random.default_rng(seed)) for seed in range(2000)]
    starts, counts = np.unique(found, return_counts=True)
    assert starts.tolist() == [0, 4, 8, 12]
    assert 0.70 < counts[0] / 2000 < 0.80
    assert start_bar(bars[:6], 60, config(skip_step=4), np.random.default_rng(0)) == 0
    crops = draws(cut_groove, grooves, skip_chance=0.0)
    for crop in crops:
        np.testing.assert_array_equal(crop, piece(grooves)[0][:41])


def test_a_short_piece_comes_whole(pianos: Path, grooves: Path):
    for cut, folder in ((cut_remi, pianos), (cut_groove, grooves)):
        ids, _ = piece(folder)
        for crop in draws(cut, folder, length=5000):
            np.testing.assert_array_equal(crop, ids)


def test_a_piano_is_transposed_by_every_amount(pianos: Path):
    ids, _ = piece(pianos)
    original = ids[PITCH.holds(ids)].astype(int)
    moved = set()
    for crop in draws(cut_remi, pianos, length=5000, transpose=6):
        pitches = crop[PITCH.holds(crop)].astype(int)
        assert Remi().validate(crop) is None
        [semitones] = set(pitches - original)
        moved.add(int(semitones))
    assert moved == set(range(-6, 7))


def test_a_move_out_of_the_range_is_drawn_again(pianos: Path):
    ids, bars = piece(pianos)
    highest = ids.copy()
    highest[PITCH.holds(highest)] = PITCH.stop - 1
    for seed in MANY:
        random = np.random.default_rng(seed)
        crop = cut_remi(Remi(), highest, bars, config(transpose=6, length=5000), random, nothing)
        assert set(crop[PITCH.holds(crop)] - PITCH.start) <= set(range(81, 88))


def test_a_trio_spelled_anew_is_valid_and_plays_the_same_notes_from_a_bar_on(grooves: Path):
    groove = Groove()
    whole = sounds(groove.notes(piece(grooves)[0]))
    starts = set()
    for crop in draws(cut_groove, grooves, length=20):
        assert len(crop) == 21
        assert groove.validate(crop) is None
        notes = sounds(groove.notes(crop))
        moved = [{(onset + bar * BAR_TICKS, *rest) for onset, *rest in notes} for bar in range(4)]
        [bar] = [bar for bar in range(4) if moved[bar] <= whole]
        starts.add(bar)
    assert len(starts) > 1


def sounds(notes: Notes) -> set[tuple[int, ...]]:
    columns = (notes.onset_ticks, notes.duration_ticks, notes.pitch, notes.track)
    return set(zip(*(column.tolist() for column in columns), strict=True))


def test_tracks_fall_silent_but_never_all(grooves: Path):
    groove = Groove()
    heard = [
        frozenset(groove.notes(crop).track.tolist())
        for crop in draws(cut_groove, grooves, length=5000, drop_track=0.5)
    ]
    tracks = {BASS, DRUMS, OTHER}
    assert frozenset() not in heard
    assert set().union(*heard) == tracks
    assert {len(one) for one in heard} == {1, 2, 3}
    assert all(groove.validate(crop) is None for crop in draws(cut_groove, grooves, drop_track=0.5))


def test_a_trio_is_transposed_as_far_as_its_pitches_have_room():
    notes = Notes([0, 0, 0], [1, 1, 1], [2, 0, 120], [90, 90, 90], [BASS, DRUMS, OTHER])
    moves = set()
    for seed in range(200):
        moved = transposed_trio(notes, 12, np.random.default_rng(seed))
        pitch = dict(zip(moved.track.tolist(), moved.pitch.tolist(), strict=True))
        assert pitch[DRUMS] == 0
        assert pitch[OTHER] - 120 == pitch[BASS] - 2
        moves.add(pitch[BASS] - 2)
    assert moves == set(range(-2, 8))


def test_drums_are_not_transposed(grooves: Path):
    groove = Groove()
    whole = groove.notes(piece(grooves)[0])
    moved = set()
    for crop in draws(cut_groove, grooves, length=5000, transpose=5):
        assert groove.validate(crop) is None
        notes = groove.notes(crop)
        drums = notes.track == DRUMS
        np.testing.assert_array_equal(notes.pitch[drums], whole.pitch[whole.track == DRUMS])
        bass = notes.pitch[notes.track == BASS] - whole.pitch[whole.track == BASS]
        moved |= set(bass.tolist())
    assert moved == set(range(-5, 6))


@pytest.mark.parametrize("cut", [cut_remi, cut_groove])
def test_the_same_draw_gives_the_same_crop(cut, pianos: Path, grooves: Path):
    folder = pianos if cut is cut_remi else grooves
    again = draws(cut, folder, transpose=5, drop_track=0.2)
    for one, other in zip(draws(cut, folder, transpose=5, drop_track=0.2), again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_drums_are_those_of_another_piece_and_the_rest_stays(grooves: Path):
    groove, (ids, _) = Groove(), piece(grooves)
    own = groove.notes(ids)
    other = piece(grooves, 4)[0]
    their_drums = sounds(drums_of(groove, other))
    assert their_drums != sounds(drums_of(groove, ids))
    mixed = 0
    for crop in draws(
        cut_groove, grooves, lambda random: other, length=5000, mix_drums=0.5, skip_bars=False
    ):
        assert groove.validate(crop) is None
        notes = groove.notes(crop)
        assert sounds(notes[notes.track != DRUMS]) == sounds(own[own.track != DRUMS])
        mixed += sounds(notes[notes.track == DRUMS]) == their_drums
    assert 0.25 < mixed / len(MANY) < 0.75


def test_drums_of_another_piece_begin_at_the_same_bar(grooves: Path):
    groove, other = Groove(), piece(grooves, 4)[0]
    theirs, whole = drums_of(groove, other), sounds(groove.notes(piece(grooves)[0]))
    starts = set()
    for crop in draws(cut_groove, grooves, lambda random: other, length=20, mix_drums=1.0):
        notes = groove.notes(crop)
        found = sounds(notes[notes.track != DRUMS])
        bars = [
            bar for bar in range(4) if {(t + bar * BAR_TICKS, *rest) for t, *rest in found} <= whole
        ]
        last = notes.onset_ticks.max()
        heard = {t for t, *_ in sounds(notes[notes.track == DRUMS]) if t < last}
        from_bar = [
            {
                int(t) - bar * BAR_TICKS
                for t in theirs.onset_ticks
                if 0 <= t - bar * BAR_TICKS < last
            }
            for bar in bars
        ]
        assert heard in from_bar
        starts.update(bars)
    assert len(starts) > 1


def drums_of(groove: Groove, ids: np.ndarray) -> Notes:
    notes = groove.notes(ids)
    return notes[notes.track == DRUMS]


def test_where_the_other_drums_have_ended_the_own_ones_stay(grooves: Path):
    groove, (ids, bars) = Groove(), piece(grooves)
    whole = groove.notes(ids)
    drums_late = whole[(whole.track == DRUMS) | (whole.onset_ticks < BAR_TICKS)]
    early = groove.spell(whole[whole.onset_ticks < BAR_TICKS])
    for seed in MANY:
        random, settings = np.random.default_rng(seed), config(length=10, mix_drums=1.0)
        late = groove.spell(drums_late)
        crop = cut_groove(groove, late, bars, settings, random, lambda random: early)
        assert groove.validate(crop) is None
        assert len(crop) > 2
