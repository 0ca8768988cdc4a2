"""Products a row of the batch: right, and for each row what they would be alone, in one call or in several."""

from __future__ import annotations

import pytest
import torch
from musicgen.layers.step_calls import Scratch, products_by_one, row_products
from torch import Tensor

from musicgen.layers import step_calls as module
from tests.musicgen.toys import generator

BATCH = 11


def operands(n: int, a: int, b: int, c: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return x whose rows lie apart, as queries beside keys do, matrices, and what is added."""
    x = torch.randn(BATCH, 2 * n, a, b, generator=generator(0))[:, :n]
    matrices = torch.randn(BATCH, n, b, c, generator=generator(1))
    return x, matrices, torch.randn(1, 1, c, generator=generator(2))


def multiplied(x: Tensor, matrices: Tensor, plus: Tensor | None) -> Tensor:
    out, calls = row_products(x, matrices, Scratch(), plus)
    for call in calls:
        call()
    return out


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("sizes", [(6, 1, 64, 33), (8, 1, 128, 65), (1, 16, 64, 64), (4, 1, 4, 9)])
def test_they_are_products(
    sizes: tuple[int, ...], at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_one_call_does", lambda *_: at_once)
    x, matrices, plus = operands(*sizes)
    torch.testing.assert_close(multiplied(x, matrices, None), x @ matrices)
    torch.testing.assert_close(multiplied(x, matrices, plus), x @ matrices + plus)


@pytest.mark.parametrize("added", [True, False])
@pytest.mark.parametrize("sizes", [(6, 1, 64, 33), (8, 1, 128, 65), (1, 12, 32, 64), (3, 1, 5, 9)])
def test_a_row_does_not_depend_on_its_company(sizes: tuple[int, ...], added: bool) -> None:
    x, matrices, plus = operands(*sizes)
    plus = plus if added else None
    alone = torch.cat([multiplied(x[i : i + 1], matrices[i : i + 1], plus) for i in range(BATCH)])
    for count in range(2, BATCH + 1):
        assert torch.equal(multiplied(x[:count], matrices[:count], plus), alone[:count])


@pytest.mark.parametrize("at_once", [True, False, None])
@pytest.mark.parametrize("added", [True, False])
def test_one_matrix_may_serve_all_rows(
    added: bool, at_once: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if at_once is not None:
        monkeypatch.setattr(module, "_one_call_does", lambda *_: at_once)
    x, matrix = torch.randn(BATCH, 12, 32), torch.randn(32, 64)
    plus = torch.randn(64) if added else None

    def multiplied_by_one(count: int) -> Tensor:
        out = torch.empty(count, 12, 80)[..., :64]
        for call in products_by_one(x[:count], matrix, out, plus):
            call()
        return out

    found = multiplied_by_one(BATCH)
    torch.testing.assert_close(found, x @ matrix + (0 if plus is None else plus))
    if at_once is None:
        for count in range(1, BATCH):
            assert torch.equal(multiplied_by_one(count), found[:count])


def test_layers_write_to_the_same_memory_and_one_layer_never_twice() -> None:
    scratch, like = Scratch(), torch.empty(0)
    first = [scratch.empty(like, 2, 3), scratch.empty(like, 2, 3), scratch.empty(like, 4)]
    assert len({x.data_ptr() for x in first}) == 3
    scratch.next_layer()
    again = [scratch.empty(like, 4), scratch.empty(like, 2, 3), scratch.empty(like, 2, 3)]
    assert [x.data_ptr() for x in again] == [first[i].data_ptr() for i in (2, 0, 1)]
    assert scratch.empty(like.double(), 4).dtype is torch.float64
