import pytest
import torch

from musicgen.position.base import Window
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
