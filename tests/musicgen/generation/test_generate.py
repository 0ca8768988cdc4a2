"""Continuing a prompt."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from musicgen.eager import network_of
from musicgen.generation.batch import Batch, Network
from musicgen.generation.engine import Engine
from musicgen.generation.request import Job, Request
from musicgen.generation.sampling import Sampling
from tests.musicgen.generation.test_engine import asked
from tests.musicgen.kernel.test_network import in_8_bits
from tests.musicgen.toys import METRE, VOCABULARY, Alternating, generator, toy_model

PROMPT = np.array([4, 3, 2, 1])
PLAIN = Sampling()
ENDED = -1  # in place of a token, for a variation that has ended or has no new token


def streamed(network: Network, job: Job) -> Iterator[np.ndarray]:
    """Yield the new tokens of all variations at each step, (variations,), ENDED for those that have ended."""
    engine = Engine(network)
    engine.add(job)
    while engine.work():
        given = np.array([row[-1] if row else ENDED for _, row in job.fresh()])
        if (given != ENDED).any():
            yield given
    job.check()


def run(
    network: Network, prompt: Any = PROMPT, grammar: Any = None, *, tokens: int | None = None, variations: int = 1,
    seed: int = 0, sampling: Sampling = PLAIN, **ordered: Any,
) -> np.ndarray:  # fmt: skip
    """Return the new tokens of all variations, (variations, T), ENDED after the end of each."""
    request = Request(tokens=tokens, variations=variations, seed=seed, sampling=sampling)
    job = asked(prompt, request, grammar, ordered)
    for _ in streamed(network, job):
        pass
    rows = np.full((variations, job.steps), ENDED)
    for row, new in zip(rows, job.rows, strict=True):
        row[: len(new)] = new
    return rows


@pytest.fixture(scope="module")
def network() -> Network:
    return network_of(toy_model(position="sine_spe", layers=2))


def test_the_same_request_gives_the_same_tokens_and_another_seed_others(network: Network):
    request = {"variations": 2, "tokens": 40}
    first = run(network, seed=1, **request)
    np.testing.assert_array_equal(first, run(network, seed=1, **request))
    assert (first != run(network, seed=2, **request)).any()
    assert (first[0] != first[1]).any()
    many = run(network, seed=1, variations=70, tokens=40)[:2]  # in several turns
    for row, own in zip(many, first, strict=True):
        np.testing.assert_array_equal(row[row != ENDED], own)
    # To numpy, a seed of more than 32 bits is several numbers, as are a seed and a variation.
    far = run(network, seed=1 + (1 << 32), tokens=40)
    assert (far[0] != first[1]).any()


@pytest.mark.parametrize(
    "parts", [{"position": "rope"}, {"position": "absolute", "attention": "softmax"}], ids=str
)
def test_generation_follows_the_model_step_by_step(parts: Any):
    model = in_8_bits(toy_model(layers=2, **parts))
    tokens = run(network_of(model), sampling=Sampling(temperature=0), tokens=20)[0]
    whole = torch.from_numpy(np.concatenate([PROMPT, tokens]))[None]
    with torch.no_grad():
        logits = model(whole, code=model.begin(generator()))
    likeliest = logits[0, len(PROMPT) - 1 : -1].argmax(-1)
    np.testing.assert_array_equal(tokens, likeliest)


def test_a_grammar_is_obeyed_and_not_modified(network: Network):
    grammar = Alternating()
    tokens = run(network, grammar=grammar, variations=3, tokens=300)
    parity = np.concatenate([np.full((3, 1), PROMPT[-1]), tokens], axis=1)
    live = tokens != ENDED
    assert ((parity[:, 1:] + parity[:, :-1]) % 2 == 1)[live].all()
    assert grammar.last == 1
    for row in tokens:  # a dead end of the grammar ends a variation
        end = row.tolist().index(Alternating.END)
        assert (row[end + 1 :] == ENDED).all()


def test_the_end_token_ends_a_variation_and_drops_it_from_the_batch(
    network: Network, monkeypatch: Any
):
    rows, append = [], Batch.append  # of each step

    def counting(batch: Any, prefixes: Any, tokens: Any) -> None:
        rows.append(len(prefixes))
        append(batch, prefixes, tokens)

    monkeypatch.setattr(Batch, "append", counting)
    tokens = run(network, variations=4, seed=1, end=5, tokens=300)
    ends = [row.tolist().index(5) for row in tokens]
    assert len(set(ends)) > 1
    for row, end in zip(tokens, ends, strict=True):
        assert (row[end + 1 :] == ENDED).all()
        assert (row[:end] != ENDED).all()
    assert tokens.shape[1] == max(ends) + 1
    assert rows == [sum(end > i for end in ends) for i in range(max(ends))]


def test_music_stops_before_the_token_that_begins_a_bar(network: Network):
    prompt = [0, 1, 0, 3]  # has begun the bars 0 and 1
    asked = (network, prompt, Alternating())
    free = run(*asked, variations=3, seed=5, tokens=400)
    limited = run(*asked, variations=3, seed=5, before_bar=4)
    for a, b in zip(free, limited, strict=True):
        third = np.flatnonzero(a == 0)[2:3]
        length = third[0] if len(third) else np.flatnonzero(a != ENDED)[-1] + 1
        np.testing.assert_array_equal(b[b != ENDED], a[:length])


def test_without_a_length_generation_continues_until_closed(network: Network):
    stream: Any = streamed(network, asked(PROMPT, Request()))
    assert len(list(islice(stream, 100))) == 100
    stream.close()
    assert next(stream, None) is None


def sizes(value: Any) -> list[int]:
    """Return the number of elements of every tensor inside a state."""
    if isinstance(value, torch.Tensor):
        return [value.numel()]
    parts = getattr(value, "__dict__", {}).values()
    if isinstance(value, tuple | list | dict):
        parts = value.values() if isinstance(value, dict) else value
    return [size for part in parts for size in sizes(part)]


@pytest.mark.parametrize(
    ("position", "metre"),
    [("rope", METRE), ("sine_spe", None), ("conv_spe", None), ("permuteformer", None)],
)
def test_the_state_does_not_grow(position: str, metre: Any):
    model = toy_model(position=position, metre=metre)
    state, seen = model.start(generator()), []
    for _ in range(8):
        # Codes are computed ahead in windows of 64 positions, so sizes repeat at multiples of 64.
        for width in (100, *[1] * 28):
            state = model.prefill(torch.ones(1, width, dtype=torch.long), state)[1]
        seen.append((state.position, sum(sizes(state))))
    assert [at for at, _ in seen] == list(range(128, 1025, 128))
    assert 0 < seen[0][1] == seen[-1][1]


def test_a_long_prompt_is_read_in_windows(network: Network, monkeypatch: Any):
    prompt = np.arange(50) % VOCABULARY
    whole = run(network, prompt, tokens=5)
    monkeypatch.setattr("musicgen.generation.engine.WINDOW", 7)
    np.testing.assert_array_equal(run(network, prompt, tokens=5), whole)


def test_invalid_calls_are_refused():
    with pytest.raises(ValueError, match="seed is -1"):
        Request(seed=-1)


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_damaged_weights_are_reported(attention: str):
    damaged = toy_model(attention=attention, position="none")
    torch.nn.init.constant_(damaged.embedding.weight, 3e38)
    fine, broken = asked(PROMPT, Request(tokens=3)), asked(PROMPT[:2], Request(variations=3))
    engine = Engine(network_of(damaged))
    for job in (fine, broken):
        engine.add(job)
    while engine.work():
        pass
    for job in (fine, broken):
        with pytest.raises(ValueError, match="output is not finite"):
            job.check()
        assert job.rows == [[]] * len(job.rows)
    torch.nn.init.constant_(damaged.embedding.weight, torch.nan)
    with pytest.raises(ValueError, match="not finite"):
        list(streamed(network_of(damaged), asked(PROMPT, Request())))
