"""Seeds of any size tell draws apart."""

import pytest
import torch

from musicgen.common.learning import generator_from
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
