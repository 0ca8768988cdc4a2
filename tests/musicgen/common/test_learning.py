"""Seeds of any size, and learning rates."""

import pytest
import torch

from musicgen.common.learning import cosine_rate, generator_from
from musicgen.performer import Performer
from tests.musicgen.toys import generator, toy_config


def drawn(seed: int) -> list[float]:
    return torch.rand(4, generator=generator_from(seed)).tolist()


def test_large_seeds_differ_from_small_ones():
    for small in (0, 7, 2**32 - 1):
        assert drawn(small) == torch.rand(4, generator=generator(small)).tolist()
    for large in (2**32, 2**32 + 7, 2**63 - 1):
        assert drawn(large) == drawn(large)
        assert drawn(large) != drawn(large % 2**32)
    weights = [Performer(toy_config(), seed).embedding.weight for seed in (7, 2**32 + 7)]
    assert not torch.equal(*weights)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        # Half a cosine, and constant after its end.
        ((10, 110), {10: 2.0, 35: 0.2 + 1.8 * (1 + 2**-0.5) / 2, 60: 1.1, 110: 0.2, 500: 0.2}),
        ((0, 110), {0: 2.0}),
        ((10, 10), {10: 2.0}),
    ],
)
def test_the_learning_rate_is_half_a_cosine(schedule: tuple[int, int], rates: dict[int, float]):
    warmup, total = schedule
    for step, wanted in rates.items():
        found = cosine_rate(step, peak=2.0, floor=0.2, warmup=warmup, total=total)
        assert found == pytest.approx(wanted)
