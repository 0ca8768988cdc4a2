"""Parts are taken away as they are named: what is left is what the model computes without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from evaluation.ablation import WHOLE, changes, part_losses, parts_of, without
from musicgen.metre.heads import MetreConfig
from musicgen.model.performer import Performer
from tests.musicgen.toys import generator, toy_config, toy_tokens

METRE = MetreConfig(bars=(1, 0.5), remembers=(2, 8), features=3)
GATES, PLACES, SHUFFLED, NOISE, DECAY, METRIC = (
    "gates open", "positions all one", "frequencies shuffled", "noise redrawn", "decay off",
    "metric heads cut",
)  # fmt: skip


def toy(position: Any = "sine_spe", **changes: Any) -> Performer:
    config = replace(toy_config(position=position, initial_deviation=0.3, layers=2), **changes)
    return Performer(config, 0).eval().double()


def logits(model: Performer, tokens: torch.Tensor, seed: int = 0) -> torch.Tensor:
    with torch.no_grad():
        return model(tokens, code=model.begin(generator(seed)))


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (toy("none"), []),
        (toy(), [GATES, PLACES, SHUFFLED, NOISE]),
        (toy({"name": "sine_spe", "gated": False}), [PLACES, SHUFFLED, NOISE]),
        (toy("rope", horizons=(2, 8)), [PLACES, SHUFFLED, DECAY]),
        (toy("permuteformer", metre=METRE), [PLACES, METRIC, DECAY]),
        (toy("conv_spe"), [GATES, NOISE]),
        (toy("flt"), [NOISE]),
    ],
)
def test_parts_are_those_that_a_model_has(model: Performer, parts: list[str]) -> None:
    assert parts_of(model) == parts
    tokens = toy_tokens(2, 40)
    before = logits(model, tokens)
    for part in parts:
        if part != NOISE:
            assert not torch.allclose(logits(without(model, part), tokens), before)
    assert torch.equal(logits(model, tokens), before)  # the model itself is left as it was


def test_another_seed_is_another_shuffle_and_another_draw() -> None:
    model, pieces = toy("rope"), [(3, np.arange(11).repeat(4))]
    losses = [part_losses(model, SHUFFLED, pieces, [0, 40], seed) for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]
    drawn = [part_losses(toy(), part, pieces, [0, 20, 40], 0) for part in (WHOLE, WHOLE, NOISE)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("time", ["tokens", "music"])
@pytest.mark.parametrize("name", ["rope", "permuteformer"])
def test_at_one_position_an_exact_encoding_is_none(name: str, time: str) -> None:
    choice = {"with_decay": False} if name == "permuteformer" else {}
    model = toy({"name": name, "time": time, **choice})
    none = toy("none")
    none.load_state_dict({k: v for k, v in model.state_dict().items() if "position" not in k})
    tokens = toy_tokens(2, 30)
    torch.testing.assert_close(logits(without(model, PLACES), tokens), logits(none, tokens))


@pytest.mark.parametrize("time", ["tokens", "music"])
@pytest.mark.parametrize("part", [GATES, PLACES])
def test_without_position_only_the_order_of_what_is_past_matters_not(time: str, part: str) -> None:
    model = without(toy({"name": "sine_spe", "time": time}, layers=1), part)
    tokens = torch.tensor([[4, 5, 6, 7, 8, 9, 10]])  # none of them moves time
    swapped = torch.tensor([[5, 4, 7, 6, 8, 9, 10]])
    found, other = (logits(model, t)[:, -1] for t in (tokens, swapped))
    torch.testing.assert_close(found, other)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("sine_spe", "raw_frequencies"), ("rope", "frequencies"), ("lrpe", "angles")],
)
@pytest.mark.parametrize("time", ["tokens", "music"])
def test_shuffled_frequencies_are_the_same_ones_elsewhere(
    name: str, parameter: str, time: str
) -> None:
    model = toy({"name": name, "time": time})

    def frequencies(model: Performer) -> torch.Tensor:
        position: Any = model.position
        return (position.learned() if time == "music" else getattr(position, parameter)).flatten()

    before, after = frequencies(model), frequencies(without(model, SHUFFLED))
    assert not torch.equal(before, after)
    torch.testing.assert_close(before.sort().values, after.sort().values)


def test_cut_metric_heads_leave_what_counts_tokens() -> None:
    model, other = toy(metre=METRE), toy(metre=METRE)
    with torch.no_grad():
        for block in other.blocks:
            weight = block.get_parameter("attention.metre.qkv.weight")
            weight.normal_(generator=generator(5))
    tokens = toy_tokens(2, 30)
    assert not torch.allclose(logits(model, tokens), logits(other, tokens))
    assert torch.equal(*(logits(without(m, METRIC), tokens) for m in (model, other)))


def test_heads_that_forget_nothing_are_those_of_a_model_without_horizons() -> None:
    model, plain = toy("rope", horizons=(2, 8)), toy("rope")
    tokens = toy_tokens(2, 30)
    torch.testing.assert_close(logits(without(model, DECAY), tokens), logits(plain, tokens))


def test_changes_are_paired_by_piece_and_tell_past_from_within() -> None:
    whole = [{"sums": [10.0, 6.0], "tokens": [10, 3]}, {"sums": [20.0, 0.0], "tokens": [10, 0]}]
    changed = [{"sums": [12.0, 9.0], "tokens": [10, 3]}, {"sums": [24.0, 0.0], "tokens": [10, 0]}]
    found = changes(whole, changed)
    assert found["within"] == pytest.approx(0.3)
    assert found["past"] == pytest.approx(1.0)
    half = 12.7062 * 0.1  # Student's, of two pieces
    assert found["interval"]["within"] == pytest.approx([0.3 - half, 0.3 + half])
    assert found["interval"]["past"] == [None, None]
    assert found["pieces"] == {"within": 2, "past": 1}
