"""Products of few rows: equal in every way, alike in any company, and chosen once a machine."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from musicgen.layers import few_rows, multiplications
from musicgen.layers.compiled import available, loops
from musicgen.layers.few_rows import (
    MOST,
    MULTIPLES,
    Way,
    least_multiple,
    possible,
    product,
    rows_for,
    way_for,
)
from musicgen.layers.multiplications import quantise, restore
from tests.musicgen.toys import generator

SHAPES = [(17, 48), (192, 768), (512, 192)]
WAYS_OF_FLOATS = [name for name in multiplications.WAYS if "codes" not in name]
WEIGHT = torch.randn(3, 4, generator=generator())


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an empty cache folder, in a process that has chosen nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(few_rows, "_chosen", {})
    return tmp_path


def multiplied(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = x.new_empty(len(x), len(weight))
    product(weight, bias, out)(x)
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", WAYS_OF_FLOATS)
def test_every_way_is_a_linear_layer(name: str, bias: bool, shape: tuple[int, int], monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    if name not in possible(multiplications.LARGE):
        pytest.skip("this machine does not have it")
    monkeypatch.setattr(few_rows, "way_for", lambda weight: Way(name, 2))
    layer = torch.nn.Linear(shape[1], shape[0], bias=bias)
    for rows in (1, 2, 5, 8, 19):
        x = torch.randn(rows, shape[1], generator=generator())
        with torch.no_grad():
            torch.testing.assert_close(multiplied(x, layer.weight, layer.bias), layer(x))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_way_that_is_taken_treats_rows_alike(shape: tuple[int, int]):
    weight = torch.randn(shape, generator=generator(1))
    multiple = way_for(weight).multiple
    x = torch.randn(MOST, shape[1], generator=generator(2))
    together = multiplied(x, weight)
    for count in range(1, MOST):
        for first in (0, 3):
            rows = [(first + i) % MOST for i in range(count)]
            filled = F.pad(x[rows], (0, 0, 0, rows_for(count, [multiple]) - count))
            assert torch.equal(multiplied(filled, weight)[:count], together[rows])


@pytest.mark.parametrize(
    ("right_for", "multiple"), [({2, 4, 6}, 2), ({4, 6}, 4), ({4}, 4), ({2, 6}, 8), (set(), 8)]
)
def test_rows_are_as_many_as_make_a_way_treat_them_alike(right_for: set[int], multiple: int):
    def way(out: Tensor) -> Any:
        return lambda x: out.copy_(x[:, :3] + (0 if len(x) in {*right_for, MOST} else x.mean()))

    assert least_multiple(way, width=5, out_width=3) == multiple


def test_other_numbers_than_float32_always_have_eight_rows():
    for dtype in (torch.float64, torch.bfloat16):
        assert way_for(torch.ones(3, 4, dtype=dtype)) == ("rows", MOST)


def test_a_choice_is_measured_once_and_then_followed(forgotten: Path, monkeypatch):
    tried: list[tuple[int, int]] = []

    def trial(out_width: int, width: int, coded: bool) -> Any:
        assert not coded
        tried.append((out_width, width))
        return [("packed", 8), ("rows", 4)], ("rows", 4)

    monkeypatch.setattr(few_rows, "_fastest", trial)
    assert way_for(WEIGHT) == way_for(WEIGHT) == ("rows", 4)
    few_rows._chosen.clear()  # as in the next process
    assert way_for(WEIGHT) == ("rows", 4)
    assert tried == [(3, 4)]


def test_a_matrix_of_8_bits_has_a_choice_of_its_own(forgotten: Path, monkeypatch):
    monkeypatch.setattr(available, "_loops", lambda: loops)
    monkeypatch.setattr(
        few_rows, "_fastest", lambda *given: ([], ("codes", 1) if given[2] else ("rows", 4))
    )
    restored = restore(*quantise(WEIGHT))
    assert way_for(WEIGHT) == ("rows", 4)
    assert way_for(restored) == ("codes", 1)
    assert {file.stem for file in forgotten.rglob("*.json")} == {"3x4", "3x4-8"}
    x = torch.randn(5, 4, generator=generator())
    torch.testing.assert_close(multiplied(x, restored), x @ restored.t())


@pytest.mark.parametrize(
    ("stored", "taken"),
    [
        ('{"way": "columns", "multiple": 2}', ("columns", 2)),  # by another process
        ('{"way": "magic", "multiple": 2}', ("rows", MOST)),  # ways that are not known here
        ('{"way": "rows", "multiple": 3}', ("rows", MOST)),
        ("", ("rows", 4)),  # damaged, and tried again
        ("[1]", ("rows", 4)),
        ('{"way": 3, "multiple": 2}', ("rows", 4)),
        ('{"way": "rows"}', ("rows", 4)),
    ],
)
def test_what_is_stored_is_followed_or_tried_again(forgotten, stored, taken, monkeypatch):
    way_for(WEIGHT)
    (file,) = forgotten.rglob("*.json")
    file.write_text(stored)
    trials = iter([([("columns", 8), ("rows", 4)], ("rows", 4))])
    monkeypatch.setattr(few_rows, "_fastest", lambda *_: next(trials))
    for _ in range(2):
        few_rows._chosen.clear()  # as in the next process, which tries nothing
        assert way_for(WEIGHT) == taken
    if taken == ("rows", 4):
        assert json.loads(file.read_text()) == {"way": "rows", "multiple": 4}


def test_without_a_place_to_store_time_does_not_choose(forgotten: Path, monkeypatch):
    file = forgotten / "file"
    file.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    trial = [("columns", 4), ("rows", 8)], ("rows", 8)
    monkeypatch.setattr(few_rows, "_fastest", lambda *_: trial)
    assert way_for(WEIGHT) == ("columns", 4)


def test_who_has_no_home_gets_no_folder_called_so(forgotten: Path, monkeypatch):
    monkeypatch.chdir(forgotten)
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a user by number alone, as in containers
    assert way_for(WEIGHT).multiple in (1, *MULTIPLES)
    assert not [*forgotten.iterdir()]


@pytest.mark.skipif("packed" not in possible(1), reason="this torch is built without oneDNN")
def test_a_weight_that_changed_is_packed_anew_and_packs_go_with_weights(monkeypatch):
    monkeypatch.setattr(few_rows, "way_for", lambda weight: Way("packed", 2))
    before = len(multiplications._PACKS)
    weight, x = torch.nn.Parameter(torch.randn(16, 32)), torch.randn(2, 32)

    def check(weight: Tensor) -> None:
        with torch.no_grad():
            torch.testing.assert_close(multiplied(x, weight), x @ weight.t())

    check(weight)
    with torch.no_grad():
        weight.mul_(2)
    check(weight)
    weight.grad = torch.ones_like(weight)
    torch.optim.AdamW([weight], fused=True).step()  # which does not say that it changed a tensor
    check(weight)
    assert len(multiplications._PACKS) == before + 1
    del weight
    gc.collect()
    assert len(multiplications._PACKS) == before
