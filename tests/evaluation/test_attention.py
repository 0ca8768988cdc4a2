"""The attention weights that a linear model never forms, maps of them, and templates of encodings."""

import numpy as np
import pytest
import torch

from evaluation import attention
from evaluation.attention import attention_maps, pack, paper_layers, sides_of, templates, unpack
from musicgen.model.performer import Performer
from musicgen.position import POSITIONS
from tests.musicgen.toys import generator, toy_model, toy_tokens, unlimited

LENGTH = 21
WHOLE = slice(0, LENGTH)
HORIZONS = (2, 20)


def outputs(
    model: Performer, tokens: torch.Tensor, seed: int
) -> dict[int, tuple[torch.Tensor, ...]]:
    """Return what each layer's attention read as values, and what it gave out, (T, H, D) each."""
    found, hooks = {}, []
    for layer, block in enumerate(model.blocks):
        module = block.attention

        def keep(projection, inputs, layer=layer, module=module):
            x = module.told
            v = module.qkv(x).unflatten(-1, (3, module.heads, -1)).unbind(2)[2]
            found[layer] = (v[0], inputs[0].unflatten(-1, (module.heads, -1))[0])

        hooks.append(
            module.register_forward_pre_hook(lambda m, inputs: setattr(m, "told", inputs[0]))
        )
        hooks.append(module.output.register_forward_pre_hook(keep))
    with torch.no_grad():
        model(tokens[None], model.begin(generator(seed)))
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize(
    ("position", "horizons"),
    [*((name, None) for name in POSITIONS), ("none", HORIZONS), ("sine_spe", HORIZONS)],
)
def test_weights_are_those_the_model_attends_by(position: str, horizons, monkeypatch):
    monkeypatch.setattr(attention, "WINDOW", 8)
    features = {"name": "relu", "features": 12}
    model = toy_model(layers=2, position=unlimited(position), features=features, horizons=horizons)
    tokens = toy_tokens(1, LENGTH)[0]
    sides = sides_of(model, tokens, [0, 1], seed=5)
    for layer, (values, expected) in outputs(model, tokens, 5).items():
        for rows in (WHOLE, slice(9, 13)):
            weights = sides[layer].normalised(rows)
            assert weights.shape == (2, rows.stop - rows.start, rows.stop)
            given = torch.einsum("hmn,nhd->mhd", weights, values[: rows.stop])
            torch.testing.assert_close(given, expected[rows], rtol=2e-4, atol=2e-4)


def test_softmax_attention_and_favor_have_the_same_weights():
    favor = toy_model(position="rope", features="favor")
    softmax = toy_model(position="rope", attention="softmax")
    softmax.load_state_dict(favor.state_dict(), strict=False)
    tokens = toy_tokens(1, LENGTH)[0]
    first, second = (sides_of(m, tokens, [0])[0].normalised(WHOLE) for m in (favor, softmax))
    torch.testing.assert_close(first, second)
    values, expected = outputs(softmax, tokens, 0)[0]
    given = torch.einsum("hmn,nhd->mhd", second, values)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("horizons", [None, HORIZONS])
def test_favor_estimates_the_weights_that_are_shown(horizons: tuple[float, float] | None):
    favor = {"name": "favor", "features": 2048}
    model = toy_model(position="sine_spe", features=favor, horizons=horizons)
    with torch.no_grad():
        model.blocks[0].attention.qkv.weight *= 0.3
    tokens = toy_tokens(1, LENGTH)[0]
    values, expected = outputs(model, tokens, 0)[0]
    weights = sides_of(model, tokens, [0])[0].normalised(WHOLE)
    given = torch.einsum("hmn,nhd->mhd", weights, values)
    assert (given - expected).abs().max() < 0.1 * expected.abs().max()


def test_layers_are_the_papers_of_24_and_in_their_places_of_others():
    assert [layer + 1 for layer in paper_layers(24)] == [1, 3, 12, 20, 24]
    assert paper_layers(1) == [0]
    assert (paper_layers(6)[0], paper_layers(6)[-1]) == (0, 5)


@pytest.mark.parametrize("length", [20, 23])
def test_a_map_is_that_of_the_whole_matrix(length, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 7)
    monkeypatch.setattr(attention, "PIXELS", 12)
    model = toy_model(layers=2, position="sine_spe")
    pieces = [toy_tokens(1, length, seed)[0].numpy() for seed in (0, 1)]
    found = attention_maps(model, pieces, [1], seed=4)
    sides = [sides_of(model, torch.from_numpy(ids), [1], 4 + i)[1] for i, ids in enumerate(pieces)]
    whole = torch.stack([one.normalised(slice(0, length)) for one in sides]).mean(0).numpy()
    colours = np.minimum(1, (whole / found["full"]) ** 0.4)
    colours = np.pad(colours, ((0, 0), (0, -length % 2), (0, -length % 2)))
    half = colours.shape[1] // 2
    expected = colours.reshape(2, half, 2, half, 2).mean((2, 4))
    assert found["pixel"] == 2
    np.testing.assert_allclose(unpack(found["pixels"])[0] / 255, expected, atol=0.003)
    lags = np.maximum(np.subtract.outer(np.arange(length), np.arange(length)), 0)
    distance = (whole * lags).sum(-1)
    np.testing.assert_allclose(np.array(found["distance"][0]), distance, atol=0.01)


@pytest.mark.parametrize("position", ["sine_spe", "conv_spe"])
def test_a_draw_realises_what_is_learned(position: str):
    model = toy_model(position={"name": position, "realisations": 4096}, features="relu")
    found = templates(model, 24)
    assert found is not None
    assert np.array(found["limit"]).shape == (8, 24)
    np.testing.assert_allclose(found["realised"], found["limit"], atol=0.12)
    assert unpack(found["all"]).shape == (2, 8, 24)


def test_masks_are_templates_of_a_head_and_other_encodings_have_none():
    found = templates(toy_model(position="flt"), 24)
    assert found is not None
    assert (found["features"], found["realised"]) == (1, None)
    assert templates(toy_model(position="rope"), 24) is None
    array = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    assert np.array_equal(unpack(pack(array)), array)


@pytest.mark.parametrize("name", ["sine_spe", "rope"])
def test_in_musical_time_the_mean_of_each_head_is_shown_over_eight_bars(name: str):
    found = templates(toy_model(position={"name": name, "time": "music"}), 24)
    assert found is not None
    assert (found["bar"], found["length"]) == (6, 8 * 6)  # the toy's bar
    assert found["shown"] == [[0, None], [1, None]]
    means = (unpack(found["all"]) / 127).mean(1)
    limit = np.array(found["limit"])
    assert limit.shape == means.shape == (2, 48)
    first, later = limit[:, 0], limit[:, 1:]
    assert (first >= later.max(1) - 1e-6).all()
    for head, bars in enumerate((1, 2)):  # its teeth
        np.testing.assert_allclose(limit[head, :: 6 * bars], first[head], rtol=1e-5)
    assert (found["realised"] is None) == (name == "rope")
