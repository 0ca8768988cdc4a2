"""What is held out is held out by works."""

from collections import Counter

import numpy as np
import pytest

from tests.training.data.sources.on_disk import piano
from tokenization.score import Score
from training.data.sources.source import split_by_name
from training.data.sources.works import opening, split_works, title


def transposed(score: Score, semitones: int) -> Score:
    return score.replace(notes=score.notes.replace(pitch=score.notes.pitch + semitones))


def test_an_opening_is_the_same_in_every_key_and_resolution_and_another_of_another_piece():
    piece = piano(1, bars=8)
    assert len(opening(piece)) == 2
    assert opening(transposed(piece, 5)) == opening(piece.rescaled(96)) == opening(piece)
    assert not {*opening(piece)} & {*opening(piano(2, bars=8))}


def test_a_bass_or_another_rhythm_leaves_one_of_an_openings_keys():
    piece = piano(1, bars=8)
    onset = piece.notes.onset_ticks
    swung = piece.replace(notes=piece.notes.replace(onset_ticks=onset + onset % 960 // 4))
    assert len({*opening(piece)} & {*opening(swung)}) == 1


def test_a_repeated_note_is_no_opening():
    piece = piano(1, bars=8)
    notes = piece.notes.replace(pitch=np.full_like(piece.notes.pitch, 60))
    assert opening(piece.replace(notes=notes)) == []
    assert opening(piano(1, bars=2)) == []  # eight onsets


def test_a_title_is_known_however_it_is_written():
    assert title("Faisst, Clara", "Ständchen!") == title("Clara  FAISST", "standchen")
    assert title("Oginski", "") == title("", "Mazur") == []


def test_works_that_share_a_key_share_a_split():
    random = np.random.default_rng(1)
    works = [[f"line {random.integers(400)}", f"title {random.integers(400)}"] for _ in range(300)]
    names = [f"n{random.integers(200)}" for _ in works]
    splits = split_works(names, works, 0.2, by_name=False)
    of_key: dict[str, set[str]] = {}
    for name, keys, split in zip(names, works, splits, strict=True):
        for key in (name, *keys):
            of_key.setdefault(key, set()).add(split)
    assert all(len(found) == 1 for found in of_key.values())


@pytest.mark.parametrize("by_name", [True, False])
def test_a_share_is_held_out_for_each_and_stays_where_it_is(by_name: bool):
    names = [f"{number:03}" for number in range(2000)]
    works = [[f"line {number}"] for number in range(2000)]
    splits = split_works(names, works, 0.05, by_name=by_name)
    counts = Counter(splits)
    assert 70 < counts["validation"] < 130
    assert 70 < counts["test"] < 130
    assert split_works(names[::-2], works[::-2], 0.05, by_name=by_name) == splits[::-2]


def test_what_earlier_languages_held_out_is_tested_on_where_names_decide():
    names = [f"{number:03}" for number in range(910)]
    splits = split_works(names, [[] for _ in names], 0.05, by_name=True)
    held_out = [split_by_name(name, validation=0.05) == "validation" for name in names]
    assert held_out == [split == "test" for split in splits]
