"""Linear layers, dropout, GELU and 8-bit weights."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.linear import Dropout, Linear, dequantise, gelu_linear, quantise, without_autocast
from tests.musicgen.toys import generator

SIZE = 400_003  # not a multiple of four, the elements that share a random word


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


def test_gelu_linear_equals_the_two_layers_and_keeps_one_wide_tensor():
    torch.manual_seed(0)
    sizes = ((2, 5, 100), (3, 100), (3,))
    given = x, weight, bias = [torch.randn(size, requires_grad=True) for size in sizes]
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = gelu_linear(x, weight, bias)
    assert {t.data_ptr() for t in kept} == {x.data_ptr(), weight.data_ptr()}
    wanted = F.linear(F.gelu(x), weight, bias)
    torch.testing.assert_close(y, wanted, rtol=0, atol=0)
    upstream = torch.randn(2, 5, 3)
    gradients = [torch.autograd.grad(each, given, upstream) for each in (y, wanted)]
    torch.testing.assert_close(*gradients)
    with torch.autocast("cpu", torch.bfloat16):
        assert gelu_linear(x, weight, bias).dtype is torch.bfloat16


@pytest.mark.parametrize("p", [0.1, 0.9])
def test_dropout_has_the_given_probability_and_scale(p: float):
    torch.manual_seed(1)
    y = Dropout(p)(torch.ones(SIZE))
    kept = y != 0
    deviation = (p * (1 - p) / SIZE) ** 0.5
    assert abs(1 - kept.double().mean().item() - p) < 5 * deviation
    wanted = torch.full((int(kept.sum()),), 1 / (1 - p))
    torch.testing.assert_close(y[kept], wanted, rtol=1e-4, atol=0)


def test_dropout_masks_the_gradient_alike_and_is_reproducible_by_seed():
    x = torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True)
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(Dropout(0.4)(x))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    (gradient,) = torch.autograd.grad(drawn[0].sum(), x)
    torch.testing.assert_close(gradient * x, drawn[0])
    assert 0 < (gradient == 0).sum() < x.numel()


def test_int8_weights_are_at_most_half_a_step_off_and_quantise_to_themselves():
    weight = torch.randn(40, 64, generator=generator()) * torch.logspace(-6, 6, 40)[:, None]
    weight[7] = 0
    whole, scale = quantise(weight)
    assert (whole.dtype, scale.dtype) == (torch.int8, torch.float32)
    assert whole.abs().amax(1).tolist() == [127] * 7 + [0] + [127] * 32
    restored = dequantise(whole, scale)
    assert ((restored - weight).abs() <= 0.5001 * scale[:, None]).all()
    again = quantise(restored)
    assert torch.equal(again[0], whole)
    torch.testing.assert_close(again[1], scale, rtol=1e-6, atol=0)
