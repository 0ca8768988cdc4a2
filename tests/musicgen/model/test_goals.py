"""Every position is told which goal stands: alike whole, cut anywhere, in steps and in company."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from musicgen.generation.request import Request, Stop
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Goals, Performer
from musicgen.storage.checkpoint import Card, load, save
from tests.musicgen.generation.generate import written
from tests.musicgen.metre.toys import METRE
from tests.musicgen.steps import selected
from tests.musicgen.toys import (
    check_prompt_and_steps,
    generator,
    toy_config,
    toy_model,
    toy_tokens,
)
from tokenization.language import language
from training.initial_model import grown

CARD = Card(
    name="told", language={"language": "remi-2"}, trained_length=8, training={"data": "none"}
)
GOALS = (7, 9)  # of the toys' eleven tokens
PLAIN = torch.tensor([[4, 5, 0, 6, 8, 10, 4, 5]])


def in_words(**changes: object) -> Performer:
    """Return a toy that is told of goals, and for which they matter."""
    model = toy_model(goals=GOALS, **changes)
    assert model.goals is not None
    with torch.no_grad():
        model.goals.vectors.weight.normal_(0, 0.3, generator=generator(3))
    return model


def test_the_last_goal_stands_until_the_next():
    goals = Goals(GOALS, 11, 4)
    tokens = torch.tensor([[4, 9, 0, 5, 7, 7, 3], [1, 2, 3, 4, 5, 6, 8]])
    found = goals.standing(tokens, torch.tensor([0, 1]))
    assert found.tolist() == [[0, 2, 2, 2, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]
    at = torch.tensor([0, 1])
    for column, wanted in zip(tokens.T, found.T, strict=True):
        at = goals.standing(column.unsqueeze(1), at).squeeze(1)
        assert at.tolist() == wanted.tolist()


@pytest.mark.parametrize("metre", [None, METRE], ids=["alone", "beside metric heads"])
@pytest.mark.parametrize("position", ["none", "sine_spe"])
@pytest.mark.parametrize("cut", [1, 17, 40])
def test_prompt_and_steps_equal_the_whole(metre: object, position: str, cut: int):
    model = in_words(metre=metre, position=position, layers=2)
    check_prompt_and_steps(model, toy_tokens(2, 60), cut, 50)


def test_without_a_goal_nothing_is_added_and_after_one_everything_is_changed():
    model, tokens = in_words(), PLAIN
    other = toy_model()
    other.load_state_dict({k: v for k, v in model.state_dict().items() if "goals" not in k})
    with_goal = torch.cat([PLAIN, torch.tensor([[9]]), PLAIN], 1)
    with torch.no_grad():
        assert torch.equal(model(tokens), other(tokens))
        here, there = model(with_goal), other(with_goal)
    assert torch.equal(here[:, : PLAIN.shape[1]], there[:, : PLAIN.shape[1]])
    assert ((here - there)[0, PLAIN.shape[1] :].abs().amax(1) > 1e-3).all()


def test_a_variation_does_not_depend_on_its_company():
    def run(variations: int) -> np.ndarray:
        asked = Request(variations=variations, seed=3, stop=Stop(tokens=40))
        return written(in_words(), np.array([4, 9, 2, 1]), asked)

    np.testing.assert_array_equal(run(5)[:1], run(1))


def test_rows_of_a_state_keep_their_goals():
    model, tokens = in_words(), torch.tensor([[4, 7, 5], [4, 9, 5], [4, 5, 6]])
    _, state = model.prefill(tokens, model.start(generator()))
    rows = torch.tensor([2, 0])
    some, of_all = selected(state, rows), model.step(torch.tensor([5, 5, 5]), state)[0]
    torch.testing.assert_close(model.step(torch.tensor([5, 5]), some)[0], of_all[rows])


def test_a_trained_model_that_is_told_computes_at_first_what_it_did_and_learns():
    before = toy_model(layers=2)
    after = Performer(toy_config(layers=4, goals=GOALS, initial_deviation=0.3), 5).eval()
    names = [f"token {number}" for number in range(11)]
    after.load_state_dict(grown(before, after, names, names))
    tokens = toy_tokens(2, 40)
    torch.testing.assert_close(after(tokens), before(tokens), rtol=1e-5, atol=1e-5)
    after(tokens).square().sum().backward()
    assert after.goals is not None
    gradient = after.goals.vectors.weight.grad
    assert gradient is not None
    assert (gradient.abs().sum(1) > 0).all()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_saved_and_loaded_it_is_the_same_model(tmp_path: Path, dtype: str):
    model = in_words()
    save(tmp_path / "told", model, CARD, dtype)
    back = load(tmp_path / "told")[0]
    assert back.config == model.config
    close = 0 if dtype == "float32" else 0.2
    with torch.no_grad():
        torch.testing.assert_close(back(PLAIN), model(PLAIN), rtol=close, atol=close)


@pytest.mark.parametrize(
    ("goals", "message"), [((), "goals are"), ((7, 7), "goals are"), ((7, 11), "below 11")]
)
def test_goals_that_are_none_are_refused(goals: tuple[int, ...], message: str):
    with pytest.raises(ValueError, match=message):
        toy_config(goals=goals)
    with pytest.raises(ValueError, match="goals need the clock"):
        ModelConfig(vocabulary_size=11, goals=(7,))


@pytest.mark.parametrize("name", ["remi-2", "groove-2"])
def test_a_language_names_its_goal_tokens(name: str):
    spoken = language(name)
    names = [spoken.vocabulary.names[token] for token in spoken.goal_tokens()]
    assert names[:16] == [f"left_{bars}" for bars in range(1, 17)]
    assert {"seam_16", "after", "before"} <= set(names)
    assert not {"bar", "end"} & set(names)
    assert not language(name.removesuffix("-2")).goal_tokens()


@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning"
)  # dynamo's own
def test_the_training_step_compiles_as_one_graph():
    model = in_words()
    tokens = toy_tokens(2, 20)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tokens), model(tokens))
