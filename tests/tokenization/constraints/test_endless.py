"""Grammars without an end."""

import numpy as np
import pytest

from tests.evaluation.scores import OTHER, trio
from tokenization.continuing import Endless
from tokenization.language import language

PIECE = trio([(0, 12, 60, OTHER), (24, 24, 64, OTHER), (48, 48, 67, OTHER)])


@pytest.mark.parametrize("name", ["remi", "groove", "groove-2"])
def test_only_the_end_is_not_allowed(name: str):
    speaker = language(name)
    ids = speaker.encode(speaker.arrange(PIECE)).ids
    plain, endless = speaker.grammar(), Endless(speaker.grammar(), speaker.end)
    for token in ids[:-1]:
        plain.advance(np.array([token]))
        endless.advance(np.array([token]))
        expected = plain.allowed().copy()
        expected[:, speaker.end] = False
        np.testing.assert_array_equal(endless.allowed(), expected)
    assert plain.allowed()[0, speaker.end]
    np.testing.assert_array_equal(endless.bars, plain.bars)


@pytest.mark.parametrize("name", ["remi", "groove", "groove-2"])
def test_there_is_always_a_way_on(name: str):
    speaker = language(name)
    endless = Endless(speaker.grammar().select(np.zeros(4, dtype=np.int64)), speaker.end)
    random = np.random.default_rng(0)
    for _ in range(200):
        endless.advance(np.array([random.choice(np.flatnonzero(a)) for a in endless.allowed()]))
    assert endless.allowed().any(axis=1).all()


def test_selected_rows_are_endless_copies():
    speaker = language("groove")
    endless = Endless(speaker.grammar(), speaker.end)
    endless.advance(np.array([speaker.begin]))
    copies = endless.select(np.zeros(3, dtype=np.int64))
    assert copies.allowed().shape == (3, len(speaker.vocabulary))
    assert not copies.allowed()[:, speaker.end].any()
