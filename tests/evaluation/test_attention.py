"""Attention weights of linear models, attention maps, and templates of encodings."""

from typing import Any

import numpy as np
import pytest
import torch

from evaluation import attention
from evaluation.attention import attention_maps, paper_layers, sides_of, templates
from musicgen.performer import Performer
from musicgen.position import POSITIONS
from tests.musicgen.toys import generator, toy_model, toy_tokens, unlimited

TOKENS = toy_tokens(1, 21)[0]
WHOLE = torch.arange(21)
HORIZONS = (2, 20)


def values_and_output(model: Performer, layer: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values and the output of a layer's attention: (T, H, D) each."""
    module: Any = model.blocks[layer].attention
    seen: list[torch.Tensor] = []
    hooks = [
        part.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        for part in (module, module.output)
    ]
    with torch.no_grad():
        model(TOKENS[None], model.begin(generator(seed)))
        values = module.qkv(seen[0]).chunk(3, -1)[2]
    for hook in hooks:
        hook.remove()
    values, out = (x.unflatten(-1, (module.heads, -1))[0] for x in (values, seen[1]))
    return values, out


@pytest.mark.parametrize(
    ("position", "horizons"),
    [*((name, None) for name in POSITIONS), ("none", HORIZONS), ("sine_spe", HORIZONS)],
)
def test_weights_reproduce_the_output_of_attention(position: str, horizons: Any):
    features = {"name": "relu", "features": 12}
    model = toy_model(layers=2, position=unlimited(position), features=features, horizons=horizons)
    sides = sides_of(model, TOKENS, [0, 1], seed=5)
    for layer in (0, 1):
        values, expected = values_and_output(model, layer, 5)
        for rows in (WHOLE, torch.arange(9, 13)):
            weights = sides[layer].normalised(rows)
            assert weights.shape == (2, len(rows), 21)
            given = torch.einsum("hmn,nhd->mhd", weights, values)
            torch.testing.assert_close(given, expected[rows], rtol=2e-4, atol=2e-4)


def test_softmax_attention_and_favor_have_the_same_weights():
    favor = toy_model(position="rope", features="favor")
    softmax = toy_model(position="rope", attention="softmax")
    softmax.load_state_dict(favor.state_dict(), strict=False)
    first, second = (sides_of(m, TOKENS, [0])[0].normalised(WHOLE) for m in (favor, softmax))
    torch.testing.assert_close(first, second)
    values, expected = values_and_output(softmax, 0, 0)
    given = torch.einsum("hmn,nhd->mhd", second, values)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)


def test_a_map_has_evenly_spaced_rows_of_the_whole_matrix(monkeypatch):
    assert [layer + 1 for layer in paper_layers(24)] == [1, 3, 12, 20, 24]
    assert (paper_layers(1), paper_layers(6)[-1]) == ([0], 5)
    monkeypatch.setattr(attention, "PIXELS", 12)
    model = toy_model(layers=2, position="sine_spe")
    pieces = [toy_tokens(1, 23, seed)[0] for seed in (0, 1)]
    found = attention_maps(model, [ids.numpy() for ids in pieces], [1], seed=4)
    sides = [sides_of(model, ids, [1], 4 + i)[1] for i, ids in enumerate(pieces)]
    whole = torch.stack([one.normalised(torch.arange(23)) for one in sides]).mean(0).numpy()
    colours = np.minimum(1, (whole / found["full"]) ** 0.4)
    expected = np.pad(colours, ((0, 0), (0, 0), (0, 1)))[:, ::2].reshape(2, 12, 12, 2).mean(3)
    assert found["pixel"] == 2
    np.testing.assert_allclose(np.array(found["pixels"][0]) / 255, expected, atol=0.003)


def test_masks_of_flt_are_templates_and_rope_has_none():
    found = templates(toy_model(position="flt"), 24)
    assert found["shown"] == [[0, 0], [1, 0]]  # two heads
    assert found["realised"] is None
    assert templates(toy_model(position="rope"), 24) is None
