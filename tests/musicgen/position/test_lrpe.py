from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from musicgen.position import Shape
from musicgen.position.lrpe import LrpeConfig, odd_even
from tests.musicgen.position.makers import CASES, TYPES, Case, build, inputs, label, run, times

GOLDEN = Path(__file__).parents[2] / "golden" / "lrpe.npz"
LRPE = [case for case in CASES if case[0] == "lrpe"]


@pytest.mark.parametrize("kind", TYPES)
def test_equals_the_definition_by_matrices(kind: str) -> None:
    golden = {name: torch.from_numpy(value) for name, value in np.load(GOLDEN).items()}
    shape = Shape(layers=1, heads=1, head_width=8, width=8, features=8)
    position = build("lrpe", shape=shape, type=kind).double()
    state = {"householder": golden["householder"].double().unsqueeze(0)}
    if kind == "permutation":
        state["powers.permutation"] = golden["permutation"].unsqueeze(0)
    else:
        state["angles"] = golden[f"alpha_{kind}"].unsqueeze(0)
    position.load_state_dict(state)
    fq, fk = (golden[x].view(1, -1, 1, 8) for x in ("queries", "keys"))
    fq, fk = position.features(fq, fk, position.cover(None, 0, 17), 0, 0)
    similarity = torch.einsum("bmhf,bnhf->mn", fq, fk)
    # the golden Householder vector is a unit vector to float32's precision only
    torch.testing.assert_close(similarity, golden[f"sim_{kind}"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", LRPE, ids=label)
def test_similarity_depends_on_distance_alone(case: Case) -> None:
    position, given = build(case[0], **case[1]).double(), inputs(20)
    near, far = run(position, given), run(position, given, start=1_000_000)
    similarities = [torch.einsum("bmhf,bnhf->bhmn", x["fq"], x["fk"]) for x in (near, far)]
    torch.testing.assert_close(*similarities, rtol=1e-8, atol=1e-8)
    plain = torch.einsum("bmhf,bnhf->bhmn", given["fq"], given["fk"])
    assert not torch.allclose(similarities[0], plain)
    behind, before = times(0, 20, 2)
    same = (behind == before) | torch.tensor(
        not position.musical
    )  # (B, T), where the distance is none
    found, own = (x.diagonal(0, 2, 3).transpose(1, 2)[same] for x in (similarities[0], plain))
    torch.testing.assert_close(found, own)


def test_fourier_core_is_the_unitary_discrete_transform() -> None:
    given = inputs(6)
    position = build("lrpe", core="fourier").double()
    found = run(position, given)["fq"]
    m = torch.arange(12, dtype=torch.float64)
    matrix = torch.exp(-2j * torch.pi * m.view(-1, 1) * m / 12) / 12**0.5
    angles = position.get_parameter("angles").detach() * torch.arange(6).view(-1, 1, 1)
    wanted = (given["fq"].to(torch.complex128) @ matrix) * torch.exp(1j * angles)
    torch.testing.assert_close(found, torch.cat([wanted.real, wanted.imag], -1))


def test_identity_of_type_orthogonal_is_rope() -> None:
    given = inputs(9)
    shape = Shape(layers=1, heads=2, head_width=12, width=24, features=12)
    lrpe = build("lrpe", shape=shape, type="orthogonal", core="identity")
    found = run(lrpe, given)["fq"]
    rope = build("rope", shape=shape)
    wanted = rope.qk(given["fq"], given["fk"], rope.cover(None, 0, 9), 0, 0)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def test_odd_even_is_the_papers_permutation() -> None:
    assert odd_even(6).tolist() == [0, 3, 1, 4, 2, 5]
    assert odd_even(5).tolist() == [0, 3, 1, 4, 2]


def test_denominator_is_left_to_the_features_before() -> None:
    assert not build("lrpe").normaliser_is_positioned


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"type": "rotary"},
            "type is 'rotary'; it must be one of unitary, orthogonal, permutation",
        ),
        (
            {"core": "wavelet"},
            "core is 'wavelet'; it must be one of householder, identity, odd_even, fourier",
        ),
        ({"core": "fourier", "type": "orthogonal"}, "complex features, which type orthogonal"),
        ({"core": "fourier", "type": "permutation"}, "choose type unitary, or another core"),
    ],
)
def test_config_is_checked(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LrpeConfig(**choice)


def test_odd_number_of_features_is_refused_for_rotations() -> None:
    shape = Shape(layers=1, heads=1, head_width=8, width=8, features=9)
    with pytest.raises(ValueError, match="even number of features, not 9"):
        build("lrpe", shape=shape, type="orthogonal")
