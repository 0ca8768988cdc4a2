"""A grown model computes at first what the trained one did."""

from dataclasses import replace

import pytest
import torch

from musicgen.metre.heads import MetreConfig
from musicgen.model.performer import Performer
from tests.musicgen.metre.toys import METRE, music
from tests.musicgen.metre.toys import config as toy_config
from tests.musicgen.toys import VOCABULARY
from training.initial_model import grown

NAMES = [f"token {number}" for number in range(VOCABULARY)]


@pytest.fixture(scope="module")
def before() -> Performer:
    """Return a toy whose branch ends are not small, as after training."""
    model = Performer(toy_config(), 0).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".output." in name:
                weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return model


def logits(model: Performer) -> torch.Tensor:
    return model(music(90), model.begin(torch.Generator().manual_seed(2)))


def grow(before: Performer, names: list[str] = NAMES, **changes: object) -> Performer:
    model = Performer(replace(before.config, **changes), 5).eval()
    model.load_state_dict(grown(before, model, names, NAMES))
    return model


@pytest.mark.parametrize("layers", [2, 4, 7])
def test_more_layers_add_nothing_at_first_and_can_learn(before: Performer, layers: int):
    after = grow(before, layers=layers)
    found = logits(after)
    torch.testing.assert_close(found, logits(before), rtol=1e-5, atol=1e-5)
    found.square().sum().backward()
    for block in after.blocks:
        for branch in (block.attention, block.feedforward):
            assert branch.output.weight.grad.abs().sum() > 0
    if layers == 4:  # each trained layer is followed by its copy
        for number, block in enumerate(after.blocks):
            trained = before.blocks[number // 2].feedforward
            assert torch.equal(block.feedforward.inner.weight, trained.inner.weight)
            assert bool(block.feedforward.output.weight.any()) == (number % 2 == 0)


def test_more_metric_heads_add_nothing_at_first(before: Performer):
    more = MetreConfig(bars=(*METRE.bars, 4), remembers=(*METRE.remembers, 8), features=3)
    after = grow(before, metre=more)
    torch.testing.assert_close(logits(after), logits(before), rtol=1e-5, atol=1e-5)


def test_tokens_are_known_by_their_names(before: Performer):
    names = [*NAMES[6:], "new", *NAMES[:4]]  # in another order, without 4 and 5
    after = grow(before, names, vocabulary_size=len(names))
    old, head = before.embedding.weight, before.head.weight
    assert torch.equal(after.embedding.weight[:5], old[6:])
    assert torch.equal(after.embedding.weight[6:], old[:4])
    torch.testing.assert_close(after.head.weight[5], head.mean(0))


def test_goals_are_known_by_the_names_of_their_tokens(before: Performer):
    told = grow(before, goals=(5, 6, 7))
    with torch.no_grad():
        told.goals.vectors.weight.normal_()
    names = [*NAMES, "new", "newer"]
    model = Performer(replace(told.config, goals=(5, 7, 11, 12), vocabulary_size=len(names)), 5)
    found = grown(told, model, names, NAMES)["goals.vectors.weight"]
    assert torch.equal(found[:2], told.goals.vectors.weight[[0, 2]])
    assert not found[2:].any()


def test_another_encoding_begins_as_it_does_untrained(before: Performer):
    after = grow(before, position={"name": "rope"})
    fresh = Performer(after.config, 5)
    for name, weight in after.state_dict().items():
        if name.startswith("position."):
            assert torch.equal(weight, fresh.state_dict()[name])
    assert torch.equal(after.blocks[0].attention.qkv.weight, before.blocks[0].attention.qkv.weight)
