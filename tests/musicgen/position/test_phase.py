import math
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

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


class NoFloat64OfMps(TorchDispatchMode):
    """Fails where float64 is made of what lies on a device without it, be it in a copy to another device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at what comes of each operation."""
        out = func(*args, **(kwargs or {}))
        given = [x for x in args if isinstance(x, torch.Tensor)]
        if isinstance(out, torch.Tensor) and out.dtype is torch.float64:
            assert not any(x.device.type == "mps" for x in given), func
        return out


def test_a_device_without_float64_is_asked_for_none() -> None:
    with FakeTensorMode(), NoFloat64OfMps():
        frequencies, places = torch.ones(3, device="mps"), torch.ones(4, device="mps").long()
        cosine, _ = waves(frequencies, places, like=frequencies)
    assert (cosine.device.type, cosine.dtype) == ("mps", torch.float32)
