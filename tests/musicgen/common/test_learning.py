"""Seeds of any size tell draws apart; rates rise and fall."""

import pytest
import torch

from musicgen.common.learning import generator_from, learning_rate
from musicgen.model.performer import Performer
from tests.musicgen.toys import toy_config


def drawn(seed: int) -> list[float]:
    return torch.rand(4, generator=generator_from(seed)).tolist()


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_what_torch_takes_as_it_is_stays_so(seed: int):
    assert drawn(seed) == torch.rand(4, generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("large", [2**32, 2**32 + 7, 2**40 + 7, 2**63 - 1])
def test_a_large_seed_draws_otherwise_than_a_small_one(large: int):
    assert drawn(large) == drawn(large)
    assert drawn(large) != drawn(large % 2**32)


def test_the_first_weights_are_those_of_the_whole_seed():
    weights = [Performer(toy_config(), seed).embedding.weight for seed in (7, 2**32 + 7)]
    assert not torch.equal(*weights)


def rate(step: int, *, warmup: int = 10, total: int = 110) -> float:
    return learning_rate(step, peak=2.0, floor=0.2, warmup=warmup, total=total)


def test_it_rises_linearly_from_the_first_step_on():
    assert [rate(step) for step in (0, 4, 9)] == pytest.approx([0.2, 1.0, 2.0])


def test_it_falls_along_half_a_cosine():
    assert [rate(step) for step in (10, 60, 110)] == pytest.approx([2.0, 1.1, 0.2])
    assert rate(35) == pytest.approx(0.2 + 1.8 * (1 + 2**-0.5) / 2)
    assert rate(500) == pytest.approx(0.2)  # a run that goes on past its end


def test_there_may_be_no_warm_up_or_nothing_else():
    assert rate(0, warmup=0) == pytest.approx(2.0)
    assert rate(9, warmup=10, total=10) == pytest.approx(2.0)
    assert rate(10, warmup=10, total=10) == pytest.approx(2.0)
