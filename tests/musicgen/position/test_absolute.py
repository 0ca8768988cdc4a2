import math

import pytest
import torch

from musicgen.position import Shape
from musicgen.position.absolute import AbsoluteConfig
from tests.musicgen.position.makers import build


@pytest.mark.parametrize("width", [16, 15])
def test_is_the_sinusoidal_code_of_vaswani_et_al(width: int) -> None:
    shape = Shape(layers=1, heads=1, head_width=width, width=width, features=1)
    code = build("absolute", shape=shape).embed(torch.zeros(1, 30, width), 5)[0]
    for t in (0, 1, 29):
        for i in range(width):
            angle = (t + 5) / 10_000 ** (2 * (i // 2) / width)
            wanted = math.cos(angle) if i % 2 else math.sin(angle)
            assert code[t, i].item() == pytest.approx(wanted, abs=1e-5)


def test_adds_to_the_embedding() -> None:
    position, x = build("absolute"), torch.randn(2, 4, 16)
    torch.testing.assert_close(position.embed(x, 3) - x, position.embed(0 * x, 3))


def test_base_must_exceed_one() -> None:
    with pytest.raises(ValueError, match="base is 1; it must be greater than 1"):
        AbsoluteConfig(base=1)
