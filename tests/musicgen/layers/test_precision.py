"""Autocast does not reach what needs float32."""

from __future__ import annotations

import torch

from musicgen.layers.precision import without_autocast


def test_products_keep_their_precision() -> None:
    x, cpu = torch.ones(2, 2), torch.device("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ x).dtype is torch.bfloat16
        with without_autocast(cpu):
            assert (x @ x).dtype is torch.float32
        assert (x @ x).dtype is torch.bfloat16
    with without_autocast(cpu):
        assert (x @ x).dtype is torch.float32
