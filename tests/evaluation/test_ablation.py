"""Removing a part of a model leaves what the model computes without it."""

from typing import Any

import pytest
import torch

from evaluation.study.ablation import REALISATIONS, changes, parts_of, without
from musicgen.performer import Performer
from tests.musicgen.toys import METRE, generator, toy_model, toy_tokens, whole_of

GATES, PLACES, SHUFFLED, NOISE, DECAY, METRIC = (
    "gates open", "positions all one", "frequencies shuffled", "noise redrawn", "decay off",
    "metric heads cut",
)  # fmt: skip
NUMBERS = [*REALISATIONS]
FREQUENCIES = {"sine_spe": "raw_frequencies", "rope": "frequencies", "lrpe": "angles"}
TOKENS = toy_tokens(2, 30)


def toy(position: Any = "sine_spe", **changes: Any) -> Performer:
    return toy_model(**{"position": position, "layers": 2, **changes}).double()


def logits(model: Performer, tokens: torch.Tensor = TOKENS) -> torch.Tensor:
    return whole_of(model, tokens)


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (toy("none"), []),
        (toy(), [GATES, PLACES, SHUFFLED, NOISE, *NUMBERS]),
        (toy({"name": "sine_spe", "gated": False}), [PLACES, SHUFFLED, NOISE, *NUMBERS]),
        (toy("rope", horizons=(2, 8)), [PLACES, SHUFFLED, DECAY]),
        (toy("permuteformer", metre=METRE), [PLACES, METRIC, DECAY]),
        (toy("conv_spe"), [GATES, NOISE, *NUMBERS]),
        (toy("flt"), [NOISE]),
    ],
)
def test_the_parts_of_a_model_depend_on_its_encoding(model: Performer, parts: list[str]) -> None:
    assert parts_of(model) == parts
    before = logits(model)
    for part in parts:
        assert torch.allclose(logits(without(model, part)), before) == (part == NOISE)
    assert torch.equal(logits(model), before)  # the model itself is unchanged


def test_a_removed_layer_is_the_identity() -> None:
    model = toy("none")
    assert parts_of(model, layers=True) == ["layer 1", "layer 2"]
    shorter = toy("none", layers=1)
    kept = {n: x for n, x in model.state_dict().items() if not n.startswith("blocks.1.")}
    shorter.load_state_dict(kept)
    torch.testing.assert_close(logits(without(model, "layer 2")), logits(shorter))
    assert not torch.allclose(logits(without(model, "layer 1")), logits(model))


@pytest.mark.parametrize("time", ["tokens", "music"])
def test_without_positions_the_order_of_the_past_has_no_effect(time: str) -> None:
    for choice in ({"name": "rope"}, {"name": "permuteformer", "with_decay": False}):
        model, none = toy({"time": time, **choice}), toy("none")
        none.load_state_dict({k: v for k, v in model.state_dict().items() if "position" not in k})
        torch.testing.assert_close(logits(without(model, PLACES)), logits(none))
    for part in (GATES, PLACES):
        model = without(toy({"name": "sine_spe", "time": time}, layers=1), part)
        orders = (
            [4, 5, 6, 7, 8, 9, 10],
            [5, 4, 7, 6, 8, 9, 10],
        )  # none of these tokens advances time
        found, other = (logits(model, torch.tensor([ids]))[:, -1] for ids in orders)
        torch.testing.assert_close(found, other)


@pytest.mark.parametrize("name", FREQUENCIES)
@pytest.mark.parametrize("time", ["tokens", "music"])
def test_shuffling_permutes_the_frequencies(name: str, time: str) -> None:
    def frequencies(model: Performer) -> torch.Tensor:
        place: Any = model.position
        return (place.learned() if time == "music" else getattr(place, FREQUENCIES[name])).flatten()

    model = toy({"name": name, "time": time})
    before, after = frequencies(model), frequencies(without(model, SHUFFLED))
    assert not torch.equal(before, after)
    torch.testing.assert_close(before.sort().values, after.sort().values)


def test_cut_metric_heads_and_decay_have_no_effect() -> None:
    model, other = toy(metre=METRE), toy(metre=METRE)
    for block in other.blocks:
        block.get_parameter("attention.metre.qkv.weight").data.normal_(generator=generator(5))
    assert not torch.allclose(logits(model), logits(other))
    assert torch.equal(*(logits(without(m, METRIC)) for m in (model, other)))
    lasting = without(toy("rope", horizons=(2, 8)), DECAY)
    torch.testing.assert_close(logits(lasting), logits(toy("rope")))


def test_changes_are_paired_by_piece_within_and_past_the_trained_length() -> None:
    whole = [{"sums": [10.0, 6.0], "tokens": [10, 3]}, {"sums": [20.0, 0.0], "tokens": [10, 0]}]
    changed = [{"sums": [12.0, 9.0], "tokens": [10, 3]}, {"sums": [24.0, 0.0], "tokens": [10, 0]}]
    half = 12.7062 * 0.1  # Student's t for two pieces
    found = changes(whole, changed)
    within, past = ([found[part][key] for key in ("mean", "low", "high")] for part in found)
    assert within == pytest.approx([0.3, 0.3 - half, 0.3 + half])
    assert past == [pytest.approx(1.0), None, None]
    assert (found["within"]["n"], found["past"]["n"]) == (2, 1)
