"""What is computed anew for the backward pass gives the same gradients as what autograd keeps."""

import torch
import torch.nn.functional as F

from musicgen.layers.linear import gelu_linear


def test_values_and_gradients_are_those_of_the_two_layers() -> None:
    torch.manual_seed(0)
    given = [torch.randn(size, requires_grad=True) for size in ((2, 5, 8), (3, 8), (3,))]
    x, weight, bias = given
    y, wanted = gelu_linear(x, weight, bias), F.linear(F.gelu(x), weight, bias)
    torch.testing.assert_close(y, wanted, rtol=0, atol=0)
    upstream = torch.randn(2, 5, 3)
    for found, right in zip(
        torch.autograd.grad(y, given, upstream),
        torch.autograd.grad(wanted, given, upstream),
        strict=True,
    ):
        torch.testing.assert_close(found, right)


def test_one_wide_array_is_kept() -> None:
    kept: list[torch.Tensor] = []
    x = torch.randn(4, 100, requires_grad=True)
    weight, bias = torch.randn(3, 100, requires_grad=True), torch.randn(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        gelu_linear(x, weight, bias)
    assert {t.data_ptr() for t in kept} == {x.data_ptr(), weight.data_ptr()}


def test_autocast_decides_on_the_product() -> None:
    x, weight, bias = torch.randn(2, 4), torch.randn(3, 4), torch.randn(3)
    with torch.autocast("cpu", torch.bfloat16):
        assert gelu_linear(x, weight, bias).dtype is torch.bfloat16
