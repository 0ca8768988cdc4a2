"""Encodings in musical time: what their frequencies begin as, and that only differences of time matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from musicgen.generation.request import Request, Stop
from musicgen.metre.clock import Times
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.position.phase import PERIODS, MusicalFrequencies
from musicgen.position.spe.sine import SineSpe, orthogonal_rows
from tests.musicgen.generation.generate import written
from tests.musicgen.position.makers import SHAPE, build, cover, inputs, times
from tests.musicgen.steps import FastSteps, selected
from tests.musicgen.toys import CLOCK, MUSICAL, generator, toy_config, toy_model, toy_tokens

BAR = 48


def comb(heads: int = 4, waves: int = 64) -> torch.Tensor:
    """Return the mean of a head's waves at each tick of 16 bars, (H, N)."""
    frequencies = MusicalFrequencies(replace(SHAPE, heads=heads, bar_ticks=BAR), waves)()
    ticks = torch.arange(16 * BAR, dtype=torch.float64)
    return torch.cos(2 * torch.pi * frequencies.detach().unsqueeze(-1) * ticks).mean(1)


def test_a_heads_first_waves_are_a_comb_with_teeth_at_its_period() -> None:
    for bars, kernel in zip(PERIODS, comb(), strict=True):
        teeth = torch.arange(16 * BAR) % (bars * BAR) == 0
        torch.testing.assert_close(kernel[teeth], torch.ones(16 // bars, dtype=torch.float64))
        away = torch.arange(16 * BAR) % (bars * BAR)
        between = (away >= 3) & (away <= bars * BAR - 3)  # a sixteenth or more from a tooth
        assert kernel[between].max() < 0.5


def test_what_is_learned_moves_a_wave_by_cycles_of_the_longest_period() -> None:
    learned = MusicalFrequencies(replace(SHAPE, bar_ticks=BAR), 3)
    before = learned().detach()
    with torch.no_grad():
        learned.offsets.fill_(1)
    torch.testing.assert_close((learned() - before) * 8 * BAR, torch.ones_like(before))


@pytest.mark.parametrize(("rows", "width"), [(24, 24), (20, 24), (60, 24)])
def test_rows_of_the_noise_are_orthogonal_so_many_at_a_time(rows: int, width: int) -> None:
    drawn = orthogonal_rows(3, rows, width, generator()).double()
    assert drawn.shape == (3, rows, width)
    for block in drawn.split(width, 1):
        products = block @ block.mT
        wanted = width * torch.eye(block.shape[1], dtype=torch.float64).expand_as(products)
        torch.testing.assert_close(products, wanted, rtol=0, atol=1e-4)


def test_orthogonal_rows_are_without_bias() -> None:
    source, products = generator(), torch.zeros(40, 40)
    for _ in range(2000):
        rows = orthogonal_rows(1, 40, 16, source)[0]
        products += rows @ rows.T / 16 / 2000
    torch.testing.assert_close(
        products, torch.eye(40), rtol=0, atol=0.03
    )  # 1/√(16 · 2000) is 0.006


@pytest.mark.parametrize("time", ["tokens", "music"])
def test_an_orthogonal_code_with_room_for_all_rows_realises_the_template_exactly(time: str) -> None:
    position = build("sine_spe", sines=2, realisations=8 * 5, orthogonal=True, time=time).double()
    assert isinstance(position, SineSpe)
    given = inputs(30)
    with torch.no_grad():
        position.offsets.normal_(generator=generator(1))
        code = cover(position, position.begin(generator()), 0, 30)
    q, k = position.qk(given["q"], given["k"], code, 0, 1)
    found = torch.einsum("bmhr,bnhr->bhmn", q, k) * position.scale**-2 / position.realisations
    number = torch.arange(30).expand(2, 2, 30)
    queries, keys = times(0, 30, 2) if position.musical else number
    lags = queries.unsqueeze(2) - keys.unsqueeze(1)  # (B, T, T)
    template = position.template(lags.flatten().double(), layer=1).view(2, 8, *lags.shape)
    wanted = torch.einsum("bmhd,bnhd,hdbmn->bhmn", given["q"], given["k"], template)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)  # noise is drawn in float32


@pytest.mark.parametrize("later", [1, 48, 1_000_000])
def test_rotations_know_only_differences_of_time(later: int) -> None:
    position, given, products = build("rope", time="music").double(), inputs(30), []
    with torch.no_grad():
        for moved in (times(0, 30, 2), times(0, 30, 2) + later):
            code = position.cover(None, 0, 30, moved)
            q, k = position.qk(given["q"], given["k"], code, 0, 0)
            products.append(torch.einsum("bmhd,bnhd->bhmn", q, k))
    torch.testing.assert_close(*products, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("bars", [1, 7, 10_000_000])
@pytest.mark.parametrize("name", ["lrpe", "permuteformer"])
def test_behind_the_feature_map_the_whole_model_knows_only_differences(
    name: str, bars: int
) -> None:
    model, tokens = toy_model(position={"name": name, "time": "music"}).double(), toy_tokens(2, 30)
    logits = []
    for begun in (0, bars * CLOCK.bar_ticks):
        ticks = torch.full((2,), begun)
        state = replace(
            model.start(generator()), times=Times(ticks, ticks.new_zeros(2, 0), ticks.new_zeros(2))
        )
        logits.append(model.read(tokens, state)[0])
    torch.testing.assert_close(*logits, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", MUSICAL)
def test_rows_at_other_times_are_no_company(name: str) -> None:
    """A step of a row among others is, to the last bit, what it is among others that stand elsewhere."""
    model = toy_model(position={"name": name, "time": "music"}, layers=2)
    steps = FastSteps(model)
    prompts = toy_tokens(3, 30)
    prompts[1] = 5  # time stands still there
    _, together = model.prefill(prompts, model.start(generator()))
    ticks = together.times.ticks if together.times else torch.zeros(3)
    assert len(set(ticks.tolist())) > 1
    alone = [selected(together, torch.tensor([row])) for row in range(3)]
    together = selected(together, torch.arange(3))
    for step in range(20):
        given = toy_tokens(3, 1, seed=step)[:, 0]
        logits, together = steps(given, together)
        for row in range(3):
            own, alone[row] = steps(given[row : row + 1], alone[row])
            torch.testing.assert_close(own[0], logits[row], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [2, 8, 11])
def test_a_variation_does_not_depend_on_its_company(count: int) -> None:
    model = toy_model(position={"name": "sine_spe", "time": "music"}, layers=2)

    def run(variations: int) -> np.ndarray:
        asked = Request(variations=variations, seed=3, stop=Stop(tokens=80))
        return written(model, np.array([4, 3, 2, 1]), asked)

    np.testing.assert_array_equal(run(count)[:1], run(1))


def test_no_more_ticks_are_kept_than_there_are_rows_to_stand_at_them() -> None:
    model = toy_model(position={"name": "sine_spe", "time": "music"})
    steps = FastSteps(model)
    _, state = model.prefill(toy_tokens(3, 10), model.start(generator()))
    for step in range(40):
        _, state = steps(toy_tokens(3, 1, seed=step)[:, 0], state)
        assert 1 <= len(state.code.ticks[0]) <= 2 * 3


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"position": {"name": "rope", "time": "music"}, "clock": None}, "needs the clock of the language"),
        ({"position": {"name": "sine_spe", "time": "bars"}}, "time is 'bars'; it must be one of tokens, music"),
        ({"position": {"name": "conv_spe", "time": "music"}}, "'conv_spe' cannot count musical time; rope, .* can"),
        ({"position": {"name": "learned", "time": "music"}}, "'learned' cannot count musical time"),
        ({"vocabulary_size": 3}, "the clock moves by token 3, but there are 3 tokens"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(changes: dict[str, Any], says: str) -> None:
    given = toy_config().plain() | {"clock": CLOCK, **changes}
    with pytest.raises(ValueError, match=says):
        ModelConfig.read(given)


def test_a_model_of_before_musical_time_counts_tokens() -> None:
    plain = toy_config(position="sine_spe", clock=None).plain()
    del plain["position"]["time"], plain["position"]["orthogonal"]
    model = Performer(ModelConfig.read(plain), 0)
    assert not model.position.musical
    assert model.time is None
