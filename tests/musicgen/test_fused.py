"""The Triton kernels of linear attention, in Triton's interpreter, against the exact form; and life without Triton."""

import sys
from functools import partial
from importlib import import_module
from types import ModuleType

import pytest
import torch

from musicgen import attention
from musicgen.attention import exact_sums, fused_blocks, kernels_agree, parallel_sums
from tests.musicgen.toys import generator

CHUNK = 16
DECAY = torch.tensor([0.6, 0.97, 1.0])


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the kernels, to be interpreted on the CPU; skip the test where Triton is missing."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    import_module("musicgen.fused")


def test_without_triton_blocks_are_computed_by_torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "musicgen.fused", None)
    kernels_agree.cache_clear()
    with pytest.warns(UserWarning, match="linear attention is not fused: ModuleNotFoundError"):
        assert not kernels_agree(6, 5, CHUNK, torch.float32, "cpu")
    kernels_agree.cache_clear()


@pytest.mark.parametrize("wrong", [0, 1])
def test_kernels_that_disagree_are_not_used(wrong: int, monkeypatch: pytest.MonkeyPatch):
    def sums(q, k, v, decay, state, chunk):
        y, last = parallel_sums(q, k, v, decay, state, chunk=chunk)
        return [(y * 1.1, last), (y + 0 * k.sum(), last.detach() + state * 0)][wrong]

    monkeypatch.setitem(sys.modules, "musicgen.fused", ModuleType("fused"))
    monkeypatch.setattr(attention, "fused_blocks", sums)
    kernels_agree.cache_clear()
    assert not kernels_agree(6, 5, CHUNK, torch.float32, "cpu")
    kernels_agree.cache_clear()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 1e-2)])
@pytest.mark.parametrize("decay", [None, DECAY], ids=["plain", "decay"])
@pytest.mark.usefixtures("fused")
def test_values_and_gradients_equal_the_exact_ones(decay, dtype, tolerance):
    source = generator(3)
    q, k = torch.rand(2, 2, 3 * CHUNK, 3, 6, generator=source)
    v = torch.randn(2, 3 * CHUNK, 3, 5, generator=source)
    state = torch.rand(2, 3, 6, 5, generator=source)
    results = []
    for kind, sums in ((torch.float32, exact_sums), (dtype, partial(fused_blocks, chunk=CHUNK))):
        inputs = [x.to(kind, copy=True).requires_grad_() for x in (q, k, v)]
        first = state.clone().requires_grad_()
        y, last = sums(inputs[0], inputs[1], inputs[2], decay, first)
        loss = (y * y).mean() + last.sin().mean()
        results.append([y, last, *torch.autograd.grad(loss, [*inputs, first])])
    for found, expected in zip(results[1], results[0], strict=True):
        assert (found - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.usefixtures("fused")
def test_kernels_work_in_compiled_functions():
    kernels_agree.cache_clear()
    assert kernels_agree(6, 5, CHUNK, torch.float32, "cpu")
    source = generator(4)
    q, k = torch.rand(2, 1, 2 * CHUNK, 2, 6, generator=source)
    v, state = torch.randn(1, 2 * CHUNK, 2, 5, generator=source), torch.zeros(1, 2, 6, 5)
    q.requires_grad_()

    def form(q, k, v, state):
        return fused_blocks(q, k, v, None, state, CHUNK)[0].square().sum()

    compiled = torch.compile(form, backend="aot_eager", fullgraph=True)
    expected = exact_sums(q, k, v, None, state)[0].square().sum()
    torch.testing.assert_close(compiled(q, k, v, state), expected)
    torch.testing.assert_close(
        *(torch.autograd.grad(y, q)[0] for y in (compiled(q, k, v, state), expected)), rtol=1e-4, atol=1e-2
    )  # fmt: skip
    kernels_agree.cache_clear()
