"""Every form of attention against the double sum of its definition, and against one another where that is too slow."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from musicgen.attention.causal_sums import (
    Sums,
    blockwise_sums,
    exact_sums,
    parallel_sums,
    step_sums,
)
from musicgen.attention.linear_attention import (
    BACKENDS,
    AttentionState,
    attend,
)

GOLDEN = Path(__file__).parents[2] / "golden"
CHUNK = 8
LENGTHS = (1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5)

# All forms, and both ways of computing blocks, whichever device chooses which.
FORMS = {
    name: partial(attend, backend=name, chunk=CHUNK) for name in ("exact", "chunked", "recurrent")
}
SUMS: dict[str, Sums] = {
    "exact": exact_sums,
    "steps": step_sums,
    "blockwise": partial(blockwise_sums, chunk=CHUNK),
    "parallel": partial(parallel_sums, chunk=CHUNK),
}
DECAY = torch.tensor([0.6, 0.97, 1.0], dtype=torch.float64)


def draw(length: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, ...]:
    """Positive features of queries and keys and some values: B = 2, H = 3, M = 6, D = 4."""
    generator = torch.Generator().manual_seed(seed)
    fq, fk = (torch.rand(2, length, 3, 6, generator=generator, dtype=torch.float64) for _ in "qk")
    v = torch.randn(2, length, 3, 4, generator=generator, dtype=torch.float64)
    return fq.to(dtype), fk.to(dtype), v.to(dtype)


def arguments(kind: str, length: int, dtype: torch.dtype = torch.float64) -> dict:
    """What a form is called with beside queries, keys and values, by the name of a variant."""
    options: dict = {}
    if "decay" in kind:
        options["decay"] = DECAY.to(dtype)
    if "normaliser" in kind:
        options["normaliser"] = draw(length, dtype, seed=1)[:2]
    return options


VARIANTS = ("plain", "decay", "normaliser", "decay and normaliser")


def by_definition(
    fq: Tensor, fk: Tensor, v: Tensor, decay: Tensor | None, normaliser: tuple | None
) -> Tensor:
    """Σ_j r^(i−j) (fq_i·fk_j) v_j / Σ_j r^(i−j) (gq_i·gk_j), a position at a time."""
    r = torch.ones(fq.shape[2], dtype=fq.dtype) if decay is None else decay
    gq, gk = normaliser or (fq, fk)
    out = torch.zeros_like(v)
    for i in range(v.shape[1]):
        total = torch.zeros(v.shape[0], v.shape[2], 1, dtype=v.dtype)
        for j in range(i + 1):
            age = (r ** (i - j)).unsqueeze(-1)
            out[:, i] += age * (fq[:, i] * fk[:, j]).sum(-1, keepdim=True) * v[:, j]
            total += age * (gq[:, i] * gk[:, j]).sum(-1, keepdim=True)
        out[:, i] /= total
    return out


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_the_double_sum(form: str, variant: str) -> None:
    for length in LENGTHS:
        fq, fk, v = draw(length)
        options = arguments(variant, length)
        out, _ = FORMS[form](fq, fk, v, **options)
        expected = by_definition(fq, fk, v, options.get("decay"), options.get("normaliser"))
        torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)], ids=str
)
@pytest.mark.parametrize("with_decay", [False, True])
@pytest.mark.parametrize("sums", SUMS)
def test_values_states_and_gradients_are_equal(
    sums: str, with_decay: bool, dtype: torch.dtype, tolerance: float
) -> None:
    decay = DECAY.to(dtype) if with_decay else None
    for length in LENGTHS:
        q, k, v = inputs = [x.requires_grad_() for x in draw(length, dtype)]
        start = torch.rand(2, 3, 6, 4, generator=torch.Generator().manual_seed(2), dtype=dtype)
        start.requires_grad_()
        results = []
        for form in (exact_sums, SUMS[sums]):
            y, state = form(q, k, v, decay, start)
            # A loss that looks at the outputs and at the state, as a split sequence does.
            loss = (y * y).sum() + state.sin().sum()
            results.append([y, state, *torch.autograd.grad(loss, [*inputs, start])])
        for found, expected in zip(results[1], results[0], strict=True):
            scale = expected.detach().abs().max()
            assert (found - expected).abs().max() <= tolerance * scale, (sums, length)


@pytest.mark.parametrize("backend", FORMS)
def test_gradients_are_those_of_finite_differences(backend: str) -> None:
    torch.manual_seed(0)
    sizes = (1, 6, 2, 3), (1, 6, 2, 3), (1, 6, 2, 2)
    fq, fk, v = (torch.rand(size, dtype=torch.float64, requires_grad=True) for size in sizes)
    assert torch.autograd.gradcheck(lambda *given: attend(*given, backend=backend)[0], (fq, fk, v))


def test_a_learned_decay_gets_the_gradient_of_the_definition() -> None:
    fq, fk, v = draw(19)
    decay = DECAY.clone().requires_grad_()
    (found,) = torch.autograd.grad(
        attend(fq, fk, v, decay=decay, chunk=CHUNK)[0].square().sum(), decay
    )
    (expected,) = torch.autograd.grad(by_definition(fq, fk, v, decay, None).square().sum(), decay)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sequence_may_be_cut_anywhere_and_continued_by_any_form(variant: str) -> None:
    length = 21
    fq, fk, v = draw(length)
    options = arguments(variant, length)
    whole, last = attend(fq, fk, v, **options, backend="exact")
    for first, then in ((f, g) for f in FORMS.values() for g in FORMS.values()):
        for cut in (1, 7, 8, 20):
            outs, state = [], None
            for form, part in ((first, slice(0, cut)), (then, slice(cut, length))):
                piece = dict(options)
                if "normaliser" in piece:
                    piece["normaliser"] = tuple(x[:, part] for x in piece["normaliser"])
                out, state = form(fq[:, part], fk[:, part], v[:, part], state=state, **piece)
                outs.append(out)
            torch.testing.assert_close(torch.cat(outs, 1), whole, rtol=1e-10, atol=1e-10)
            assert state is not None
            torch.testing.assert_close(state.sums, last.sums, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_later_tokens_change_nothing_to_the_last_bit(form: str, variant: str) -> None:
    length = 21
    fq, fk, v = draw(length)
    options = arguments(variant, length)
    before, _ = FORMS[form](fq, fk, v, **options)
    for changed in (3, 8, 20):
        for x in (fq, fk, v, *options.get("normaliser", ())):
            x[:, changed:] *= 1.7
        after, _ = FORMS[form](fq, fk, v, **options)
        assert torch.equal(after[:, :changed], before[:, :changed])
        assert not torch.equal(after[:, changed:], before[:, changed:])
        before = after


def test_blocks_taken_at_once_are_causal_to_the_last_bit() -> None:
    q, k, v = draw(21)
    start = torch.zeros(2, 3, 6, 4, dtype=torch.float64)
    before, _ = parallel_sums(q, k, v, DECAY, start, chunk=CHUNK)
    k[:, 12:] *= -3
    after, _ = parallel_sums(q, k, v, DECAY, start, chunk=CHUNK)
    assert torch.equal(after[:, :12], before[:, :12])


@pytest.mark.parametrize("decay", [None, DECAY], ids=["plain", "decay"])
def test_products_in_bfloat16_have_sums_in_float32(decay: Tensor | None) -> None:
    q, k, v = draw(64 * CHUNK + 3)
    expected, last = exact_sums(q, k, v, decay, torch.zeros(2, 3, 6, 4, dtype=torch.float64))
    start = torch.zeros(2, 3, 6, 4)
    q, k, v = (x.bfloat16() for x in (q, k, v))
    y, state = parallel_sums(q, k, v, decay, start, chunk=CHUNK)
    assert y.dtype is state.dtype is torch.float32
    # bfloat16 has 8 bits; over 64 blocks its errors do not pile up.
    for found, exactly in ((y, expected), (state, last)):
        assert (found - exactly).abs().max() < 0.02 * exactly.abs().max()


def test_golden_favor_attention() -> None:
    golden = np.load(GOLDEN / "favor_attention.npz")
    fq, fk, v = (torch.tensor(golden[name]) for name in ("q_features", "k_features", "values"))
    for name, form in FORMS.items():
        out, _ = form(fq, fk, v)
        np.testing.assert_allclose(out.numpy(), golden["output"], atol=1e-5, err_msg=name)


def test_golden_permuteformer() -> None:
    golden = np.load(GOLDEN / "permuteformer.npz")
    permutation = golden["permutation"]
    powers = [np.tile(np.arange(permutation.shape[1]), (len(permutation), 1))]
    for _ in range(golden["queries"].shape[2] - 1):
        powers.append(np.take_along_axis(powers[-1], permutation, axis=1))
    index = np.stack(powers, axis=1)[None]  # (1, H, N, F)

    def placed(name: str) -> Tensor:
        features = np.maximum(golden[name], 0) + 1e-3
        index_of_all = np.broadcast_to(index, features.shape)
        return torch.tensor(np.take_along_axis(features, index_of_all, axis=3)).transpose(1, 2)

    fq, fk = placed("queries"), placed("keys")
    v, decay = torch.tensor(golden["values"]).transpose(1, 2), torch.tensor(golden["ratio"])
    for sums in SUMS.values():
        start = torch.zeros(2, 2, 6, 6)
        y, _ = sums(fq, fk, v, decay, start)
        np.testing.assert_allclose(
            y.transpose(1, 2).numpy(), golden["numerator"], rtol=1e-5, atol=1e-5
        )
    for form in FORMS.values():
        out, _ = form(fq, fk, v, decay=decay)
        np.testing.assert_allclose(
            out.transpose(1, 2).numpy(), golden["normalised"], rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_finite_forward_and_backward_at_16384(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    fq, fk = (torch.rand(1, 16_384, 2, 16, generator=generator).to(dtype) for _ in "qk")
    v = torch.randn(1, 16_384, 2, 8, generator=generator).to(dtype)
    # 0.88 is PermuteFormer's strongest decay: 0.88^16384 is far below float32.
    decay = torch.tensor([0.88, 0.9999])
    for form in (attend, lambda *xs, **options: _parallel(*xs, **options)):
        inputs = [x.clone().requires_grad_() for x in (fq, fk, v)]
        out, state = form(*inputs, decay=decay)
        assert out.dtype is dtype
        assert state.sums.dtype is torch.float32
        out.float().square().sum().backward()
        for x in (out, state.sums, *(x.grad for x in inputs)):
            assert x is not None
            assert x.isfinite().all()
        assert out.float().abs().max() <= v.float().abs().max() * 1.01  # a mean of values


def _parallel(fq: Tensor, fk: Tensor, v: Tensor, *, decay: Tensor) -> tuple[Tensor, AttentionState]:
    """Attend by all blocks at once, which chunks do where the decay is learned."""
    return attend(fq, fk, v, decay=decay.clone().requires_grad_())


def test_no_weight_at_all_gives_zero() -> None:
    fq, fk, v = draw(9, torch.float32)
    fk[:, :4] = 0
    inputs = [x.requires_grad_() for x in (fq, fk, v)]
    for form in FORMS.values():
        out, _ = form(*inputs)
        assert (out[:, :4] == 0).all()
        assert out.isfinite().all()
        assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), inputs))


def test_autocast_changes_nothing_on_a_cpu_but_the_result_follows_the_values() -> None:
    fq, fk, v = draw(20, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed, state = attend(fq, fk, v.bfloat16(), chunk=CHUNK)
    plain, _ = attend(fq, fk, v.bfloat16().float(), chunk=CHUNK)
    assert mixed.dtype is torch.bfloat16
    assert state.sums.dtype is torch.float32
    torch.testing.assert_close(mixed, plain.bfloat16())


def test_compiles_into_one_graph_with_the_same_numbers() -> None:
    inputs = [x.requires_grad_() for x in draw(20, torch.float32)]

    def loss(fq: Tensor, fk: Tensor, v: Tensor) -> Tensor:
        return attend(fq, fk, v, decay=DECAY.float(), chunk=CHUNK)[0].square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for found, expected in zip(
        torch.autograd.grad(compiled(*inputs), inputs),
        torch.autograd.grad(loss(*inputs), inputs),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_attend_takes_one_step_recurrently_and_in_place_only_without_gradients() -> None:
    fq, fk, v = draw(12)
    whole, _ = attend(fq, fk, v, backend="exact")
    _, state = attend(fq[:, :11], fk[:, :11], v[:, :11], chunk=CHUNK)
    kept = state.map(torch.clone)
    last = fq[:, 11:], fk[:, 11:], v[:, 11:]
    out, after = attend(*last, state=state)
    torch.testing.assert_close(out, whole[:, 11:])
    assert torch.equal(state.sums, kept.sums)
    with torch.no_grad():
        out, again = attend(*last, state=state)
    torch.testing.assert_close(out, whole[:, 11:])
    torch.testing.assert_close(again.sums, after.sums)
    assert again.sums.data_ptr() == state.sums.data_ptr()


def test_a_state_can_be_cut_off_from_what_computed_it() -> None:
    fq, fk, v = draw(12)
    _, state = attend(fq, fk, v, normaliser=(fq, fk))
    assert not state.map(lambda x: x.requires_grad_()).map(torch.Tensor.detach).sums.requires_grad


def test_the_backends_are_those_that_the_docstring_names() -> None:
    assert set(BACKENDS) == {"exact", "chunked", "recurrent", "fast-transformers"}
