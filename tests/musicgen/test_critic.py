"""The critic prefers what it has learned to take for real, and takes with a fault never win."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import musicgen
from evaluation.critic import learned
from musicgen.continuation import Continuation
from musicgen.critic import Critic, chosen, faults, likeness
from musicgen.generation.request import Request
from tests.evaluation.scores import BASS, OTHER, trio
from tokenization.score import Score

BAR = 48
PIECE = "app/examples/trio-jazz.mid"


def score(*news: tuple[int, int, int, int]) -> Score:
    """Return four bars of a melody over a bass, then notes from the fifth bar on."""
    tune = [(12 * beat, 12, 60 + beat % 5, OTHER) for beat in range(16)]
    bass = [(BAR * bar, BAR, 40, BASS) for bar in range(4)]
    return trio([*tune, *bass, *((4 * BAR + at, *rest) for at, *rest in news)])


TUNE = [(12 * beat, 12, 60 + beat % 5, OTHER) for beat in range(16)]
LOW = [(BAR * bar, BAR, 40, BASS) for bar in range(4)]


@pytest.mark.parametrize(
    ("news", "ends", "wrong"),
    [
        ([*TUNE, *LOW], False, 0),
        (TUNE, False, 1),  # the bass is silent
        ([*TUNE[:12], *LOW[:3]], False, 0),
        ([*TUNE[:12], *LOW[:3]], True, 1),  # it is to end
        ([*((at, 12, 60, OTHER) for at, *_ in TUNE), *LOW], False, 1),  # it hammers
        ([*((3 * n, 3, 60 + n % 5, OTHER) for n in range(64)), *LOW], False, 1),  # it is crowded
        ([TUNE[0], LOW[0]], False, 1),  # it fades
        ([], False, 3),
    ],
)
def test_faults(news, ends: bool, wrong: int):
    assert faults(score(*news), 4, 8, ends=ends) == wrong


def test_the_best_of_each_group_is_chosen_and_differs_from_those_before():
    one, other = trio(TUNE), trio(LOW)
    ranks = [(0, 0.5), (1, -3.0), (0, 0.2), (0, 0.3)]
    assert chosen(ranks, [one] * 4, 2) == [0, 2]
    assert chosen(ranks, [one, one, one, other], 2) == [0, 3]
    assert chosen(ranks, [one] * 4, 4) == [2]
    assert likeness(one, one) == 1


def critic_of(difference: float) -> Critic:
    """Return a critic that has learned that generated music has more notes."""
    random = np.random.default_rng(0)
    written = np.arange(200) % 2 == 0
    values = np.stack([random.normal(2, 1, 200) + difference * written, random.normal(size=200)], 1)
    values[::9, 1] = np.nan
    return Critic(learned(["rhythm: notes", "top: step"], values, written))


def test_a_critic_doubts_what_it_has_learned_to_doubt():
    critic = critic_of(4)
    calm, busy = score(*TUNE, *LOW), score(*((n, 1, 60 + n % 7, OTHER) for n in range(4 * BAR)))
    assert critic.doubt(calm, 4, 8) < 0 < critic.doubt(busy, 4, 8)
    assert critic.doubt(trio([]), 4, 8) == np.inf
    assert critic.doubt(calm, 4, 8) == round(critic.doubt(calm, 4, 8), 3)


def test_of_several_takes_the_least_doubted_is_returned_and_can_be_drawn_again():
    critic = critic_of(4)
    model = replace(musicgen.load("untrained:tiny:ensemble"), critics=lambda: critic)
    prompt = model.read(PIECE).prompt(4)
    how: dict[str, Any] = {"bars": 4, "seed": 3}

    def drawn(**more: Any):
        return Continuation(model, prompt, Request(**how, **more)).finish().takes()

    every = drawn(variations=4)
    ranks = [(faults(one.score, 4, 8), critic.doubt(one.score, 4, 8)) for one in every]
    first, second = drawn(variations=2, draw=2)
    assert [first.number, second.number] == [0, 1]
    assert first.ids.tolist() == every[ranks.index(min(ranks[:2]))].ids.tolist()
    assert drawn(draw=2)[0].ids.tolist() == first.ids.tolist()
    assert (first.provenance["best_of"], "best_of" in every[0].provenance) == (2, False)
    row = first.provenance["variation"]
    assert every[row].ids.tolist() == first.ids.tolist()
    again = model.continue_(PIECE, prompt_bars=4, **how, draw=2)
    assert again[0].ids.tolist() == first.ids.tolist()


def test_the_bundled_model_has_a_critic():
    assert musicgen.find("ensemble").critic is not None
    assert musicgen.find("untrained:tiny:ensemble").critic is None


@pytest.mark.parametrize("draw", [0, 1.5])
def test_a_wrong_number_is_refused(draw):
    with pytest.raises(ValueError, match="draw"):
        Request(draw=draw)
