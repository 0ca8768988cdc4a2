import math

import pytest
import torch

from musicgen.position.phase import geometric, waves


@pytest.mark.parametrize("start", [0, 1_000_000, 123_456_789])
def test_float32_waves_are_exact_at_any_position(start: int) -> None:
    frequencies = torch.tensor([0.1, 0.3183099, 1e-4])
    cosine, sine = waves(frequencies, torch.arange(start, start + 4), like=frequencies)
    for t in range(4):
        for f, c, s in zip(frequencies.tolist(), cosine[t].tolist(), sine[t].tolist(), strict=True):
            # a fraction of whole numbers: no rounding before the last step
            numerator, denominator = f.as_integer_ratio()
            turn = ((start + t) * numerator % denominator) / denominator
            assert c == pytest.approx(math.cos(2 * math.pi * turn), abs=1e-6)
            assert s == pytest.approx(math.sin(2 * math.pi * turn), abs=1e-6)


def test_gradient_is_that_of_the_wave() -> None:
    frequencies = torch.tensor([0.07, 0.41], dtype=torch.float64, requires_grad=True)

    def both(f: torch.Tensor) -> torch.Tensor:
        return torch.cat(waves(f, torch.arange(5, 9), like=f))

    assert torch.autograd.gradcheck(both, (frequencies,))


def test_low_precision_gets_float32_waves() -> None:
    frequencies = torch.tensor([0.25], dtype=torch.bfloat16)
    cosine, _ = waves(frequencies, torch.arange(3), like=frequencies)
    assert cosine.dtype == torch.float32


def test_geometric_runs_from_one_towards_one_by_base() -> None:
    angles = geometric(4, 8, base=10_000)
    torch.testing.assert_close(angles, torch.tensor([1, 0.1, 0.01, 0.001]))
