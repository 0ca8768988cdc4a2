import pytest
import torch

from musicgen.position.base import Window, ratios
from tests.musicgen.position.makers import assert_close, build, inputs, run


def test_none_changes_nothing() -> None:
    position, given = build("none"), inputs(7)
    assert_close(run(position, given), given, 0)
    assert position.decay is None
    assert position.qk_width == 8


def test_window_returns_rows_by_position() -> None:
    window = Window(start=10, rows=(torch.arange(5), torch.arange(5) * 2))
    first, second = window.at(11, 3)
    assert first.tolist() == [1, 2, 3]
    assert second.tolist() == [2, 4, 6]


@pytest.mark.parametrize(("start", "length"), [(9, 2), (14, 2)])
def test_window_refuses_what_is_not_covered(start: int, length: int) -> None:
    with pytest.raises(IndexError, match="made 10 … 14 ready"):
        Window(start=10, rows=(torch.arange(5),)).at(start, length)


def test_horizons_are_spaced_in_equal_ratios_and_are_what_a_head_remembers() -> None:
    r = ratios((8.0, 512.0), heads=4).double()
    horizons = 1 / (1 - r)
    torch.testing.assert_close(
        horizons, torch.tensor([8.0, 32, 128, 512]).double(), rtol=1e-4, atol=0
    )
    remembered = (r[:, None] ** torch.arange(20000)).sum(1)  # Σ rⁱ
    torch.testing.assert_close(remembered, horizons, rtol=1e-4, atol=0)
