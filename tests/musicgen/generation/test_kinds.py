"""Drawing within kinds: each kind as likely as the model says, and inside it as ever."""

from __future__ import annotations

import numpy as np
import pytest

from musicgen.generation.request import Request
from musicgen.generation.sampling import Kinds, Sampling, probabilities
from tokenization.language import LANGUAGES, language

V = 40
KINDS = np.random.default_rng(5).permutation(np.arange(V) % 5)
SETTINGS = [
    Sampling(temperature=0.6),
    Sampling(temperature=1.4, top_k=3),
    Sampling(temperature=0.8, top_p=0.7),
    Sampling(temperature=0.8, top_p=0.95, min_p=0.05),
    Sampling(temperature=0.9, top_k=4, top_p=0.8, min_p=0.2),
]


def by_kind(how: Sampling) -> Sampling:
    return Sampling(**{**vars(how), "by_kind": True})


@pytest.mark.parametrize("how", SETTINGS)
def test_kinds_keep_their_chances_and_tokens_are_drawn_within_as_from_a_vocabulary(how: Sampling):
    random = np.random.default_rng(1)
    logits = random.normal(size=(6, V)) * 2
    allowed = random.random((6, V)) < 0.6
    allowed[0, KINDS == 2] = False  # a kind of which nothing may come
    found = probabilities(logits, by_kind(how), allowed, Kinds(KINDS))
    plain = probabilities(logits, Sampling(), allowed)
    for row in range(6):
        whole = np.bincount(KINDS, plain[row], minlength=5)
        whole[whole < how.min_p * whole.max()] = 0
        np.testing.assert_allclose(np.bincount(KINDS, found[row], minlength=5), whole / whole.sum())
        for kind in np.flatnonzero(whole):
            own = kind == KINDS
            alone = probabilities(logits[row : row + 1, own], how, allowed[row : row + 1, own])[0]
            np.testing.assert_allclose(found[row, own] / found[row, own].sum(), alone, atol=1e-12)


def test_many_unlikely_notes_do_not_lose_to_one_bar_line():
    """Half of the chances are fifty notes': a sharper draw leaves it at that, where it would take nearly all."""
    logits = np.log(np.array([[0.5, *[0.5 / 50] * 50]]))
    kinds = Kinds(np.array([0, *[1] * 50]))
    how = Sampling(temperature=0.5, min_p=0.02)
    assert probabilities(logits, how)[0, 0] > 0.95
    assert probabilities(logits, by_kind(how), kinds=kinds)[0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize("temperature", [0, 1e-300])
def test_no_temperature_takes_the_likeliest(temperature: float):
    logits = np.array([[0.0, 2.0, -1.0, 1.0], [3.0, -np.inf, -np.inf, 1.0]])
    how = Sampling(temperature=temperature, by_kind=True)
    found = probabilities(logits, how, kinds=Kinds(np.array([0, 0, 1, 1])))
    if temperature == 0:
        np.testing.assert_array_equal(found, [[0, 1, 0, 0], [1, 0, 0, 0]])
    else:  # the likeliest of each kind, as likely as the kind
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        kinds = chances @ np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
        np.testing.assert_allclose(found[:, [1, 3]][0], kinds[0])
        np.testing.assert_allclose(found[:, [0, 3]][1], kinds[1])


def test_a_row_is_drawn_alike_in_any_company():
    random = np.random.default_rng(2)
    logits, allowed = random.normal(size=(5, V)) * 3, random.random((5, V)) < 0.5
    how = by_kind(SETTINGS[3])
    together = probabilities(logits, how, allowed, Kinds(KINDS))
    for row in range(5):
        alone = probabilities(logits[row : row + 1], how, allowed[row : row + 1], Kinds(KINDS))[0]
        np.testing.assert_array_equal(together[row], alone)


def test_without_kinds_a_request_to_draw_by_them_is_refused():
    with pytest.raises(ValueError, match="takes the kinds"):
        Request(sampling=Sampling(by_kind=True))


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_token_has_a_kind_and_none_is_of_two_families(name: str):
    spoken = language(name)
    kinds, names = spoken.kinds(), spoken.vocabulary.names
    assert kinds.shape == (len(names),)
    families: dict[int, set[str]] = {}
    blocks = spoken.vocabulary.blocks
    parts = blocks["part"].names if "part" in blocks else ()
    for kind, token in zip(kinds.tolist(), names, strict=True):
        if token in parts:  # which are named by their instruments
            token = "part"
        families.setdefault(kind, set()).add(token.rstrip("0123456789").split("_")[0])
    special = {"padding", "begin", "end", "after", "before"}
    assert all(len(found - special) <= 1 for found in families.values())


def test_places_beyond_four_beats_are_of_the_kind_of_places_and_parts_are_kinds_apart():
    piano, groove = language("remi-2"), language("groove-2")

    def kind(spoken, token: str) -> int:
        return int(spoken.kinds()[spoken.vocabulary.id(token)])

    assert kind(piano, "subbeat_3") == kind(piano, "subbeat_20")
    assert kind(piano, "duration_1") == kind(piano, "duration_5.5")
    assert kind(piano, "subbeat_3") != kind(piano, "duration_1")
    parts = [kind(groove, f"note_on_{part}_40") for part in range(3)]
    assert len({*parts, *(kind(groove, f"note_off_{part}_40") for part in range(3))}) == 6
