"""Encodings, and their waves in musical time, against their formulas or their authors' numbers."""

import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from evaluation.attention import template
from musicgen.parts import Shape
from musicgen.position import POSITIONS
from musicgen.position.base import PERIODS, MusicalFrequencies, horizon_decays, waves
from musicgen.position.flt import Flt
from musicgen.position.permuteformer import PermutationPowers
from musicgen.position.spe.sine import orthogonal_rows
from tests.musicgen.position.makers import (
    CASES,
    SHAPE,
    Case,
    build,
    cover,
    inputs,
    label,
    run,
    times,
)
from tests.musicgen.toys import generator, golden

ROOT = Path(__file__).parents[3]
README = (ROOT / "musicgen" / "position" / "README.md").read_text(encoding="utf-8")


def shape_of(width: int, heads: int = 1, features: int = 1) -> Shape:
    sizes = {"head_width": width, "width": heads * width, "features": features}
    return replace(SHAPE, layers=1, heads=heads, **sizes)


@pytest.mark.parametrize("width", [16, 15])
def test_absolute_adds_the_sinusoids_of_vaswani_et_al(width: int):
    x = torch.randn(1, 30, width)
    code = (build("absolute", shape=shape_of(width)).embed(x, 5) - x)[0]
    for t in (0, 1, 29):
        for i in range(width):
            angle = (t + 5) / 10_000 ** (2 * (i // 2) / width)
            wanted = math.cos(angle) if i % 2 else math.sin(angle)
            assert code[t, i].item() == pytest.approx(wanted, abs=1e-5)


def test_learned_adds_the_vector_of_the_position():
    position = build("learned", max_length=10)
    found = position.embed(torch.zeros(2, 3, 16), 7)
    assert torch.equal(found, position.table[7:10].expand(2, 3, 16))


def test_horizons_are_spaced_geometrically_and_equal_the_sum_of_weights():
    r = horizon_decays((8.0, 512.0), heads=4).double()
    wanted = torch.tensor([8.0, 32, 128, 512]).double()
    torch.testing.assert_close(1 / (1 - r), wanted, rtol=1e-4, atol=0)
    remembered = (r[:, None] ** torch.arange(20000)).sum(1)  # Σ rⁱ
    torch.testing.assert_close(remembered, wanted, rtol=1e-4, atol=0)


@pytest.mark.parametrize("start", [0, 123_456_789])
def test_float32_waves_are_exact_at_any_position(start: int):
    frequencies = torch.tensor([0.1, 0.3183099, 1e-4])
    cosine, sine = waves(frequencies, torch.arange(start, start + 4), like=frequencies)
    for t in range(4):
        for i, frequency in enumerate(frequencies.tolist()):
            # An exact fraction, which is not rounded before the last step.
            numerator, denominator = frequency.as_integer_ratio()
            turn = ((start + t) * numerator % denominator) / denominator
            assert cosine[t, i].item() == pytest.approx(math.cos(2 * math.pi * turn), abs=1e-6)
            assert sine[t, i].item() == pytest.approx(math.sin(2 * math.pi * turn), abs=1e-6)
    low = frequencies.bfloat16()
    assert waves(low, torch.arange(3), like=low)[0].dtype == torch.float32


def test_rope_turns_the_first_pair_by_one_radian_a_token():
    given = inputs(4)
    found = run(build("rope"), given, start=3)
    before, after = (torch.view_as_complex(x["q"][..., :2].contiguous()) for x in (given, found))
    turn = torch.exp(1j * torch.arange(3, 7, dtype=torch.float64)).view(-1, 1)
    torch.testing.assert_close(after, before * turn, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found["k"].norm(dim=-1), given["k"].norm(dim=-1), rtol=1e-6, atol=0)


RELATIVE = [case for case in CASES if case[0] in ("rope", "permuteformer", "lrpe")]


@pytest.mark.parametrize("case", RELATIVE, ids=label)
def test_similarity_depends_on_distance_alone(case: Case):
    position, given = build(case[0], **case[1]).double(), inputs(20)
    names = ("q", "k") if case[0] == "rope" else ("fq", "fk")
    found = []
    for placed in (run(position, given), run(position, given, start=1_000_000), given):
        found.append(torch.einsum("bmhf,bnhf->bhmn", *(placed[name] for name in names)))
    near, far, plain = found
    torch.testing.assert_close(near, far, rtol=1e-8, atol=1e-8)
    assert torch.allclose(near, plain) == ("with_permutation" in case[1])
    behind, before = times(0, 20, 2)
    same = (behind == before) | torch.tensor(not position.musical)  # where the distance is 0
    own, wanted = (x.diagonal(0, 2, 3).transpose(1, 2)[same] for x in (near, plain))
    torch.testing.assert_close(own, wanted)


def test_powers_of_permutations_equal_repeated_application_at_any_position():
    powers = PermutationPowers(heads=2, features=7, seed=4)
    found, expected = powers(torch.arange(40)), torch.arange(7).expand(2, -1)
    for i in range(40):
        assert torch.equal(found[i], expected)
        expected = powers.permutation.gather(1, expected)
    order = 420  # a multiple of the order of any permutation of 7: the lcm of 1 … 7
    far = 10**15
    assert torch.equal(powers(far + torch.arange(3)), powers(far % order + torch.arange(3)))


def test_a_damaged_permutation_is_refused():
    for wrong in ([1, 1, 1], [0, 1, 3], [-1, 0, 1]):  # with cycles that would never close
        with pytest.raises(ValueError, match="a permutation must contain each of 3 features once"):
            PermutationPowers(1, 3, 0).load_state_dict({"permutation": torch.tensor([wrong])})


def test_permuteformer_equals_the_authors_code():
    given = golden("permuteformer.npz")
    heads, features = given["permutation"].shape
    position = build("permuteformer", shape=shape_of(features, heads, features))
    position.load_state_dict({**position.state_dict(), "powers.permutation": given["permutation"]})
    fq, fk = (given[x].transpose(1, 2).relu() + 1e-3 for x in ("queries", "keys"))
    length = fq.shape[1]
    fq, fk = position.features(fq, fk, position.cover(None, 0, length))
    distance = torch.arange(length).view(-1, 1) - torch.arange(length)
    forgetting = given["ratio"].view(-1, 1, 1) ** distance.clamp(min=0) * (distance >= 0)
    attention = torch.einsum("bmhf,bnhf->bhmn", fq, fk) * forgetting
    numerator = attention @ given["values"]
    torch.testing.assert_close(numerator, given["numerator"], rtol=1e-5, atol=1e-5)
    normalised = numerator / attention.sum(-1, keepdim=True)
    torch.testing.assert_close(normalised, given["normalised"], rtol=1e-5, atol=1e-5)


def test_permuteformer_decays_by_the_authors_ratios_or_by_the_horizons():
    wanted = [1 / (1 + math.exp(-3 * head / 8 - 2)) for head in range(8)]
    shape = shape_of(4, heads=8, features=4)
    assert build("permuteformer", shape=shape).decay.tolist() == pytest.approx(wanted, abs=1e-6)
    assert build("permuteformer", with_permutation=False).decay is not None
    assert build("permuteformer", with_decay=False).decay is None
    shape = replace(SHAPE, horizons=(8.0, 64.0))
    for with_decay in (True, False):
        decay = build("permuteformer", shape=shape, with_decay=with_decay).decay
        assert decay[0].item() == pytest.approx(1 - 1 / 8)


@pytest.mark.parametrize("kind", ["unitary", "orthogonal", "permutation"])
def test_lrpe_equals_its_definition_by_matrices(kind: str):
    given = golden("lrpe.npz")
    position = build("lrpe", shape=shape_of(8, features=8), type=kind).double()
    state = {"householder": given["householder"].double().unsqueeze(0)}
    if kind == "permutation":
        state["powers.permutation"] = given["permutation"].unsqueeze(0)
    else:
        state["angles"] = given[f"alpha_{kind}"].unsqueeze(0)
    position.load_state_dict(state)
    fq, fk = (given[x].view(1, -1, 1, 8) for x in ("queries", "keys"))
    fq, fk = position.features(fq, fk, position.cover(None, 0, 17))
    similarity = torch.einsum("bmhf,bnhf->mn", fq, fk)
    # The golden Householder vector has unit length only to float32 precision.
    torch.testing.assert_close(similarity, given[f"sim_{kind}"], rtol=1e-5, atol=1e-5)


def test_lrpe_without_a_core_rotates_like_rope():
    given = inputs(6)
    shape = shape_of(12, heads=2, features=12)
    rotated = run(build("lrpe", shape=shape, type="orthogonal", core="identity"), given)["fq"]
    rope = build("rope", shape=shape)
    wanted = rope.qk(given["fq"], given["fk"], rope.cover(None, 0, 6))[0]
    torch.testing.assert_close(rotated, wanted, rtol=1e-6, atol=1e-6)


def test_fixed_angles_of_lrpe_are_the_papers_and_mixed_rotates_half_of_the_features():
    quarter, number = torch.pi / 2, torch.arange(1, 7)
    fixed = {
        "a": 10000 ** (-2 * torch.arange(6) / 12),
        "b": quarter * number / 6,
        "c": quarter / number,
    }
    for kind, wanted in fixed.items():
        position = build("lrpe", type="orthogonal", angles=kind)
        torch.testing.assert_close(position.angles, wanted.expand(2, 6))
        assert not [*filter(lambda parameter: parameter.requires_grad, position.parameters())]
    given = inputs(6)
    found = run(build("lrpe", type="mixed", core="identity"), given)["fq"]
    assert torch.equal(found[..., 6:], given["fq"][..., 6:])
    assert not torch.isclose(found[:, 1:, :, :6], given["fq"][:, 1:, :, :6]).any()


@pytest.mark.parametrize(
    ("name", "choice", "message"),
    [
        ("rope", {"shape": shape_of(7)}, "even head width, not 7"),
        ("lrpe", {"core": "identity", "learned_core": True}, "core identity has no parameters"),
        ("lrpe", {"type": "permutation", "angles": "a"}, "angles a are per token"),
        ("lrpe", {"shape": shape_of(8, features=9), "type": "orthogonal"}, "even .* not 9"),
    ],
)
def test_impossible_options_are_refused(name: str, choice: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        build(name, **choice)


def test_the_readme_lists_every_encoding():
    rows = re.findall(r"^\| `(\w+)` \|.*\| `([\w/]+)\.py` \|$", README, re.MULTILINE)
    assert [name for name, _ in rows] == list(POSITIONS)
    for name, file in rows:
        module = import_module(f"musicgen.position.{file.replace('/', '.')}")
        assert POSITIONS[name].__module__ == module.__name__


def test_the_example_of_the_readme_passes_the_tests_of_all_encodings(tmp_path: Path):
    for folder in ("musicgen", "tokenization", "tests/musicgen", "tests/golden"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("pretrained")
        )
    for file in ("pyproject.toml", "tests/__init__.py", "tests/conftest.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    config, module = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "musicgen/position/fade.py").write_text(module)
    line = '    "flt": '
    for file, before, given, name in (
        ("musicgen/parts.py", "POSITION_CONFIGS: dict", config, "FadeConfig"),
        ("musicgen/position/__init__.py", "POSITIONS: dict", "from musicgen.position.fade import Fade", "Fade"),
    ):  # fmt: skip
        text = (tmp_path / file).read_text()
        text = text.replace(before, f"{given}\n\n{before}").replace(
            line, f'    "fade": {name},\n{line}'
        )
        (tmp_path / file).write_text(text)
    places = ("position/test_contract.py", "test_config.py", "test_performer.py")
    command = [sys.executable, "-m", "pytest", "-n", "0", "-k", "fade", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"tests/musicgen/{place}" for place in places)], cwd=tmp_path, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert re.search(r"^[12]\d passed", done.stdout, re.MULTILINE), done.stdout


BAR = 48


def test_the_initial_waves_of_a_head_are_a_comb_with_teeth_at_its_period():
    frequencies = MusicalFrequencies(replace(SHAPE, heads=4, bar_ticks=BAR), 64)()
    ticks = torch.arange(16 * BAR, dtype=torch.float64)
    comb = torch.cos(2 * torch.pi * frequencies.detach().unsqueeze(-1) * ticks).mean(1)
    for bars, kernel in zip(PERIODS, comb, strict=True):
        phase = torch.arange(16 * BAR) % (bars * BAR)
        torch.testing.assert_close(kernel[phase == 0], torch.ones(16 // bars, dtype=torch.float64))
        between = (phase >= 3) & (phase <= bars * BAR - 3)  # a sixteenth or more from a tooth
        assert kernel[between].max() < 0.5


@pytest.mark.parametrize(("rows", "width"), [(24, 24), (20, 24), (60, 24)])
def test_rows_of_the_noise_are_orthogonal_within_blocks(rows: int, width: int):
    drawn = orthogonal_rows(3, rows, width, generator()).double()
    assert drawn.shape == (3, rows, width)
    for block in drawn.split(width, 1):
        products = block @ block.mT
        wanted = width * torch.eye(block.shape[1], dtype=torch.float64).expand_as(products)
        torch.testing.assert_close(products, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("time", ["tokens", "music"])
def test_an_orthogonal_code_with_enough_realisations_realises_the_template_exactly(time: str):
    position = build("sine_spe", sines=2, realisations=8 * 5, orthogonal=True, time=time).double()
    given = inputs(30)
    with torch.no_grad():
        position.offsets.normal_(generator=generator(1))
        code = cover(position, position.begin(generator()), 0, 30)
    q, k = position.qk(given["q"], given["k"], position.of_layer(code, 1))
    found = torch.einsum("bmhr,bnhr->bhmn", q, k) * position.scale**-2 / position.realisations
    number = torch.arange(30).expand(2, 2, 30)
    queries, keys = times(0, 30, 2) if position.musical else number
    lags = queries.unsqueeze(2) - keys.unsqueeze(1)  # (B, T, T)
    of_lags = template(position, lags.flatten().double(), layer=1).view(2, 8, *lags.shape)
    wanted = torch.einsum("bmhd,bnhd,hdbmn->bhmn", given["q"], given["k"], of_lags)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)  # noise is drawn in float32


LAGS = torch.tensor([0.0, 1, 2, 3, 5, 8, 13, 20])
each_family = pytest.mark.parametrize(
    "choice",
    [{"mask": "gaussian"}, {"mask": "local"}, {"mask": "local", "frequencies": "folded"}],
    ids=lambda choice: "-".join(choice.values()),
)


def flt(features: int, **choice: Any) -> Flt:
    return build("flt", shape=shape_of(8, heads=2), random_features=features, **choice)


def estimate(position: Flt, start: int, seed: int) -> Tensor:
    """Return what the appended features add to the exponent of softmax at LAGS, (H, N)."""
    last = int(LAGS.max())
    code = position.cover(position.begin(generator(seed)), start, start + last + 1)
    zero = torch.zeros(1, last + 1, 2, 8, dtype=next(position.parameters()).dtype)
    q, k = position.qk(zero, zero, code)
    q, k = (x[0] / position.qk_width**0.25 for x in (q, k))  # as the feature map does
    return torch.einsum("hf,nhf->hn", q[last], k[last - LAGS.long()])


@each_family
@torch.no_grad()
def test_mean_over_draws_converges_to_the_closed_form(choice: dict[str, Any]):
    """The mean over N frequencies is within 6 standard errors of f, and these shrink as 1/√N."""
    position, missing = flt(20_000, **choice), 0.0
    if choice["mask"] == "local":
        radii = torch.tensor([1.5, 2.5, 4.5, 9.5] * 2)  # no jump at an integer
        position.mask.get_parameter("log_radii").copy_(radii.log())
        # sin(x)/x decays slowly: |ξ| > 5, which is hardly ever drawn, contributes about 1 % of f.
        fraction = 0.0 if "frequencies" in choice else 0.02
        missing = fraction * position.mask.get_parameter("weights").abs().sum().item()
    closed = position.mask(LAGS)
    ratio = position.mask.ratio(position.begin(generator(99)).noise)
    for draws in (1, 16):
        estimates = [estimate(position, 0, seed) for seed in range(draws)]
        deviation = ratio.square().mean().sqrt().item() / (draws * 20_000) ** 0.5
        bound = 6 * deviation + missing
        assert (torch.stack(estimates).mean(0) - closed).abs().max() <= bound
    assert closed.abs().max() > 5 * bound  # the bound is tight enough to mean something


@each_family
def test_estimate_depends_on_distance_alone(choice: dict[str, Any]):
    position = flt(32, **choice).double()
    near, far = estimate(position, 0, 3), estimate(position, 1_000_000, 3)
    torch.testing.assert_close(near, far, rtol=1e-5, atol=1e-5)


def test_the_softmax_kernel_gets_the_scaled_product_plus_the_mask():
    position, given = flt(16).double(), inputs(21)
    found = run(position, given)
    product = torch.einsum("bhd,bnhd->bhn", found["q"][:, 20], found["k"]) / position.qk_width**0.5
    content = torch.einsum("bhd,bnhd->bhn", given["q"][:, 20], given["k"]) / 8**0.5
    mask = (product - content)[..., 20 - LAGS.long()]
    torch.testing.assert_close(mask, estimate(position, 0, 0).expand_as(mask))
