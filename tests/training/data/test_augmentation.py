"""Training sequences are crops of a piece, transposed, with fewer tracks or other drums."""

from pathlib import Path

import numpy as np

from tokenization.groove.language import Groove
from tokenization.groove.spelling import BAR_TICKS, BASS, DRUMS, OTHER
from tokenization.prepared import Prepared
from tokenization.remi.language import Remi
from tokenization.remi.spelling import BAR, BEGIN, PITCH
from tokenization.score import Notes
from training.config import DataConfig
from training.data.examples import cut_groove, cut_remi, transposed_trio

MANY = range(60)
GROOVE = Groove()


def config(**changes) -> DataConfig:
    return DataConfig(**{"folder": "", "length": 40, "transpose": 0, **changes})


def nothing(random: np.random.Generator) -> np.ndarray:
    raise AssertionError("another piece was asked for")


def piece(folder: Path, row: int = 0) -> tuple[np.ndarray, np.ndarray]:
    prepared = Prepared.open(folder)
    return np.asarray(prepared.ids(row)), prepared.bars(row)


def draws(cut, folder: Path, another=nothing, **changes) -> list[np.ndarray]:
    (ids, bars), settings = piece(folder), config(**changes)
    language = {cut_remi: Remi(), cut_groove: GROOVE}[cut]
    return [
        cut(language, ids, bars, settings, np.random.default_rng(seed), another) for seed in MANY
    ]


def sounds(notes: Notes, later: int = 0) -> set[tuple[int, ...]]:
    columns = (notes.onset_ticks + later, notes.duration_ticks, notes.pitch, notes.track)
    return set(zip(*(column.tolist() for column in columns), strict=True))


def drums_of(ids: np.ndarray) -> Notes:
    notes = GROOVE.notes(ids)
    return notes[notes.track == DRUMS]


def test_crop_of_a_piano_starts_at_a_bar_and_is_whole(pianos: Path):
    ids, bars = piece(pianos)
    text = ids.tobytes()
    crops = draws(cut_remi, pianos)
    assert {int(crop[0]) for crop in crops} == {BEGIN, BAR}
    assert {len(crop) for crop in crops} == {41}
    starts = {text.index(crop.tobytes()) // 2 for crop in crops}
    whole = bars[bars + 41 <= len(ids)]
    assert starts == {0, *whole[1:].tolist()}


def test_piano_is_transposed_whole_by_every_amount_within_the_range(pianos: Path):
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
    for seed in MANY:  # a move out of the range is drawn again
        random = np.random.default_rng(seed)
        crop = cut_remi(Remi(), highest, bars, config(transpose=6, length=5000), random, nothing)
        assert set(crop[PITCH.holds(crop)] - PITCH.start) <= set(range(81, 88))


def test_trio_is_transposed_but_for_the_drums_and_has_silent_tracks(grooves: Path):
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
    assert {len(one) for one in heard} == {1, 2, 3}  # never all are silent


def test_trio_is_transposed_as_far_as_its_pitches_have_room():
    notes = Notes([0, 0, 0], [1, 1, 1], [2, 0, 120], [90, 90, 90], [BASS, DRUMS, OTHER])
    moves = set()
    for seed in range(200):
        moved = transposed_trio(notes, 12, np.random.default_rng(seed))
        pitch = dict(zip(moved.track.tolist(), moved.pitch.tolist(), strict=True))
        assert pitch[DRUMS] == 0
        assert pitch[OTHER] - 120 == pitch[BASS] - 2
        moves.add(pitch[BASS] - 2)
    assert moves == set(range(-2, 8))


def test_drums_of_another_piece_begin_at_the_same_bar(grooves: Path):
    (ids, _), (other, _) = piece(grooves), piece(grooves, 4)
    theirs, whole = drums_of(other).onset_ticks, sounds(GROOVE.notes(ids))
    starts = set()
    for crop in draws(cut_groove, grooves, lambda random: other, length=20, mix_drums=1.0):
        notes = GROOVE.notes(crop)
        rest, last = notes[notes.track != DRUMS], notes.onset_ticks.max()
        bars = [bar for bar in range(4) if sounds(rest, bar * BAR_TICKS) <= whole]
        heard = {t for t in drums_of(crop).onset_ticks.tolist() if t < last}
        moved = [theirs - bar * BAR_TICKS for bar in bars]
        assert heard in [set(onset[(onset >= 0) & (onset < last)].tolist()) for onset in moved]
        starts.update(bars)
    assert len(starts) > 1
