"""Continue a sequence of tokens: the prompt in one pass, then token by token from a state that does not grow.

Variations of one prompt are rows of one batch. Each draws from its own stream of randomness, seeded by the request's
seed and the variation's number, and all share the encoding's code, drawn from the seed.

The promise: on one machine and device the same request gives the same music, and variation i is the same however many
are asked for. On a CPU it holds to the last bit: matrices are multiplied in ways that treat 1 to 8 rows alike
(few_rows.py), all else is computed row by row or number by number, and more variations go in groups of 8. On a GPU, and
between machines, it holds to rounding: sooner or later another token is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from musicgen.generation.fast_steps import FastSteps
from musicgen.generation.sampling import Sampling, draw, probabilities
from musicgen.layers.few_rows import MOST
from musicgen.model.performer import Performer, State

ENDED = -1  # stands in the stream for a variation that has ended
WINDOW = 1024  # tokens of the prompt absorbed at once: bounds the memory of any prompt


class Grammar(Protocol):
    """What may follow each of B prefixes."""

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun: (B,)."""
        ...

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool; none in a row ends that variation."""
        ...

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return what each row takes in place of the allowed token that was drawn, as a rule that one: (B,)."""
        ...

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row, one that `instead` returned: (B,)."""
        ...

    def select(self, rows: np.ndarray) -> Grammar:
        """Return a grammar of copies of the given rows."""
        ...


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When a variation ends: whichever comes first; with none of these, when it is cancelled."""

    tokens: int | None = None  # so many new tokens
    before_bar: int | None = (
        None  # before the token that begins it, from 0 at the first of the prompt; needs a grammar
    )
    end: int | None = None  # this token, which is still given out

    def __post_init__(self) -> None:
        for name in ("tokens", "before_bar"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; to continue at all it is 1 or more")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for; the same request to the same model gives the same tokens."""

    variations: int = 1
    seed: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    stop: Stop = field(default_factory=Stop)

    def __post_init__(self) -> None:
        if self.variations < 1:
            raise ValueError(f"variations is {self.variations}; it is 1 or more")
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed is {self.seed}; it is 0 or more, and less than 2 to the 63")


def generate(
    model: Performer,
    prompt: Any,
    request: Request,
    *,
    grammar: Grammar | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[np.ndarray]:
    """Yield the new tokens of all variations as they come: an array (variations,) a step, ENDED where one has ended.

    `grammar` stands before the first token of one sequence and is copied; a prompt that breaks it is refused.
    `cancelled` is asked before every step (an Event's `is_set`, say); closing the iterator ends the work as well.
    """
    ids = _checked(model, prompt)
    if request.stop.before_bar is not None and grammar is None:
        raise ValueError("to stop before a bar takes a grammar, which counts them")
    after_prompt = None if grammar is None else _after_prompt(grammar, ids)
    return _stream(model, ids, request, after_prompt, cancelled)


def absorb(
    model: Performer, ids: np.ndarray, seed: int, cancelled: Callable[[], bool] = lambda: False
) -> tuple[Tensor, State] | None:
    """Return the logits after a prompt, (1, V), and the state there; None if cancelled on the way."""
    device = model.embedding.weight.device
    tokens = torch.from_numpy(ids).to(device)[None]
    state = model.start(torch.Generator().manual_seed(seed))
    logits = None
    for window in tokens.split(WINDOW, dim=1):
        if cancelled():
            return None
        logits, state = model.prefill(window, state)
    assert logits is not None, "a checked prompt has at least one token"
    return logits, state


def _stream(
    model: Performer,
    ids: np.ndarray,
    request: Request,
    grammar: Grammar | None,
    cancelled: Callable[[], bool],
) -> Iterator[np.ndarray]:
    absorbed = absorb(model, ids, request.seed, cancelled)
    if absorbed is None:
        return
    everyone = np.arange(request.variations)
    size = MOST if absorbed[0].device.type == "cpu" else request.variations
    groups = [everyone[i : i + size] for i in range(0, request.variations, size)]
    streams = [_vary(model, absorbed, request, g, grammar, cancelled) for g in groups]
    ended = np.full(size, ENDED)
    for parts in zip_longest(*streams):
        yield np.concatenate(
            [ended[: len(g)] if p is None else p for g, p in zip(groups, parts, strict=True)]
        )


def _vary(
    model: Performer,
    absorbed: tuple[Tensor, State],
    request: Request,
    variations: np.ndarray,
    grammar: Grammar | None,
    cancelled: Callable[[], bool],
) -> Iterator[np.ndarray]:
    """Yield the tokens of a group of variations."""
    stop = request.stop
    streams = [np.random.default_rng([request.seed, int(i)]) for i in variations]
    steps = FastSteps(model)
    rows = _Rows(*absorbed, grammar, np.zeros(1, np.int64)).select(np.zeros_like(variations))
    rows = replace(rows, live=np.arange(len(variations)))
    for step in count(1):
        if cancelled():
            return
        allowed = None if rows.grammar is None else rows.grammar.allowed()
        if allowed is not None and not allowed.any(axis=-1).all():
            possible = np.flatnonzero(allowed.any(axis=-1))
            rows, allowed = rows.select(possible), allowed[possible]
        if not len(rows.live):
            return
        uniforms = np.array([streams[i].random() for i in rows.live])
        tokens = draw(probabilities(rows.scores(), request.sampling, allowed), uniforms)
        goes_on = np.ones(len(tokens), bool)
        if rows.grammar is not None:
            tokens = rows.grammar.instead(tokens)
            rows.grammar.advance(tokens)
            if stop.before_bar is not None:
                goes_on &= rows.grammar.bars <= stop.before_bar
        if goes_on.any():
            given = np.full(len(variations), ENDED)
            given[rows.live[goes_on]] = tokens[goes_on]
            yield given
        goes_on &= tokens != (ENDED if stop.end is None else stop.end)
        if step == stop.tokens or not goes_on.any():
            return
        if not goes_on.all():
            rows, tokens = rows.select(np.flatnonzero(goes_on)), tokens[goes_on]
        rows = rows.step(steps, tokens)


@dataclass(frozen=True)
class _Rows:
    """The batch of variations still going: what follows each, the state there, and which they are."""

    logits: Tensor
    state: State
    grammar: Grammar | None
    live: np.ndarray

    def select(self, rows: np.ndarray) -> _Rows:
        """Return copies of the given rows; those of ended variations are dropped so and cost no more."""
        chosen = torch.from_numpy(rows).to(self.logits.device)
        grammar = None if self.grammar is None else self.grammar.select(rows)
        return _Rows(self.logits[chosen], self.state.select(chosen), grammar, self.live[rows])

    def step(self, steps: FastSteps, tokens: np.ndarray) -> _Rows:
        """Return the batch one token further."""
        logits, state = steps(torch.from_numpy(tokens).to(self.logits.device), self.state)
        return replace(self, logits=logits, state=state)

    def scores(self) -> np.ndarray:
        """Return the logits, (rows, V): the one wait for the device in a step."""
        scores = self.logits.float().cpu().numpy()
        if not np.isfinite(scores).all():
            raise ValueError(
                "the model's output is not finite: its weights are damaged or its training diverged"
            )
        return scores


def _after_prompt(grammar: Grammar, ids: np.ndarray) -> Grammar:
    """Return a copy of the grammar that has taken the prompt."""
    grammar = grammar.select(np.zeros(1, dtype=np.int64))
    for place, token in enumerate(ids):
        if not grammar.allowed()[0, token]:
            raise ValueError(
                f"token {token} at place {place} of the prompt may not stand there in this language"
            )
        grammar.advance(ids[place : place + 1])
    return grammar


def _checked(model: Performer, prompt: Any) -> np.ndarray:
    ids = np.asarray(prompt).astype(np.int64)
    size = model.config.vocabulary_size
    if ids.ndim != 1:
        raise ValueError(f"the prompt has {ids.ndim} dimensions; it is one sequence of tokens")
    if not len(ids):
        raise ValueError("the prompt is empty; give at least one token, the begin token say")
    if ids.min() < 0 or ids.max() >= size:
        wrong = ids[(ids < 0) | (ids >= size)][0]
        raise ValueError(
            f"the prompt has token {wrong}, but the model knows 0 … {size - 1}; is it of another language?"
        )
    if model.training:
        raise ValueError("the model is in training mode; call its eval() before generating")
    return ids
