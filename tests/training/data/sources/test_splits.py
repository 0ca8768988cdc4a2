"""What is held out is held out by name, by style and by work, for ever."""

import numpy as np
import pytest

from tests.training.data.sources.on_disk import piano
from training.data.sources.source import split_by_name
from training.data.sources.works import opening, split_works

NUMBERS = [f"{number:03}" for number in range(2000)]


def test_split_of_a_name_is_fixed_and_a_larger_share_moves_it_into_validation_alone():
    # Were the hash to change, data sets prepared anew would test on what models were trained on.
    halves = [split_by_name(name, validation=0.5) for name in ("001", "042", "097", "128", "909")]
    assert halves == ["validation"] * 4 + ["train"]
    splits = [split_by_name(name, validation=0.05, test=0.1) for name in NUMBERS]
    assert splits.count("validation") == pytest.approx(100, abs=30)
    assert splits.count("test") == pytest.approx(200, abs=40)
    for name in NUMBERS[:500]:
        small, large = (split_by_name(name, validation=share) for share in (0.1, 0.3))
        assert large == "validation" or small == large
    with pytest.raises(ValueError, match=r"shares of 0\.6 for validation and 0\.4 for test leave"):
        split_by_name("a", validation=0.6, test=0.4)


def test_opening_is_that_of_a_piece_in_every_key_and_resolution():
    piece = piano(1, bars=8)
    notes = piece.notes
    higher = piece.replace(notes=notes.replace(pitch=notes.pitch + 5))
    assert len(opening(piece)) == 2
    assert opening(higher) == opening(piece.rescaled(96)) == opening(piece)
    assert not {*opening(piece)} & {*opening(piano(2, bars=8))}
    swung = notes.replace(onset_ticks=notes.onset_ticks + notes.onset_ticks % 960 // 4)
    assert len({*opening(piece)} & {*opening(piece.replace(notes=swung))}) == 1
    repeated = notes.replace(pitch=np.full_like(notes.pitch, 60))
    assert opening(piece.replace(notes=repeated)) == []
    assert opening(piano(1, bars=2)) == []  # eight onsets


def test_works_that_share_a_key_share_a_split():
    random = np.random.default_rng(1)
    works = [[f"line {random.integers(400)}", f"title {random.integers(400)}"] for _ in range(300)]
    names = [f"n{random.integers(200)}" for _ in works]
    of_key: dict[str, set[str]] = {}
    found = split_works(names, works, 0.2, by_name=False)
    for name, keys, split in zip(names, works, found, strict=True):
        for key in (name, *keys):
            of_key.setdefault(key, set()).add(split)
    assert all(len(splits) == 1 for splits in of_key.values())
