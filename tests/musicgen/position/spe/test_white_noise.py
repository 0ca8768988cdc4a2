import pytest
import torch

from musicgen.position.spe.convolutional import BLOCK, WhiteNoise


def noise(seed: int = 3) -> WhiteNoise:
    return WhiteNoise(seed, (2, 4, 8), like=torch.zeros(()))


def test_windows_agree_whatever_was_asked_before() -> None:
    whole = noise().window(0, 5 * BLOCK)
    asked = noise()
    for start, stop in [(0, 1), (70, 200), (63, 65), (5, 300), (128, 192)]:
        assert torch.equal(asked.window(start, stop), whole[:, :, start:stop])


def test_far_positions_need_no_near_ones() -> None:
    assert torch.equal(noise().window(10**12, 10**12 + 3), noise().window(10**12, 10**12 + 3))


def test_keeps_no_more_than_the_latest_window() -> None:
    asked = noise()
    for start in range(0, 2000, 50):
        asked.window(start, start + 100)
        assert asked._kept.shape[-2] <= 3 * BLOCK


def test_forgets() -> None:
    asked = noise()
    before = asked.window(10, 200).clone()
    asked.forget()
    assert asked._kept.numel() == 0
    assert torch.equal(asked.window(10, 200), before)


def test_is_standard_normal_and_uncorrelated_between_blocks_and_seeds() -> None:
    found = noise().window(0, 64 * BLOCK).double()
    count = found.numel()
    assert found.mean().item() == pytest.approx(0, abs=5 / count**0.5)
    assert found.var().item() == pytest.approx(1, abs=5 * (2 / count) ** 0.5)
    other = noise(4).window(0, 64 * BLOCK).double()
    for shifted in (found.roll(BLOCK, 2), found.roll(1, 2), other):
        assert (found * shifted).mean().item() == pytest.approx(0, abs=5 / count**0.5)


def test_takes_the_type_of_what_it_filters() -> None:
    like = torch.zeros((), dtype=torch.float64)
    found = WhiteNoise(3, (2, 4, 8), like=like).window(0, 10)
    assert found.dtype == torch.float64
    assert torch.equal(found, noise().window(0, 10).double())
