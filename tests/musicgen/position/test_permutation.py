import pytest
import torch

from musicgen.position.permutation import PermutationPowers


def test_powers_equal_repeated_application() -> None:
    powers = PermutationPowers(heads=3, features=11, seed=4)
    found = powers(torch.arange(40))
    expected = torch.arange(11).expand(3, -1)
    for i in range(40):
        assert torch.equal(found[i], expected)
        expected = powers.permutation.gather(1, expected)


def test_powers_have_no_limit() -> None:
    powers = PermutationPowers(heads=2, features=7, seed=0)
    order = 420  # of any permutation of 7: the least common multiple of 1 … 7
    far = 10**15
    assert torch.equal(powers(far + torch.arange(3)), powers(far % order + torch.arange(3)))


def test_each_head_has_its_own_permutation_and_seeds_differ() -> None:
    first, second = (PermutationPowers(2, 32, seed).permutation for seed in (0, 1))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)
    assert torch.equal(first, PermutationPowers(2, 32, 0).permutation)


def test_cycles_follow_a_loaded_permutation() -> None:
    powers, other = PermutationPowers(2, 9, seed=0), PermutationPowers(2, 9, seed=1)
    powers.load_state_dict(other.state_dict())
    assert torch.equal(powers(torch.arange(20)), other(torch.arange(20)))


@pytest.mark.parametrize("wrong", [[1, 1, 1], [0, 1, 3], [-1, 0, 1]])
def test_what_is_no_permutation_is_refused(wrong: list[int]) -> None:
    """Its cycles would never close."""
    powers = PermutationPowers(1, 3, seed=0)
    with pytest.raises(ValueError, match="a permutation of 3 features does not hold each once"):
        powers.load_state_dict({"permutation": torch.tensor([wrong])})
