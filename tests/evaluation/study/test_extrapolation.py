"""The loss by position: each piece counts once, and changes are paired by piece."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from evaluation.study import extrapolation
from evaluation.study.extrapolation import (
    context_difference,
    edges_of,
    parts_of,
    piece_loss,
    position_losses,
    summary,
)
from tests.musicgen.toys import generator, toy_model, toy_tokens

EDGES = [0, 2, 4, 6]
PARTLY = {"sums": [2.0, 2.0, 1.0], "tokens": [2, 2, 1]}  # ends within the last stretch


def loss(*values: float, **more: list[float]) -> dict:
    """Return the loss of a piece from its loss per token in stretches of two; fewer values make it shorter."""
    rest = [0] * (3 - len(values))
    tokens = [2] * len(values) + rest
    return {"sums": [2 * v for v in values] + rest, "tokens": tokens, **more}


def test_the_edges_include_the_borders_of_the_parts():
    edges = edges_of(100, 420)
    assert (edges[0], edges[-1]) == (0, 420)
    assert {100, 150} <= {*edges}
    assert parts_of(100, 420) == {"trained": (0, 100), "near": (100, 150), "far": (150, 420)}
    assert parts_of(100, 80) == {"trained": (0, 80)}
    assert parts_of(0, 80) == {"far": (0, 80)}


def test_losses_are_summed_by_stretch_up_to_the_maximum_length():
    model, ids, edges = toy_model(), toy_tokens(1, 30)[0].numpy(), [0, 8, 12, 16, 40]
    whole = position_losses(model, ids, 0)
    plain = piece_loss(model, ids, edges, seed=0)
    expected = [part.sum() for part in np.split(whole, edges[1:-1])]
    assert plain == {"sums": pytest.approx(expected), "tokens": [8, 4, 4, 13]}
    limited = toy_model(position={"name": "learned", "max_length": 14})
    assert piece_loss(limited, ids, edges, seed=0)["tokens"] == [8, 4, 2, 0]
    # With a window, tokens past it are also predicted from a short context, half a window at a time.
    parts = [position_losses(model, ids[start : start + 9], 0)[4:] for start in range(4, 28, 4)]
    expected = [whole[:8].sum(), parts[0].sum(), parts[1].sum(), np.concatenate(parts[2:]).sum()]
    found = piece_loss(model, ids, edges, seed=0, window=8)
    assert found == {**plain, "nearby": pytest.approx(expected)}
    assert found["nearby"][1] != pytest.approx(found["sums"][1])
    short = piece_loss(model, ids[:7], edges, 0, window=8)
    assert short["nearby"] == short["sums"]


def test_each_piece_counts_once_and_drift_is_paired():
    found = summary([loss(1, 3, 5), loss(2, 2), loss(3, 7, 9), loss(4)], EDGES, trained_length=4)
    trained, near = found["parts"]["trained"], found["parts"]["near"]
    assert trained["mean"] == pytest.approx((2 + 2 + 5 + 4) / 4)
    assert trained["deviation"] == pytest.approx(np.std([2, 2, 5, 4], ddof=1))
    assert (near["start"], near["stop"], near["mean"], near["pieces"]) == (4, 6, 7, 2)
    assert [row["pieces"] for row in found["positions"]] == [4, 3, 2]
    drift = found["drift"]["near"]
    assert (drift["mean"], drift["pieces"]) == (pytest.approx((3 + 4) / 2), 2)
    assert found["tokens"] == 18
    one = summary([loss(1, 3, 5)], EDGES, trained_length=4)
    assert one["parts"]["trained"]["deviation"] is None
    assert (one["drift"]["near"]["deviation"], one["drift"]["near"]["pieces"]) == (None, 1)


def test_a_part_ends_with_the_longest_piece():
    parts = summary([PARTLY, loss(2, 2)], EDGES, trained_length=4)["parts"]
    assert [(row["start"], row["stop"]) for row in parts.values()] == [(0, 4), (4, 5)]
    assert summary([loss(1, 1)], EDGES, trained_length=4)["parts"]["near"] is None
    assert summary([loss(1)], EDGES, trained_length=4)["parts"]["trained"]["stop"] == 4


def test_context_differences_are_paired_by_piece():
    pieces = [
        loss(1, 3, 5, nearby=[2.0, 8, 12]),
        loss(2, 2, 2, nearby=[4.0, 4, 8]),
        loss(1, nearby=[2.0, 0, 0]),
    ]
    found = context_difference(pieces, EDGES, trained_length=2)
    assert (found["mean"], found["pieces"]) == (pytest.approx((-1 - 1) / 2), 2)
    assert context_difference(pieces[2:], EDGES, trained_length=2) is None


@pytest.mark.parametrize("position", ["absolute", "sine_spe", "conv_spe", "permuteformer"])
def test_losses_do_not_depend_on_the_window(position: str, monkeypatch):
    model, tokens = toy_model(position=position), toy_tokens(1, 30)
    ids = tokens[0].numpy()
    with torch.no_grad():
        logits = model(tokens[:, :-1], model.begin(generator(3)))
    expected = F.cross_entropy(logits[0], tokens[0, 1:], reduction="none")
    for window in (7, 1024):
        monkeypatch.setattr(extrapolation, "WINDOW", window)
        found = position_losses(model, ids, seed=3)
        assert found.shape == (29,)
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)
    assert np.array_equal(found, position_losses(model, ids, 3))
    drawn = position in ("sine_spe", "conv_spe")
    assert np.array_equal(found, position_losses(model, ids, 2)) == (not drawn)
