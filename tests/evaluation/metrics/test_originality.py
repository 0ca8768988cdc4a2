"""The closest passage of a collection equals the result of an exhaustive comparison, in any key."""

from pathlib import Path

import numpy as np

from evaluation.study.originality import BARS, Collection, passages
from tests.evaluation.scores import DRUMS, OTHER, trio
from tokenization.score import Score

BEAT = 24


def score(rng: np.random.Generator, bars: int, shift: int = 0) -> Score:
    count = bars * 9
    onset = rng.integers(0, bars * 8, count) * BEAT // 2
    drum = rng.random(count) < 0.3
    pitch = np.where(drum, rng.integers(36, 44, count), rng.integers(50, 66, count) + shift)
    rows = np.stack([onset, np.full(count, BEAT), pitch, np.where(drum, DRUMS, OTHER)], axis=1)
    return trio(rows, BEAT)


def as_set(one: Score, bar: int, shift: int = 0) -> set[tuple[int, int, int]]:
    """Return the notes of a passage as (onset, pitch, track), transposed by a shift."""
    rows = zip(one.notes.onset_ticks, one.notes.pitch, one.notes.track, strict=True)
    begun = ((at - bar * 4 * BEAT, pitch, track) for at, pitch, track in rows)
    return {
        (onset, pitch + (shift if track == OTHER else 0), track)
        for onset, pitch, track in begun
        if 0 <= onset < BARS * 4 * BEAT
    }


def test_the_closest_passage_matches_an_exhaustive_search(tmp_path: Path):
    rng = np.random.default_rng(3)
    pieces = {f"piece {number}": score(rng, 6) for number in range(5)}
    known = Collection((name, one, 6) for name, one in pieces.items())
    known.write(tmp_path / "passages.npz")
    read = Collection.read(tmp_path / "passages.npz")
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
        assert known.closest(keys)[0] == best
        assert read.closest(keys) == known.closest(keys)


def test_transposition_does_not_matter():
    known = Collection([("it", score(np.random.default_rng(5), 4), 4)])
    for bar, keys in passages(score(np.random.default_rng(5), 4, shift=-5), 0, 4):
        assert known.closest(keys) == (1.0, "it", bar)


def test_passages_need_enough_notes():
    rng = np.random.default_rng(1)
    one = score(rng, 2)
    assert len([*passages(one, 0, 2)]) == 1
    assert not [*passages(one.replace(notes=one.notes[:7]), 0, 2)]
