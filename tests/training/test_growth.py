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


def trained() -> Performer:
    """Return a toy whose branch ends are not small, as after training."""
    model = Performer(toy_config(), 0).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".output." in name:
                weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return model


def logits(model: Performer) -> torch.Tensor:
    with torch.no_grad():
        return model(music(90), model.begin(torch.Generator().manual_seed(2)))


def grow(before: Performer, names: list[str] = NAMES, **changes: object) -> Performer:
    model = Performer(replace(before.config, **changes), 5).eval()
    model.load_state_dict(grown(before, model, names, NAMES))
    return model


@pytest.mark.parametrize("layers", [2, 3, 4, 7])
def test_more_layers_add_nothing_at_first_and_can_learn(layers: int):
    before = trained()
    after = grow(before, layers=layers)
    torch.testing.assert_close(logits(after), logits(before), rtol=1e-5, atol=1e-5)
    loss = after(music(90), after.begin(torch.Generator().manual_seed(2))).square().sum()
    loss.backward()
    for block in after.blocks:
        for branch in (block.attention, block.feedforward):
            assert branch.output.weight.grad.abs().sum() > 0


def test_each_trained_layer_is_followed_by_its_copies():
    before = trained()
    after = grow(before, layers=4)
    weights = [block.feedforward.inner.weight for block in after.blocks]
    for number, weight in enumerate(weights):
        assert torch.equal(weight, before.blocks[number // 2].feedforward.inner.weight)
    ends = [bool(block.feedforward.output.weight.any()) for block in after.blocks]
    assert ends == [True, False, True, False]


def test_more_metric_heads_add_nothing_at_first():
    before = trained()
    more = MetreConfig(bars=(*METRE.bars, 4), remembers=(*METRE.remembers, 8), features=3)
    after = grow(before, metre=more)
    torch.testing.assert_close(logits(after), logits(before), rtol=1e-5, atol=1e-5)


def test_tokens_are_known_by_their_names():
    before = trained()
    names = [*NAMES[6:], "new", *NAMES[:4]]  # in another order, without 4 and 5
    after = grow(before, names, vocabulary_size=len(names))
    old, head = before.embedding.weight, before.head.weight
    assert torch.equal(after.embedding.weight[:5], old[6:])
    assert torch.equal(after.embedding.weight[6:], old[:4])
    torch.testing.assert_close(after.head.weight[5], head.mean(0))


def test_goals_are_known_by_the_names_of_their_tokens():
    before = grow(trained(), goals=(5, 6, 7))
    with torch.no_grad():
        before.goals.vectors.weight.normal_()
    names = [*NAMES, "new", "newer"]
    model = Performer(replace(before.config, goals=(5, 7, 11, 12), vocabulary_size=len(names)), 5)
    found = grown(before, model, names, NAMES)["goals.vectors.weight"]
    assert torch.equal(found[:2], before.goals.vectors.weight[[0, 2]])
    assert not found[2:].any()


def test_another_encoding_begins_as_it_does_untrained():
    before = trained()
    after = grow(before, position={"name": "rope"})
    fresh = Performer(after.config, 5)
    for name, weight in after.state_dict().items():
        if name.startswith("position."):
            assert torch.equal(weight, fresh.state_dict()[name])
    assert torch.equal(after.blocks[0].attention.qkv.weight, before.blocks[0].attention.qkv.weight)
