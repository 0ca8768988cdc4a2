"""Loops compute what torch's calls do, each row by itself, and are left out where they cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from musicgen.layers.compiled import available, loops
from musicgen.layers.compiled.available import SWITCH, loops_for
from musicgen.layers.multiplications import codes_of, quantise, restore
from musicgen.layers.step_calls import Scratch

from musicgen.attention.features import Favor, FavorConfig
from musicgen.attention.linear_attention import GUARD, AttentionState, attend
from musicgen.loading import load
from tests.musicgen.toys import generator


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator(sum(shape)))


@pytest.fixture
def asked_anew(monkeypatch: pytest.MonkeyPatch):
    """Forget whether loops can be had, and what the environment says of it, before a test and after."""
    monkeypatch.delenv(SWITCH, raising=False)
    available._loops.cache_clear()
    yield
    available._loops.cache_clear()


@pytest.mark.usefixtures("asked_anew")
def test_loops_are_there_and_for_float32_of_a_cpu_alone():
    assert loops_for(drawn(1), None) is loops
    assert loops_for(drawn(1).double()) is None
    assert loops_for(torch.empty(1, device="meta")) is None


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize(("width", "out_width"), [(192, 1008), (768, 192), (17, 5)])
def test_products_are_those_of_a_linear_layer_row_by_row(
    rows: int, width: int, out_width: int
) -> None:
    weight, bias, x = drawn(out_width, width), drawn(out_width), drawn(rows, width)
    codes, scale = quantise(weight)

    def products(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = torch.empty(len(x), out_width), torch.empty(len(x), out_width)
        loops.product(weight.numpy(), bias.numpy(), x.numpy(), found[0].numpy())
        loops.product_of_codes(
            codes.numpy(), scale.numpy(), bias.numpy(), x.numpy(), found[1].numpy()
        )
        return found

    whole = products(x)
    for found, matrix in zip(whole, (weight, restore(codes, scale)), strict=True):
        torch.testing.assert_close(found, F.linear(x, matrix, bias), rtol=1e-4, atol=1e-4)
    for row in range(rows):
        for found, alone in zip(whole, products(x[row : row + 1]), strict=True):
            assert torch.equal(found[row], alone[0])


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_products_of_several_threads_are_those_of_one_to_the_last_bit(threads: int, rows: int):
    shared = pytest.importorskip("musicgen.layers.compiled.shared_loops")
    weight, bias, x = drawn(21, 40), drawn(21), drawn(rows, 40)
    codes, scale = quantise(weight)
    for name, given in (
        ("product", [weight, bias, x]),
        ("product_of_codes", [codes, scale, bias, x]),
    ):
        arrays, outs = [each.numpy() for each in given], (torch.empty(rows, 21) for _ in range(2))
        alone, together = outs
        getattr(loops, name)(*arrays, alone.numpy())
        count, limit = shared.limited(threads)
        if limit is not None:
            limit()
        getattr(shared, name)(*arrays, together.numpy(), threads)
        assert torch.equal(alone, together)
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


def printed(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_several_threads_of_a_program_may_share_others_at_once_or_there_are_none():
    there, right = printed(TWO_AT_ONCE)
    assert there == right, "either all is right, or the loops were not to be had"
    assert printed(TWO_AT_ONCE, NUMBA_THREADING_LAYER="workqueue")[0] == "False"


def test_one_thread_shares_with_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert available.shared_loops() is None


@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_features_of_a_step_are_those_of_a_sequence(scale: float):
    """Near 0, where they are most, and so far out that they are pulled back; queries but for a factor of their own."""
    features = Favor(FavorConfig(features=24), 8)
    queries, keys = drawn(2, 1, 3, 8) * scale, drawn(2, 1, 3, 8) * scale
    out = torch.empty(2, 6, 24)
    qk = torch.cat([queries, keys], 2).squeeze(1)
    (call,) = features.for_steps(qk, out, Scratch())
    call()
    wanted = features.queries(queries)
    found = out[:, None, :3]
    found = found * (wanted.amax(-1, keepdim=True) / found.amax(-1, keepdim=True))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(out[:, None, 3:], features.keys(keys), rtol=1e-4, atol=1e-12)


def test_a_code_is_contracted_with_what_gates_leave():
    x, gains, code, out = drawn(4, 6), drawn(4, 2, 6), drawn(4, 12, 5), torch.empty(4, 5)
    loops.contract(*(each.numpy() for each in (x, gains, code, out)))
    mixed = (x[:, None] * gains).flatten(1)
    torch.testing.assert_close(out, torch.einsum("hd,hdr->hr", mixed, code))


def test_a_branch_is_added_and_the_sum_normalised():
    x, branch, weight, bias = drawn(3, 40), drawn(3, 40) * 9, drawn(40), drawn(40)
    wanted, out = x + branch, torch.empty_like(x)
    arrays = (tensor.numpy() for tensor in (x, branch, weight, bias))
    loops.add_and_normalise(*arrays, 1e-5, out.numpy())
    assert torch.equal(x, wanted)
    torch.testing.assert_close(out, F.layer_norm(wanted, (40,), weight, bias))


@pytest.mark.parametrize("forgets", [False, True])
def test_a_token_is_attended_as_in_steps(forgets: bool) -> None:
    fq, fk = drawn(3, 1, 2, 8).abs(), drawn(3, 1, 2, 8).abs() + 0.1
    v, r = drawn(3, 1, 2, 5), torch.tensor([0.5, 0.9])
    sums, out = drawn(3, 2, 8, 6).abs(), torch.empty(3, 2, 5)
    before = AttentionState(sums.clone())
    wanted, after = attend(fq, fk, v, decay=r if forgets else None, state=before)
    loops.attend(
        *(x[:, 0].numpy() for x in (fq, fk, v)), (r if forgets else torch.ones(2)).numpy(), GUARD,
        sums.numpy(), out.numpy(),
    )  # fmt: skip
    torch.testing.assert_close(out, wanted[:, 0])
    torch.testing.assert_close(sums, after.sums)


@pytest.mark.parametrize("name", ["pop-piano", "groove", "pop-piano-2", "groove-2"])
def test_matrices_that_were_stored_in_8_bits_are_read_so(name: str) -> None:
    """Their codes are found again, with scales that restore every number to the last bit."""
    for module in load(name).performer.modules():
        if isinstance(module, torch.nn.Linear):
            found = codes_of(module.weight)
            assert found is not None
            assert torch.equal(restore(*found), module.weight)


def test_other_matrices_have_no_codes():
    assert codes_of(drawn(4, 6)) is None


@pytest.mark.usefixtures("asked_anew")
def test_the_switch_leaves_all_to_torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SWITCH, "0")
    assert loops_for() is None


def test_without_a_place_to_store_them_they_are_compiled_for_this_once():
    code = (
        "from musicgen.layers.compiled.available import loops_for; print(loops_for() is not None)"
    )
    environment = {**os.environ, "HOME": "/sys", "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}  # fmt: skip
    for name in ("XDG_CACHE_HOME", SWITCH):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
