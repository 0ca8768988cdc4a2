"""A request at work: what it asked for, what has come of it, and its groups of rows that go on together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from musicgen.common.learning import generator_from
from musicgen.generation.request import Order, Progress
from musicgen.linear import MOST
from musicgen.performer import Performer, State
from tokenization.grammar import Grammar

WINDOW = 1024  # tokens read by the same products: bounds the memory of any prompt

After = tuple[Tensor, State]  # the logits after the last token, (1, V), and the state there


def noise_of(ids: np.ndarray) -> torch.Generator:
    """Return what an encoding of position draws from after a prompt: whatever the seed, requests share its state."""
    return generator_from(crc32(ids.astype(np.int64).tobytes()))


class ReadPrompt:
    """A prompt that is being read, and the state after it, which requests with the same prompt share."""

    def __init__(self, model: Performer, wanted: Order) -> None:
        self._pieces = _read_by_layers(model, wanted)
        self.after: After | None = None

    def go_on(self) -> None:
        """Read a piece more; at the end there is the state `after` the prompt."""
        try:
            next(self._pieces)
        except StopIteration as end:
            self.after = end.value


def _read_by_layers(model: Performer, wanted: Order) -> Generator[None, None, After]:
    """Return the logits and the state after a prompt; yields after each piece of the work: a window in one layer.

    So others need not wait for a long one. Cut in time instead, products would have other sizes, and with them other
    last bits.
    """
    tokens = torch.from_numpy(wanted.ids).to(model.embedding.weight.device)[None]
    state = model.start(noise_of(wanted.ids))
    if model.recall is not None:
        recalls = model.recall.begin(
            elsewhere=wanted.elsewhere, unlike=wanted.unlike, sources=wanted.sources,
            strength=wanted.request.sampling.recall,
        )  # fmt: skip
        state = replace(state, recalls=(recalls,))
    logits = None
    for window in tokens.split(WINDOW, dim=1):
        logits, state = yield from model.prefill_in_pieces(window, state)
    assert logits is not None, "a checked prompt has at least one token"
    for recalled in state.recalls or ():
        recalled.get_used()
    return logits, state


@torch.inference_mode()
def state_after_a_token(model: Performer) -> State:
    """Return the state of a row as it is at first; that of a softmax grows."""
    token = torch.zeros(1, 1, dtype=torch.long, device=model.embedding.weight.device)
    return model.prefill(token, model.start(torch.Generator().manual_seed(0)))[1]


BAR_SECONDS = 2.0  # how long a bar of four takes at 120 beats a minute


def checked(model: Performer, prompt: Any) -> np.ndarray:
    """Return a prompt's tokens, or say what is wrong with them."""
    ids = np.asarray(prompt).astype(np.int64)
    size = model.config.vocabulary_size
    if ids.ndim != 1:
        raise ValueError(f"the prompt has {ids.ndim} dimensions; it must be one sequence of tokens")
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


class Job(Progress):
    """A request at work."""

    def __init__(
        self,
        model: Performer,
        wanted: Order,
        cancelled: Callable[[], bool] = lambda: False,
        owner: str = "",
    ) -> None:
        """Refuse a prompt of another language."""
        variations = wanted.request.variations
        super().__init__(variations)
        self.ids, self.order, self.request = checked(model, wanted.ids), wanted, wanted.request
        self.cancelled, self.owner = cancelled, owner
        self.prompt = wanted.prompt
        self.groups = [
            RowGroup(self, range(first, min(first + MOST, variations)), wanted.grammar)
            for first in range(0, variations, MOST)
        ]
        self._seen = [0] * variations

    @property
    def bars(self) -> int:
        return min((group.bars for group in self.groups if len(group)), default=0)

    def let_go(self) -> None:
        """Hold nothing but what has come of it: neither states nor groups, whose rings would wait for a collector."""
        self.groups, self.cancelled = [], lambda: False

    def fresh(self) -> list[list[int]]:
        """Return what is new in each variation since the last time."""
        new = [row[seen:] for row, seen in zip(self.rows, self._seen, strict=True)]
        self._seen = [seen + len(more) for seen, more in zip(self._seen, new, strict=True)]
        return new


class RowGroup:
    """Up to eight variations of a job, which take their steps together."""

    def __init__(self, job: Job, variations: range, after_prompt: Grammar) -> None:
        self.job, self.live = job, np.array(variations)
        self.numbers: list[int] = []  # of the rows in the batch
        self.scores = np.empty(0)  # the logits of what comes next: (rows, V)
        self.given = np.empty(0, np.int64)  # tokens that were drawn and are to be absorbed
        # Where music is guided, each row has a twin that does not see what guides it: its number, and its logits.
        self.twins: list[int] = []
        self._unguided = np.empty(0)
        self.heard_since: float | None = None  # when there was something to hear
        self.steps = 0
        self._random: list[np.random.Generator] = []
        # Of these rows, up to when they draw with others.
        self.grammar = after_prompt.select(np.zeros_like(self.live))
        self._begun = self.grammar.bars  # of each row
        self._first_bars = int(self._begun[0])

    def __len__(self) -> int:
        return len(self.live)

    @property
    def size(self) -> int:
        """How many rows of the batch it takes."""
        return len(self) * (2 if self.job.order.guiding else 1)

    @property
    def bars(self) -> int:
        """How many bars have begun since the first token, in each of the variations."""
        return int(self._begun.min()) - self._first_bars if len(self._begun) else 0

    def lead(self, now: float) -> float:
        """Return how many bars it is ahead of what is heard of it."""
        bars = self.bars
        if bars < 1:
            return 0.0
        self.heard_since = self.heard_since or now
        return bars - (now - self.heard_since) / BAR_SECONDS

    def start(self, numbers: list[int], scores: np.ndarray) -> None:
        """Stand after the prompt."""
        everyone = np.zeros_like(self.live)
        seed = self.job.request.seed
        self.numbers, self.twins = numbers[: len(self)], numbers[len(self) :]
        self.scores, self.given = scores[everyone], everyone
        self._unguided = self.scores.copy()
        low, high = seed & 0xFFFFFFFF, seed >> 32  # apart: numpy takes numbers 32 bits at a time
        self._random = [np.random.default_rng([low, int(i), high]) for i in self.live]

    def uniforms(self) -> list[float]:
        """Return a random number a row."""
        return [random.random() for random in self._random]

    def take(self, tokens: np.ndarray, begun: np.ndarray) -> np.ndarray:
        """Take a token a row, with which so many bars have begun, (rows,) each; returns which rows go on."""
        order, goes_on = self.job.order, np.ones(len(tokens), bool)
        self._begun = begun
        if order.before_bar is not None:
            goes_on &= begun <= order.before_bar
        for variation, token in zip(self.live[goes_on], tokens[goes_on].tolist(), strict=True):
            self.job.rows[variation].append(token)
        if order.end is not None:
            goes_on &= tokens != order.end
        self.steps += 1
        if self.steps == order.request.tokens:
            goes_on[:] = False
        self.given = tokens
        return goes_on

    def following(self) -> np.ndarray:
        """Return which rows have a twin that takes their token."""
        if not self.twins:
            return np.empty(0, np.int64)
        return np.flatnonzero(~np.isin(self.given, self.job.order.guiding))

    def guide(self, following: np.ndarray, scores: np.ndarray) -> None:
        """Take the logits of twins that took a token, and let the music keep to what they do not see."""
        if self.twins:
            self._unguided[following] = scores
            more = self.job.request.sampling.guidance - 1
            self.scores = self.scores + more * (self.scores - self._unguided)

    def keep(self, rows: np.ndarray) -> list[int]:
        """Keep some rows, (rows,) bool, and return the numbers of the others."""
        kept = np.flatnonzero(rows)
        stay = [self.numbers[row] for row in kept], [self.twins[row] for row in kept if self.twins]
        gone = [*{*self.numbers, *self.twins}.difference(*stay)]
        self.numbers, self.twins = stay
        self._unguided = self._unguided[kept]
        self._random = [self._random[row] for row in kept]
        self.live, self.scores = self.live[kept], self.scores[kept]
        self.given = self.given[kept]
        self.grammar, self._begun = self.grammar.select(kept), self._begun[kept]
        return gone


def with_rows(groups: Sequence[RowGroup]) -> list[tuple[RowGroup, slice]]:
    """Return each group with where its rows are among those of all, one group after the other."""
    stops = accumulate(map(len, groups))
    return [
        (group, slice(stop - len(group), stop)) for group, stop in zip(groups, stops, strict=True)
    ]
