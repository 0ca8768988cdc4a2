import pytest
import torch

from musicgen.position.learned import LearnedConfig
from tests.musicgen.position.makers import build


def test_adds_the_vector_of_the_position() -> None:
    position = build("learned", max_length=10)
    found = position.embed(torch.zeros(2, 3, 16), 7)
    assert torch.equal(found[0], position.get_parameter("table")[7:10])
    assert torch.equal(found[0], found[1])


def test_says_so_when_its_length_is_exceeded() -> None:
    position = build("learned", max_length=10)
    with pytest.raises(ValueError, match=r"reaches 11 tokens, .* maximal length of 10; shorten"):
        position.embed(torch.zeros(1, 4, 16), 7)


def test_config_is_checked() -> None:
    with pytest.raises(ValueError, match="max_length is 0; it must be at least 1"):
        LearnedConfig(max_length=0)
    with pytest.raises(ValueError, match="initial_deviation is -1; it must be 0 or more"):
        LearnedConfig(initial_deviation=-1)
