import numpy as np

from tests.tools.measure.grid import expected, nearest, read_back
from tests.tools.measure.languages import best_pairing, notes_of, ours, paired
from tests.training.data.sources.on_disk import band
from tokenization.ensemble.tokens import LENGTHS, nearest_length
from tokenization.language import language


def keyed(*onsets: float, key: int = 60) -> tuple[np.ndarray, np.ndarray]:
    return np.full(len(onsets), key), np.array(onsets)


def test_a_note_that_is_merged_costs_no_other_one():
    away = paired(keyed(0, 0.01, 1, 2), keyed(0, 1.01, 2.3))
    assert np.isclose(away, [0, np.inf, 0.01, 0.3]).all()
    assert np.isinf(paired(keyed(0), keyed(0, key=61))).all()


def test_music_that_is_laid_later_is_found():
    onsets = np.arange(40) * 0.75
    away = best_pairing(keyed(*onsets), keyed(*(onsets + 3)))
    assert (away == 0).all()


def test_what_is_on_the_grid_is_neither_lost_nor_off():
    score = language("ensemble").arrange(band())
    tokens, read = ours("ensemble")(score.replace(beats_known=True))
    assert tokens > len(score.notes)
    assert (paired(notes_of(score), notes_of(read)) == 0).all()


def test_lengths_are_reckoned_alike():
    assert [nearest(steps) for steps in range(1, 500)] == LENGTHS[
        nearest_length(np.arange(1, 500))
    ].tolist()


def test_off_the_grid_notes_come_back_as_reckoned():
    score = band(3)
    random, count = np.random.default_rng(1), len(score.notes)
    notes = score.notes.replace(
        onset_ticks=score.notes.onset_ticks + random.integers(0, 60, count),
        duration_ticks=random.integers(1, 4000, count),
        velocity=random.integers(1, 128, count),
        pitch=score.notes.pitch // 4 * 4,  # keys are struck again while they sound
    )
    score = language("ensemble").arrange(score.replace(notes=notes.sorted(), beats_known=True))
    assert expected(score) == read_back(score)
