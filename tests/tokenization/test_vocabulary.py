"""Blocks lie end to end, and every token has one name and one id."""

import numpy as np
import pytest

from tokenization.language import Vocabulary


def small() -> Vocabulary:
    return Vocabulary([("letter", ["a", "b"]), ("digit", ["0", "1", "2"])])


def test_blocks_lie_end_to_end():
    assert (small()["letter"].start, small()["letter"].stop) == (0, 2)
    assert (small()["digit"].start, small()["digit"].stop) == (2, 5)
    assert len(small()) == 5
    assert small()["digit"].holds(np.array([1, 2, 4, 5])).tolist() == [False, True, True, False]


def test_names_and_ids_are_inverse():
    assert [small().id(name) for name in small().names] == list(range(5))
    with pytest.raises(ValueError, match=r"'z' is not a token.*letter, digit"):
        small().id("z")


def test_plain_data_has_all_of_it():
    digits = {"name": "digit", "start": 2, "stop": 5, "tokens": [*small()["digit"].names]}
    assert small().to_json()[1] == digits


def test_names_are_unique():
    with pytest.raises(ValueError, match="name of its own"):
        Vocabulary([("x", ["a"]), ("y", ["a"])])
