import pytest

from training.optimiser import learning_rate


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
