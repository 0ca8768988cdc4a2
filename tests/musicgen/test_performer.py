"""The model: its parts, its goals, and its properties with every registered encoding."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from musicgen.attention import map_state
from musicgen.features import FEATURES
from musicgen.parts import POSITION_CONFIGS
from musicgen.performer import Goals, Performer, State, Times
from tests.musicgen.toys import (
    ENCODINGS,
    METRE,
    RECALL,
    VOCABULARY,
    generator,
    stirred,
    toy_config,
    toy_model,
    toy_tokens,
    unlimited,
    whole_of,
)
from tokenization.language import language

GOALS = (7, 9)  # of the toys' eleven tokens
PLAIN = torch.tensor([[4, 5, 0, 6, 8, 10, 4, 5]])


def selected(state: State, rows: Tensor) -> State:
    """Return the state of these rows of a batch, to drop or repeat some."""
    layers = tuple(map_state(layer, lambda x: x.index_select(0, rows)) for layer in state.layers)
    times = state.times and Times(*(x.index_select(0, rows) for x in state.times))
    recalls = state.recalls and tuple(state.recalls[row].copy() for row in rows)
    return replace(state, layers=layers, times=times, recalls=recalls)


def test_a_goal_is_current_until_the_next_one():
    goals = Goals(GOALS, 11, 4)
    tokens = torch.tensor([[4, 9, 0, 5, 7, 7, 3], [1, 2, 3, 4, 5, 6, 8]])
    goal = torch.tensor([0, 1])
    found = goals.current(tokens, goal)
    assert found.tolist() == [[0, 2, 2, 2, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]
    for column, wanted in zip(tokens.T, found.T, strict=True):
        goal = goals.current(column.unsqueeze(1), goal).squeeze(1)
        assert goal.tolist() == wanted.tolist()


def test_a_goal_changes_all_logits_after_it_and_none_before():
    model, other = stirred(toy_model(goals=GOALS)), toy_model()
    other.load_state_dict({k: v for k, v in model.state_dict().items() if "goals" not in k})
    with_goal = torch.cat([PLAIN, torch.tensor([[9]]), PLAIN], 1)
    with torch.no_grad():
        assert torch.equal(model(PLAIN), other(PLAIN))
        here, there = model(with_goal), other(with_goal)
    assert torch.equal(here[:, : PLAIN.shape[1]], there[:, : PLAIN.shape[1]])
    assert ((here - there)[0, PLAIN.shape[1] :].abs().amax(1) > 1e-3).all()


def test_languages_list_their_goal_tokens():
    spoken = language("ensemble")
    names = [spoken.vocabulary.names[token] for token in spoken.goal_tokens()]
    assert names[:16] == [f"left_{bars}" for bars in range(1, 17)]
    assert {"seam_16", "after", "before"} <= set(names)
    assert not {"bar", "end"} & set(names)
    assert not language("groove").goal_tokens()


def test_the_seed_determines_the_weights_and_leaves_other_generators_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("it was seeded"))
    before = torch.get_rng_state()
    made = (Performer(toy_config(position="sine_spe"), seed) for seed in (1, 1, 2))
    first, again, other = (model.state_dict() for model in made)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_stochastic_encoding_needs_a_code():
    model, tokens = toy_model(position="sine_spe"), toy_tokens(1, 12)
    wanted = r"sine_spe draws a code for each sequence; pass code=model\.begin"
    with pytest.raises(ValueError, match=wanted):
        model(tokens)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo's
@pytest.mark.parametrize(
    "variant",
    [{"goals": GOALS}, *({"position": one} for one in ("rope", "sine_spe", "permuteformer"))],
    ids=str,
)
def test_the_training_step_compiles_as_one_graph(variant: dict[str, Any]):
    model = Performer(toy_config(**variant))
    tokens, code = toy_tokens(2, 20), model.begin(generator())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tokens, code=code), model(tokens, code=code))


LENGTH = 37  # not a multiple of the chunk
AFTER_FEATURES = [x for x in ENCODINGS if POSITION_CONFIGS[x.split()[0]].needs_linear_attention]
BEFORE_FEATURES = [one for one in ENCODINGS if one not in AFTER_FEATURES]
every_encoding = pytest.mark.parametrize("position", ENCODINGS)
ENCODINGS_AND_MAPS = [(x, "favor") for x in ENCODINGS] + [("sine_spe", x) for x in FEATURES]


def model_of(position: str, **overrides: Any) -> Any:
    return toy_model(position=unlimited(position), **overrides)


@pytest.mark.parametrize(("position", "features"), ENCODINGS_AND_MAPS)
def test_all_backends_agree(position: str, features: str):
    outputs = {}
    for horizons in (None, (2, 20)):
        for backend in ("exact", "chunked", "recurrent"):
            model = model_of(position, features=features, backend=backend, horizons=horizons)
            outputs[horizons, backend] = whole_of(model.double(), toy_tokens(2, LENGTH))
        for backend in ("chunked", "recurrent"):
            found, wanted = outputs[horizons, backend], outputs[horizons, "exact"]
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(outputs[None, "exact"], outputs[(2, 20), "exact"])


@pytest.mark.parametrize(
    "parts",
    [
        *({"position": unlimited(one)} for one in ENCODINGS),
        *({"position": "sine_spe", "features": one} for one in ("relu", "elu", "unit")),
        {"norm": "post", "activation": "relu", "tie_embeddings": True, "layers": 3},
        {"goals": GOALS},
        {"goals": GOALS, "metre": METRE, "position": "sine_spe", "layers": 2},
        *({"position": unlimited(one), "attention": "softmax"} for one in BEFORE_FEATURES),
        {"attention": "softmax", "goals": GOALS},
        {"recall": RECALL},
    ],
    ids=str,
)
@pytest.mark.parametrize("cut", [1, 17])
def test_prefill_and_steps_equal_the_whole_pass_for_any_rows(parts: dict[str, Any], cut: int):
    model, tokens = stirred(toy_model(**parts)).double(), toy_tokens(3, LENGTH)
    whole, rows = whole_of(model, tokens), torch.arange(3)
    logits, state = model.prefill(tokens[:, :cut], model.start(generator()))
    for t in range(cut, 30):
        torch.testing.assert_close(logits, whole[rows, t - 1], rtol=1e-9, atol=1e-9)
        if t == cut + 6:
            rows = torch.tensor([2, 0, 2, 1])
            state = selected(state, rows)
        logits, state = model.step(tokens[rows, t], state)
    assert state.position == 30
    with torch.inference_mode():
        rest, _ = model.extend(tokens[rows, 30:], state)
    torch.testing.assert_close(rest, whole[rows, 30:], rtol=1e-9, atol=1e-9)


@every_encoding
@pytest.mark.parametrize("metre", [None, METRE], ids=["", "metre"])
def test_outputs_do_not_depend_on_later_tokens_to_the_last_bit(position: str, metre: Any):
    model = model_of(position, metre=metre).double()
    tokens = toy_tokens(2, 140 if metre else LENGTH)
    before = whole_of(model, tokens)
    for place in (0, 15, 16, *((127, 128) if metre else ())):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % VOCABULARY
        after = whole_of(model, changed)
        assert torch.equal(before[:, :place], after[:, :place])
        assert not torch.equal(before[:, place], after[:, place])


@pytest.mark.long
@pytest.mark.parametrize("mixed", [False, True], ids=["float32", "bfloat16"])
@every_encoding
def test_long_sequences_are_finite_forward_and_backward(position: str, mixed: bool):
    model = model_of(position, chunk=128, metre=METRE).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        logits = model(toy_tokens(1, 16384), code=model.begin(generator()))
    assert logits.isfinite().all()
    logits.float().square().mean().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("position", AFTER_FEATURES)
def test_softmax_attention_refuses_encodings_of_features(position: str):
    with pytest.raises(ValueError, match="choose attention: linear"):
        model_of(position, attention="softmax")
