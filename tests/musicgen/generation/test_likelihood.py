import numpy as np
import pytest
import torch
import torch.nn.functional as F

from musicgen.generation import likelihood
from musicgen.generation.likelihood import position_losses, stretch
from tests.musicgen.toys import generator, toy_model, toy_tokens


@pytest.mark.parametrize("position", ["none", "absolute", "sine_spe", "conv_spe", "permuteformer"])
def test_losses_are_those_of_one_pass_in_windows_of_any_size(position, monkeypatch):
    model, tokens = toy_model(position=position), toy_tokens(1, 30)
    with torch.no_grad():
        logits = model(tokens[:, :-1], model.begin(generator(3)))
    expected = F.cross_entropy(logits[0], tokens[0, 1:], reduction="none")
    for window in (7, 1024):
        monkeypatch.setattr(likelihood, "WINDOW", window)
        found = position_losses(model, tokens[0].numpy(), seed=3)
        assert found.shape == (29,)
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_another_seed_is_another_draw():
    model, ids = toy_model(position="sine_spe"), toy_tokens(1, 30)[0].numpy()
    assert np.array_equal(position_losses(model, ids, 1), position_losses(model, ids, 1))
    assert not np.array_equal(position_losses(model, ids, 1), position_losses(model, ids, 2))


def test_each_piece_of_a_stretch_counts_once():
    losses = np.array([[9.0, 1.0, 3.0], [9.0, 4.0, 0.0]])
    counts = np.array([[1, 1, 1], [1, 1, 0]])
    found = stretch(losses, counts, 1, 3)
    assert found is not None
    assert (found.mean, found.pieces) == (3.0, 2)
    assert found.deviation == pytest.approx(np.std([2, 4], ddof=1))
    assert stretch(losses, counts, 2, 3) == likelihood.Stretch(
        start=2, stop=3, mean=3.0, deviation=0.0, pieces=1
    )
    assert stretch(losses, 0 * counts, 0, 3) is None
