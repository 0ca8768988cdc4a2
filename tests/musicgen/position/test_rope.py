import pytest
import torch

from musicgen.position import Shape
from musicgen.position.rope import RopeConfig
from tests.musicgen.position.makers import build, inputs, run


def test_first_pair_turns_by_one_radian_a_token() -> None:
    given = inputs(4)
    found = run(build("rope"), given, start=3)
    before, after = (torch.view_as_complex(x["q"][..., :2].contiguous()) for x in (given, found))
    turn = torch.exp(1j * torch.arange(3, 7, dtype=torch.float64)).view(-1, 1)
    torch.testing.assert_close(after, before * turn, rtol=1e-6, atol=1e-6)


def test_similarity_depends_on_distance_alone() -> None:
    position, given = build("rope").double(), inputs(20)
    near, far = run(position, given), run(position, given, start=1_000_000)
    for found in (near, far):
        found["similarity"] = torch.einsum("bmhd,bnhd->bhmn", found["q"], found["k"])
    torch.testing.assert_close(near["similarity"], far["similarity"], rtol=1e-8, atol=1e-8)
    assert not torch.allclose(
        near["similarity"], torch.einsum("bmhd,bnhd->bhmn", given["q"], given["k"])
    )


def test_length_of_vectors_is_kept() -> None:
    given = inputs(20)
    found = run(build("rope"), given)
    torch.testing.assert_close(found["k"].norm(dim=-1), given["k"].norm(dim=-1), rtol=1e-6, atol=0)


def test_odd_head_width_is_refused() -> None:
    shape = Shape(layers=1, heads=1, head_width=7, width=7, features=1)
    with pytest.raises(ValueError, match="even head width, not 7"):
        build("rope", shape=shape)


def test_base_must_exceed_one() -> None:
    with pytest.raises(ValueError, match="base is 0"):
        RopeConfig(base=0)
