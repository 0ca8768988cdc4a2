"""Layers joined to one: the same numbers, anew when one changes, and gone with them."""

from __future__ import annotations

import gc

import torch
from musicgen.generation.fast_steps import joined
from torch import nn

from musicgen.generation import fast_steps as module
from tests.musicgen.toys import generator


def test_the_output_is_that_of_the_layers_side_by_side() -> None:
    layers = [nn.Linear(16, 24), nn.Linear(16, 10)]
    x = torch.randn(3, 16, generator=generator())
    for change in (0.0, 1.0):  # a layer that learns on is joined anew
        with torch.no_grad():
            layers[1].bias.add_(change)
        with torch.inference_mode():
            wanted = torch.cat([layer(x) for layer in layers], 1)
            torch.testing.assert_close(joined(layers)(x), wanted)
            assert joined(layers) is joined(layers)


def test_layers_that_an_optimiser_moved_or_that_changed_their_type_are_joined_anew() -> None:
    """A fused optimiser does not say that it has changed a tensor, nor does `Module.to`."""
    layers = [nn.Linear(16, 24), nn.Linear(16, 10)]
    x = torch.randn(3, 16, generator=generator())
    joined(layers)
    torch.cat([layer(x) for layer in layers], 1).sum().backward()
    torch.optim.AdamW(nn.ModuleList(layers).parameters(), fused=True).step()
    for _ in range(2):
        with torch.no_grad():
            wanted = torch.cat([layer(x) for layer in layers], 1)
            torch.testing.assert_close(joined(layers)(x), wanted)
        layers, x = [layer.double() for layer in layers], x.double()


def test_it_goes_with_the_layers() -> None:
    layers = [nn.Linear(16, 24), nn.Linear(16, 10)]
    before = len(module._KEPT)
    joined(layers)
    assert len(module._KEPT) == before + 1
    del layers
    gc.collect()
    assert len(module._KEPT) == before


def test_weights_that_do_not_say_when_they_change_are_joined_each_time() -> None:
    with torch.inference_mode():
        layers = [nn.Linear(16, 24), nn.Linear(16, 10)]
        first = joined(layers)
        layers[0].weight.zero_()
        assert joined(layers).weight[:24].eq(0).all()
        assert first.weight[:24].ne(0).any()


def test_one_alone_is_itself() -> None:
    plain = nn.Linear(64, 8)
    assert joined([plain]) is plain
