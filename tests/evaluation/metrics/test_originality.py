"""The closest passage of a collection is what comparing with each passage by hand finds, in any key."""

import numpy as np

from evaluation.study.originality import BARS, Collection, passages
from tokenization.score import Notes, Score, Track

BEAT = 24


def score(rng: np.random.Generator, bars: int, shift: int = 0) -> Score:
    count = bars * 9
    onset = rng.integers(0, bars * 8, count) * BEAT // 2
    drum = rng.random(count) < 0.3
    pitch = np.where(drum, rng.integers(36, 44, count), rng.integers(50, 66, count) + shift)
    notes = Notes(
        onset_ticks=onset,
        duration_ticks=np.full(count, BEAT),
        pitch=pitch,
        velocity=np.full(count, 64),
        track=drum.astype(int),
    )
    tracks = (Track(program=0), Track(program=0, is_drum=True))
    return Score(ticks_per_beat=BEAT, notes=notes, tracks=tracks)


def as_set(one: Score, bar: int, shift: int = 0) -> set[tuple[int, int, bool]]:
    found = set()
    for onset, pitch, track in zip(
        one.notes.onset_ticks, one.notes.pitch, one.notes.track, strict=True
    ):
        place = int(onset) - bar * 4 * BEAT
        if 0 <= place < BARS * 4 * BEAT:
            found.add((place, int(pitch) + (0 if track else shift), bool(track)))
    return found


def test_the_closest_passage_is_found_as_by_comparing_with_each():
    rng = np.random.default_rng(3)
    pieces = {f"piece {number}": score(rng, 6) for number in range(5)}
    known = Collection((name, one, 6) for name, one in pieces.items())
    asked = score(rng, 4)
    for bar, keys in passages(asked, 0, 4):
        wanted = as_set(asked, bar)
        best = max(
            len(mine & wanted) / len(mine | wanted)
            for one in pieces.values()
            for at in range(6 - BARS + 1)
            for shift in range(-6, 7)
            if len(mine := as_set(one, at, shift)) >= 8
        )
        assert known.closest(keys).likeness == best


def test_music_in_another_key_is_the_same():
    known = Collection([("it", score(np.random.default_rng(5), 4), 4)])
    for bar, keys in passages(score(np.random.default_rng(5), 4, shift=-5), 0, 4):
        found = known.closest(keys)
        assert (found.likeness, found.piece, found.bar) == (1.0, "it", bar)


def test_few_notes_are_no_passage():
    rng = np.random.default_rng(1)
    one = score(rng, 2)
    assert len([*passages(one, 0, 2)]) == 1
    assert not [*passages(one.replace(notes=one.notes[:7]), 0, 2)]
