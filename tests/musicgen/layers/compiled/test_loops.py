"""Loops compute what torch's calls do, each row by itself, and are left out where they cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.layers.compiled import available, loops
from musicgen.layers.compiled.available import SWITCH, loops_for
from musicgen.layers.multiplications import codes_of, quantise, restore
from musicgen.loading import load
from tests.musicgen.toys import generator


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=generator(sum(shape)))


@pytest.fixture
def asked_anew(monkeypatch: pytest.MonkeyPatch):
    """Forget whether loops can be had, and what the environment says of it, before a test and after."""
    monkeypatch.delenv(SWITCH, raising=False)
    available._loops.cache_clear()
    yield
    available._loops.cache_clear()


@pytest.mark.usefixtures("asked_anew")
def test_loops_are_for_float32_of_a_cpu_alone_and_can_be_switched_off(monkeypatch):
    assert loops_for(drawn(1), None) is loops
    assert loops_for(drawn(1).double()) is None
    assert loops_for(torch.empty(1, device="meta")) is None
    available._loops.cache_clear()
    monkeypatch.setenv(SWITCH, "0")
    assert loops_for() is None
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert available.shared_loops() is None  # one thread shares with nobody


def products(module, weight: Tensor, bias: Tensor, x: Tensor, *threads: int) -> list[Tensor]:
    """Return products with a matrix and with its codes."""
    codes, scale = quantise(weight)
    found = [torch.empty(len(x), len(weight)) for _ in range(2)]
    array, bias_array = x.numpy(), bias.numpy()
    module.product(weight.numpy(), bias_array, array, found[0].numpy(), *threads)
    module.product_of_codes(
        codes.numpy(), scale.numpy(), bias_array, array, found[1].numpy(), *threads
    )
    return found


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize(("width", "out_width"), [(192, 1008), (17, 5)])
def test_products_are_those_of_a_linear_layer_row_by_row(rows: int, width: int, out_width: int):
    weight, bias, x = drawn(out_width, width), drawn(out_width), drawn(rows, width)
    whole = products(loops, weight, bias, x)
    for found, matrix in zip(whole, (weight, restore(*quantise(weight))), strict=True):
        torch.testing.assert_close(found, F.linear(x, matrix, bias), rtol=1e-4, atol=1e-4)
    for row in range(rows):
        for found, alone in zip(
            whole, products(loops, weight, bias, x[row : row + 1]), strict=True
        ):
            assert torch.equal(found[row], alone[0])


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_products_of_several_threads_are_those_of_one_to_the_last_bit(threads: int, rows: int):
    shared = pytest.importorskip("musicgen.layers.compiled.shared_loops")
    given = drawn(21, 40), drawn(21), drawn(rows, 40)
    alone = products(loops, *given)
    count, limit = shared.limited(threads)
    if limit is not None:
        limit()
    for one, together in zip(alone, products(shared, *given, threads), strict=True):
        assert torch.equal(one, together)
    assert 1 <= count <= threads


TWO_AT_ONCE = """
import threading
import numpy as np
from musicgen.layers.compiled import available
import torch
torch.get_num_threads = lambda: 2
shared = available.shared_loops()
print(shared is not None)
weight, x = np.ones((512, 512), np.float32), np.ones((1, 512), np.float32)
outs = [np.zeros((1, 512), np.float32) for _ in range(4)]
def work(out):
    for _ in range(200):
        shared.product(weight, weight[0], x, out, 2)
threads = [threading.Thread(target=work, args=[out]) for out in outs] if shared else []
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(all((out == 513).all() for out in outs))
"""


def printed(code: str, without: tuple[str, ...] = (), **environment: str) -> list[str]:
    """Return the words that a program prints."""
    given = {name: value for name, value in os.environ.items() if name not in without}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**given, **environment}, capture_output=True, check=True)
    return done.stdout.decode().split()


@pytest.mark.long
def test_several_threads_of_a_program_may_share_others_at_once_or_there_are_none():
    there, right = printed(TWO_AT_ONCE)
    assert there == right, "either all is right, or the loops were not to be had"
    assert printed(TWO_AT_ONCE, NUMBA_THREADING_LAYER="workqueue")[0] == "False"


@pytest.mark.long
def test_without_a_place_to_store_them_they_are_compiled_for_this_once():
    code = (
        "from musicgen.layers.compiled.available import loops_for; print(loops_for() is not None)"
    )
    nowhere = {"HOME": "/sys", "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    assert printed(code, ("XDG_CACHE_HOME", SWITCH), **nowhere) == ["True"]


@pytest.mark.parametrize("name", ["pop-piano", "groove-2"])
def test_matrices_that_were_stored_in_8_bits_are_read_so(name: str):
    """Their codes are found again, with scales that restore every number to the last bit."""
    for module in load(name).performer.modules():
        if isinstance(module, torch.nn.Linear):
            found = codes_of(module.weight)
            assert found is not None
            assert torch.equal(restore(*found), module.weight)
    assert codes_of(drawn(4, 6)) is None
