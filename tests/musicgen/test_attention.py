"""Attention against the double sum that defines it or a faster form, and linear layers."""

import sys
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.attention import (
    Sums,
    attend,
    blockwise_sums,
    exact_sums,
    map_state,
    parallel_sums,
    step_sums,
    without_autocast,
)
from musicgen.linear import Linear
from musicgen.performer import softmax_attend
from tests.musicgen.toys import generator

CHUNK = 8
LENGTHS = (1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5)

# All backends, and both ways of computing blocks, whichever the device would choose.
BACKENDS = ("exact", "chunked", "recurrent")
FORMS = {name: partial(attend, backend=name, chunk=CHUNK) for name in BACKENDS}
SUMS: dict[str, Sums] = {
    "exact": exact_sums,
    "steps": step_sums,
    "blockwise": partial(blockwise_sums, chunk=CHUNK),
    "parallel": partial(parallel_sums, chunk=CHUNK),
}
DECAY = torch.tensor([0.6, 0.97, 1.0], dtype=torch.float64)


def draw(length: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, ...]:
    """Draw positive features of queries and keys, and values: B = 2, H = 3, M = 6, D = 4."""
    source = generator(seed)
    fq, fk = (torch.rand(2, length, 3, 6, generator=source, dtype=torch.float64) for _ in "qk")
    v = torch.randn(2, length, 3, 4, generator=source, dtype=torch.float64)
    return fq.to(dtype), fk.to(dtype), v.to(dtype)


def options_of(variant: str, length: int) -> dict[str, Any]:
    """Return the keyword arguments of a variant of attention."""
    options: dict[str, Any] = {"decay": DECAY} if "decay" in variant else {}
    if "normaliser" in variant:
        options["normaliser"] = draw(length, seed=1)[:2]
    return options


def by_definition(fq: Tensor, fk: Tensor, v: Tensor, decay=None, normaliser=None) -> Tensor:
    """Compute Σ_j r^(i−j) (fq_i·fk_j) v_j / Σ_j r^(i−j) (gq_i·gk_j), one position at a time."""
    r = torch.ones(fq.shape[2], dtype=fq.dtype) if decay is None else decay
    gq, gk = normaliser or (fq, fk)
    out = torch.zeros_like(v)
    for i in range(v.shape[1]):
        total = torch.zeros(v.shape[0], v.shape[2], 1, dtype=v.dtype)
        for j in range(i + 1):
            weight = (r ** (i - j)).unsqueeze(-1)
            out[:, i] += weight * (fq[:, i] * fk[:, j]).sum(-1, keepdim=True) * v[:, j]
            total += weight * (gq[:, i] * gk[:, j]).sum(-1, keepdim=True)
        out[:, i] /= total
    return out


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize("with_decay", [False, True])
@pytest.mark.parametrize("sums", SUMS)
def test_outputs_states_and_gradients_equal_the_exact_ones(sums, with_decay, dtype, tolerance):
    decay = DECAY.to(dtype) if with_decay else None
    for length in LENGTHS:
        q, k, v = inputs = [x.requires_grad_() for x in draw(length, dtype)]
        start = torch.rand(2, 3, 6, 4, generator=generator(2), dtype=dtype).requires_grad_()
        results = []
        for form in (exact_sums, SUMS[sums]):
            y, state = form(q, k, v, decay, start)
            # The loss depends on the outputs and on the state, as when a sequence is cut.
            loss = (y * y).sum() + state.sin().sum()
            results.append([y, state, *torch.autograd.grad(loss, [*inputs, start])])
        for found, expected in zip(results[1], results[0], strict=True):
            scale = expected.detach().abs().max()
            assert (found - expected).abs().max() <= tolerance * scale, (sums, length)


def test_the_gradient_of_a_learned_decay_equals_that_of_the_definition():
    given, decay = draw(19), DECAY.clone().requires_grad_()
    out, _ = attend(*given, decay=decay, chunk=CHUNK)
    (found,) = torch.autograd.grad(out.square().sum(), decay)
    (expected,) = torch.autograd.grad(by_definition(*given, decay).square().sum(), decay)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("variant", ["plain", "decay", "normaliser", "decay and normaliser"])
def test_a_sequence_can_be_cut_anywhere_and_continued_by_any_backend(variant: str):
    length = 21
    given, options = draw(length), options_of(variant, length)
    whole, last = attend(*given, **options, backend="exact")
    torch.testing.assert_close(whole, by_definition(*given, **options), rtol=1e-10, atol=1e-10)
    for first, then in ((f, g) for f in FORMS.values() for g in FORMS.values()):
        for cut in (1, 7, 8, 20):
            outs, state = [], None
            for form, part in ((first, slice(0, cut)), (then, slice(cut, length))):
                piece = dict(options)
                if "normaliser" in piece:
                    piece["normaliser"] = tuple(x[:, part] for x in piece["normaliser"])
                out, state = form(*(x[:, part] for x in given), state=state, **piece)
                outs.append(out)
            torch.testing.assert_close(torch.cat(outs, 1), whole, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(state.sums, last.sums, rtol=1e-10, atol=1e-10)


def linear_parallel(fq: Tensor, fk: Tensor, v: Tensor, *, decay: Tensor, **_: Any) -> Any:
    return parallel_sums(fq, fk, v, decay, torch.zeros(2, 3, 6, 4).double(), chunk=CHUNK)


def softmax(fq: Tensor, fk: Tensor, v: Tensor, **_: Any) -> Any:
    return softmax_attend(fq, fk, v)


@pytest.mark.parametrize("form", [*FORMS.values(), linear_parallel, softmax])
def test_outputs_do_not_depend_on_later_tokens_to_the_last_bit(form: Any):
    length = 21
    given, options = draw(length), options_of("decay and normaliser", length)
    before, _ = form(*given, **options)
    for changed in (3, 8, 20):
        for x in (*given, *options["normaliser"]):
            x[:, changed:] *= 1.7
        after, _ = form(*given, **options)
        assert torch.equal(after[:, :changed], before[:, :changed])
        assert not torch.equal(after[:, changed:], before[:, changed:])
        before = after


@pytest.mark.parametrize("decay", [None, DECAY], ids=["plain", "decay"])
def test_products_in_bfloat16_are_summed_in_float32(decay: Tensor | None):
    q, k, v = draw(64 * CHUNK + 3)
    expected, last = exact_sums(q, k, v, decay, torch.zeros(2, 3, 6, 4, dtype=torch.float64))
    q, k, v = (x.bfloat16() for x in (q, k, v))
    y, state = parallel_sums(q, k, v, decay, torch.zeros(2, 3, 6, 4), chunk=CHUNK)
    assert y.dtype is state.dtype is torch.float32
    # The errors of bfloat16, which has 8 bits, do not accumulate over 64 blocks.
    for found, exactly in ((y, expected), (state, last)):
        assert (found - exactly).abs().max() < 0.02 * exactly.abs().max()


def test_zero_weights_give_zero():
    fq, fk, v = draw(9, torch.float32)
    fk[:, :4] = 0
    inputs = [x.requires_grad_() for x in (fq, fk, v)]
    for form in FORMS.values():
        out, _ = form(*inputs)
        assert (out[:, :4] == 0).all()
        assert out.isfinite().all()
        assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), inputs))


def test_a_step_updates_the_state_in_place_only_without_gradients():
    given = draw(12)
    whole, _ = attend(*given, backend="exact")
    _, state = attend(*(x[:, :11] for x in given), chunk=CHUNK)
    kept = map_state(state, torch.clone)
    last = [x[:, 11:] for x in given]
    out, after = attend(*last, state=state)
    torch.testing.assert_close(out, whole[:, 11:])
    assert torch.equal(state.sums, kept.sums)
    with torch.no_grad():
        out, again = attend(*last, state=state)
    torch.testing.assert_close(out, whole[:, 11:])
    torch.testing.assert_close(again.sums, after.sums)
    assert again.sums.data_ptr() == state.sums.data_ptr()
    learned = map_state(after, lambda x: x.clone().requires_grad_())
    assert not map_state(learned, Tensor.detach).sums.requires_grad


def test_fast_transformers_equals_the_exact_form_and_a_missing_extra_is_named(monkeypatch):
    inputs = [x.float().requires_grad_() for x in draw(37)]
    with pytest.raises(ValueError, match=r"does not support decay.*use backend 'chunked'"):
        attend(*inputs, decay=DECAY, backend="fast-transformers")
    if find_spec("fast_transformers") is not None:
        for options in ({}, {"normaliser": draw(37, torch.float32, seed=1)[:2]}):
            results = []
            for backend in ("exact", "fast-transformers"):
                out, state = attend(*inputs, backend=backend, **options)
                loss = out.square().sum() + state.sums.sin().sum()
                results.append([out, state.sums, *torch.autograd.grad(loss, inputs)])
            torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
    for name in ("fast_transformers", "fast_transformers.causal_product"):
        monkeypatch.setitem(sys.modules, name, None)
    missing = r"not installed: run `make fast-transformers` in the clone"
    with pytest.raises(ValueError, match=missing):
        attend(*inputs, backend="fast-transformers")


@pytest.mark.parametrize(("shape", "rows"), [((1, 1), 8), ((7, 1), 8), ((4, 2), 8), ((2, 9), 18)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_multiplies_at_least_eight_rows(shape, rows, bias, monkeypatch):
    layer = Linear(16, 24, bias=bias)
    x = torch.randn(*shape, 16, generator=generator(), requires_grad=True)
    product, seen = F.linear, []
    with monkeypatch.context() as patch:
        patch.setattr(F, "linear", lambda x, *rest: seen.append(x) or product(x, *rest))
        found = layer(x)
    assert [one.shape[:-1].numel() for one in seen] == [rows]
    expected = F.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(found, expected)
    leaves = [x, *layer.parameters()]
    gradients = [torch.autograd.grad(y.square().sum(), leaves) for y in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_without_autocast_products_keep_their_precision():
    x, cpu = torch.ones(2, 2), torch.device("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        with without_autocast(cpu):
            assert (x @ x).dtype is torch.float32
        assert (x @ x).dtype is torch.bfloat16
    with without_autocast(cpu):
        assert (x @ x).dtype is torch.float32
