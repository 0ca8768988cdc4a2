import numpy as np
import pytest
import torch

from evaluation import attention
from evaluation.attention import sides_of
from musicgen.model.performer import Performer
from musicgen.position import POSITIONS
from tests.musicgen.toys import generator, toy_model, toy_tokens, unlimited

LENGTH = 21


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


@pytest.mark.parametrize("horizons", [None, (2, 20)])
@pytest.mark.parametrize("position", POSITIONS)
def test_weights_are_those_the_model_attends_by(
    position: str, horizons: tuple[float, float] | None, monkeypatch
):
    monkeypatch.setattr(attention, "WINDOW", 8)
    model = toy_model(
        layers=2,
        position=unlimited(position),
        features={"name": "relu", "features": 12},
        horizons=horizons,
    )
    tokens = toy_tokens(1, LENGTH)[0]
    sides = sides_of(model, tokens, [0, 1], seed=5)
    for layer, (values, expected) in outputs(model, tokens, 5).items():
        for rows in (slice(0, LENGTH), slice(9, 13)):
            weights = sides[layer].normalised(rows)
            assert weights.shape == (2, rows.stop - rows.start, rows.stop)
            given = torch.einsum("hmn,nhd->mhd", weights, values[: rows.stop])
            torch.testing.assert_close(given, expected[rows], rtol=2e-4, atol=2e-4)


def test_softmax_attention_and_favor_have_the_same_weights():
    favor = toy_model(position="rope", features="favor")
    softmax = toy_model(position="rope", attention="softmax")
    softmax.load_state_dict(favor.state_dict(), strict=False)
    tokens = toy_tokens(1, LENGTH)[0]
    first, second = (
        sides_of(m, tokens, [0])[0].normalised(slice(0, LENGTH)) for m in (favor, softmax)
    )
    torch.testing.assert_close(first, second)
    values, expected = outputs(softmax, tokens, 0)[0]
    given = torch.einsum("hmn,nhd->mhd", second, values)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("horizons", [None, (2, 20)])
def test_favor_estimates_the_weights_that_are_shown(horizons: tuple[float, float] | None):
    favor = {"name": "favor", "features": 2048}
    model = toy_model(position="sine_spe", features=favor, horizons=horizons)
    with torch.no_grad():
        model.blocks[0].attention.qkv.weight *= 0.3
    tokens = toy_tokens(1, LENGTH)[0]
    values, expected = outputs(model, tokens, 0)[0]
    weights = sides_of(model, tokens, [0])[0].normalised(slice(0, LENGTH))
    given = torch.einsum("hmn,nhd->mhd", weights, values)
    assert (given - expected).abs().max() < 0.1 * expected.abs().max()


def test_no_query_sees_what_comes_later():
    model, tokens = toy_model(position="permuteformer"), toy_tokens(1, LENGTH)[0]
    weights = sides_of(model, tokens, [0])[0].normalised(slice(0, LENGTH)).numpy()
    assert np.array_equal(np.triu(weights, 1), np.zeros_like(weights))
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
